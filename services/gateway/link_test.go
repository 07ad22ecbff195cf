package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway"
)

// notifier is the client of a notifier, which mints.
func (s *site) notifier() *bus.Client {
	s.t.Helper()
	c, err := bus.Connect(s.t.Context(), s.creds(bus.RoleNotifier, ""), bus.Options{})
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

// user invites somebody with a role for everything.
func (r *running) user(id, role string) {
	r.t.Helper()
	code, raw := r.call("POST", "/api/users", r.token, fmt.Sprintf(`{"id":%q,"name":%q,"roles":[{"role":%q,"projects":["*"]}]}`, id, strings.ToUpper(id[:1])+id[1:], role))
	require.Equal(r.t, http.StatusOK, code, "%s", raw)
}

// open waits until so many interactions wait, and returns them.
func (r *running) open(n int) []wire.Interaction {
	r.t.Helper()
	var list []wire.Interaction
	require.Eventually(r.t, func() bool {
		code, raw := r.call("GET", "/api/interactions", r.token, "")
		require.Equal(r.t, http.StatusOK, code)
		var out wire.ListReply
		require.NoError(r.t, json.Unmarshal(raw, &out))
		list = out.Interactions
		return len(list) == n
	}, patience, 10*time.Millisecond)
	return list
}

func mint(t *testing.T, n *bus.Client, key, person string) wire.TicketReply {
	t.Helper()
	var out wire.TicketReply
	require.NoError(t, n.Call(t.Context(), wire.VerbTicket, wire.TicketCall{
		Key: key, People: []string{person}, Recipient: person, Channel: "mail", Via: wire.TicketLink,
	}, &out))
	return out
}

// linkPage is a page as it came.
type linkPage struct {
	status int
	header http.Header
	text   string
}

// visit asks a gateway for a page of a link. Redirects are not followed.
func visit(t *testing.T, g *running, method, path string, form url.Values) linkPage {
	t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.Addr()+path, body)
	require.NoError(t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	c := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := c.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return linkPage{res.StatusCode, res.Header, string(raw)}
}

var hidden = regexp.MustCompile(`name="(digest|shown)" value="([^"]*)"`)

// form is what the page's form sends with a word.
func (p linkPage) form(word string) url.Values {
	v := url.Values{"word": {word}}
	for _, m := range hidden.FindAllStringSubmatch(p.text, -1) {
		v.Set(m[1], m[2])
	}
	return v
}

func pathOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u.Path
}

// command is a request to run a shell command.
func command(key, text string) *hitl.Request {
	r := request(key)
	r.Tool.Input = []byte(fmt.Sprintf(`{"command":%q}`, text))
	return r
}

// A link that was told decides once, by the word of whoever has it, whatever other
// gateway is asked; and looking never does.
func TestTheLinkOfAnAlert_B62_B57_B67_invariant1_invariant5(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var logged bytes.Buffer
	out := &lockedWriter{w: &logged}
	log := func(o *gateway.Options) {
		o.Logger = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	g, other := s.gateway(log), s.gateway(log)
	g.user("ada", "approver")
	n := s.notifier()
	got := askFor(t, s.client("agents"), command("k1", "make <b>test</b>"))
	ix := g.open(1)[0]
	link := mint(t, n, ix.Key, "ada")
	require.Equal(t, []string{"deny", "allow"}, link.Decisions)
	require.True(t, strings.HasPrefix(link.URL, "http://"+g.Addr()+"/l/ticket_") || strings.HasPrefix(link.URL, "http://"+other.Addr()+"/l/ticket_"), link.URL)
	path := pathOf(t, link.URL)

	// Whatever only looks changes nothing, on both gateways.
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT"} {
		for _, gw := range []*running{g, other} {
			for _, at := range []string{path, path + "?word=approve&digest=" + ix.Digest, path + "/", "/l/", "/l/page.css"} {
				visit(t, gw, method, at, nil)
			}
		}
	}
	require.Len(t, g.open(1), 1)

	p := visit(t, other, "GET", path, nil)
	require.Equal(t, http.StatusOK, p.status)
	require.Equal(t, "no-store", p.header.Get("Cache-Control"))
	require.Equal(t, "no-referrer", p.header.Get("Referrer-Policy"))
	require.Equal(t, "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'", p.header.Get("Content-Security-Policy"))
	require.NotContains(t, p.text, "<script")
	require.NotContains(t, p.text, "<b>test</b>", "what an agent wrote is text")
	require.Contains(t, p.text, "make &lt;b&gt;test&lt;/b&gt;")

	// A form without a word, with another one, or that was shown something else.
	for word, status := range map[string]int{"": 400, "yes": 400, "approve deny": 400} {
		require.Equal(t, status, visit(t, g, "POST", path, p.form(word)).status, "%q", word)
	}
	bent := p.form("approve")
	bent.Set("shown", strings.Repeat("0", 64))
	require.Equal(t, http.StatusConflict, visit(t, g, "POST", path, bent).status)
	bent = p.form("approve")
	bent.Set("digest", strings.Repeat("0", 64))
	require.Equal(t, http.StatusConflict, visit(t, g, "POST", path, bent).status)
	bent = p.form("approve")
	bent.Del("shown")
	require.Equal(t, http.StatusBadRequest, visit(t, g, "POST", path, bent).status)
	require.Len(t, g.open(1), 1)

	// Both words at once on both gateways: one of them counts.
	var wg sync.WaitGroup
	results := make([]linkPage, 8)
	for i := range results {
		wg.Go(func() {
			results[i] = visit(t, []*running{g, other}[i%2], "POST", path, p.form([]string{"approve", "deny"}[i/2%2]))
		})
	}
	wg.Wait()
	a := take(t, got)
	good := map[hitl.Outcome]int{}
	for i, r := range results {
		if r.status == http.StatusSeeOther {
			require.Equal(t, path, r.header.Get("Location"))
			good[[]hitl.Outcome{hitl.Allowed, hitl.Denied}[i/2%2]]++
		}
	}
	require.Len(t, good, 1)
	require.NotZero(t, good[a.Decision.Outcome])
	require.Equal(t, hitl.Principal{Kind: "person", ID: "ada", Name: "Ada"}, a.Decision.Principal)
	require.Equal(t, "link:mail", a.Decision.Channel)
	require.Equal(t, "link", a.Decision.Assurance)
	require.Equal(t, "127.0.0.1", a.Decision.From)

	// It ends with the decision, and says who and when.
	for _, gw := range []*running{g, other} {
		require.Eventually(t, func() bool { return strings.Contains(visit(t, gw, "GET", path, nil).text, "by Ada") }, patience, 10*time.Millisecond)
		p := visit(t, gw, "GET", path, nil)
		require.Contains(t, p.text, a.Decision.DecidedAt.UTC().Format("2006-01-02 15:04:05 UTC"))
		require.NotContains(t, p.text, "<form")
		require.NotContains(t, p.text, "make &lt;b&gt;", "and no more of what it was about than the sentence above it: "+p.text)
	}

	// The token is in no log, and the bucket has its hash only.
	token := strings.TrimPrefix(path, "/l/")
	out.mu.Lock()
	said := logged.String()
	out.mu.Unlock()
	require.Contains(t, said, "channel=link:mail")
	require.NotContains(t, said, strings.TrimPrefix(token, wire.TicketPrefix))
	var stored []string
	js, err := jetstream.New(s.connect(bus.RoleGateway))
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), journal.TicketsBucket)
	require.NoError(t, err)
	keys, err := kv.Keys(t.Context())
	require.NoError(t, err)
	for _, k := range keys {
		e, err := kv.Get(t.Context(), k)
		require.NoError(t, err)
		stored = append(stored, k, string(e.Value()))
	}
	require.NotContains(t, strings.Join(stored, " "), strings.TrimPrefix(token, wire.TicketPrefix))
}

// A link is enough for little: grave requests are denied by it, and no more.
func TestALinkIsNotEnoughForGraveRisks_B57(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway(func(o *gateway.Options) { o.Critical = []string{"/vault"} })
	g.user("ada", "approver")
	g.user("rae", "responder")
	n := s.notifier()
	c := s.client("agents")
	for risk, text := range map[string]string{"high": "rm -rf /srv/data", "critical": "cat /vault"} {
		got := askFor(t, c, command("k"+risk, text))
		ix := g.open(1)[0]
		require.Equal(t, risk, ix.Risk)
		link := mint(t, n, ix.Key, "ada")
		require.Equal(t, []string{"deny"}, link.Decisions)
		path := pathOf(t, link.URL)
		p := visit(t, g, "GET", path, nil)
		require.Contains(t, p.text, "you have to sign in")
		require.Contains(t, p.text, `href="/#/i/`+ix.Key+`"`)
		require.NotContains(t, p.text, "<b>approve</b>")
		refused := visit(t, g, "POST", path, p.form("approve"))
		require.Equal(t, http.StatusForbidden, refused.status)
		require.Contains(t, refused.text, "sign in to let this go on")
		require.Len(t, g.open(1), 1)
		// The refusal has used nothing up.
		f := p.form("deny")
		f.Set("message", "not on a Friday")
		require.Equal(t, http.StatusSeeOther, visit(t, g, "POST", path, f).status)
		a := take(t, got)
		require.Equal(t, hitl.Denied, a.Decision.Outcome)
		require.Equal(t, "not on a Friday", a.Decision.Message)
		g.open(0)
	}

	// A question has no buttons, and the link no right that its person has not.
	question := &hitl.Request{
		Key: "q", Kind: hitl.KindQuestion, SessionID: "s1", Title: "Which?",
		Questions: []hitl.Question{{Question: "Which colour?", Options: []hitl.Option{{Value: "red", Label: "Red"}, {Value: "blue", Label: "Blue"}}}},
	}
	got := askFor(t, c, question)
	ix := g.open(1)[0]
	link := mint(t, n, ix.Key, "rae")
	require.Empty(t, link.Decisions)
	p := visit(t, g, "GET", pathOf(t, link.URL), nil)
	require.NotContains(t, p.text, "<form")
	require.Contains(t, p.text, "Sign in and answer")
	bent := url.Values{"word": {"approve"}, "digest": {ix.Digest}, "shown": {"x"}}
	require.GreaterOrEqual(t, visit(t, g, "POST", pathOf(t, link.URL), bent).status, 400)
	require.Len(t, g.open(1), 1)
	code, raw := g.call("POST", "/api/interactions/"+ix.Key+"/decision", g.token, fmt.Sprintf(`{"digest":%q,"action":"dismiss"}`, ix.Digest))
	require.Equal(t, http.StatusOK, code, "%s", raw)
	take(t, got)
}

// A command of several parts is shown with each of them, as on a card.
func TestALinkShowsEachPartOfACommand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	g.user("ada", "approver")
	n := s.notifier()
	askFor(t, s.client("agents"), command("parts", "make test && bash -c 'rm -rf build/'"))
	p := visit(t, g, "GET", pathOf(t, mint(t, n, g.open(1)[0].Key, "ada").URL), nil)
	require.Equal(t, http.StatusOK, p.status)
	require.Contains(t, p.text, "<li><code>make test</code>")
	require.Contains(t, p.text, "then, if that worked")
	require.Contains(t, p.text, "in its script, first")
	require.Contains(t, p.text, "deletes files for good")
}

// Whose link it is has to have the right when the link is made and when it is used.
func TestALinkGivesNoRight_B57_B56(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	g.user("ada", "approver")
	g.user("rae", "responder")
	n := s.notifier()
	got := askFor(t, s.client("agents"), command("k1", "make test"))
	ix := g.open(1)[0]
	call := func(c *bus.Client, in wire.TicketCall) string {
		err := c.Call(t.Context(), wire.VerbTicket, in, nil)
		var refused *bus.ServiceError
		require.ErrorAs(t, err, &refused)
		return refused.Body.Code
	}
	in := wire.TicketCall{Key: ix.Key, People: []string{"rae"}, Recipient: "rae", Channel: "mail", Via: wire.TicketLink}
	require.Equal(t, "forbidden", call(n, in), "a responder approves nothing")
	in.People = []string{"nobody"}
	require.Equal(t, "forbidden", call(n, in))
	in.People = nil
	require.Equal(t, "invalid", call(n, in), "an empty list is nobody")
	in.People = []string{"ada", "owner"}
	require.Equal(t, "invalid", call(n, in), "a link is of one person")
	in.People, in.Key = []string{"ada"}, "other.agents.x"
	require.Equal(t, "not_found", call(n, in))
	in.Key = ix.Key
	for _, c := range []*bus.Client{s.client("cli"), s.caller("ci")} {
		require.Equal(t, "forbidden", call(c, in), "only notifiers")
	}

	link := mint(t, n, ix.Key, "ada")
	path := pathOf(t, link.URL)
	p := visit(t, g, "GET", path, nil)
	require.Contains(t, p.text, "make test")
	// Ada is shut out: her link tells and decides nothing from now on.
	code, raw := g.call("POST", "/api/users/ada", g.token, `{"disabled":true}`)
	require.Equal(t, http.StatusOK, code, "%s", raw)
	gone := visit(t, g, "GET", path, nil)
	require.Equal(t, http.StatusNotFound, gone.status)
	require.NotContains(t, gone.text, "make test")
	require.GreaterOrEqual(t, visit(t, g, "POST", path, p.form("approve")).status, 400)
	require.Len(t, g.open(1), 1)
	// A token of a link opens no other door, and one of nobody none.
	rec, err := n.Decide(t.Context(), wire.DecideCall{ID: ix.Key, Token: link.Token, Response: hitl.Response{Digest: ix.Digest, Decision: "deny"}})
	require.NoError(t, err)
	require.Equal(t, hitl.Forbidden, rec.Status)
	rec, err = s.caller("ci").Decide(t.Context(), wire.DecideCall{ID: ix.Key, Token: link.Token, Response: hitl.Response{Digest: ix.Digest, Decision: "deny"}})
	require.NoError(t, err)
	require.Equal(t, hitl.Forbidden, rec.Status)
	for _, bad := range []string{"/l/x", "/l/ticket_", "/l/ticket_" + strings.Repeat("A", 43), "/l/" + strings.Repeat("A", 43)} {
		require.Equal(t, http.StatusNotFound, visit(t, g, "GET", bad, nil).status, bad)
		require.GreaterOrEqual(t, visit(t, g, "POST", bad, p.form("approve")).status, 400, bad)
	}
	require.Len(t, g.open(1), 1)
	code, raw = g.call("POST", "/api/interactions/"+ix.Key+"/decision", g.token, fmt.Sprintf(`{"digest":%q,"decision":"deny"}`, ix.Digest))
	require.Equal(t, http.StatusOK, code, "%s", raw)
	take(t, got)
}
