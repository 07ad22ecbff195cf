package door_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/contract/contracttest"
	"github.com/banksman/banksman/services/gateway/internal/door"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
	"github.com/banksman/banksman/services/gateway/internal/issuer"
)

// sole is what a search found where it may find one.
func sole[T any](hits []T) (one T, err error) {
	switch len(hits) {
	case 0:
		return one, api.ErrNotFound
	case 1:
		return hits[0], nil
	}
	return one, api.ErrAmbiguous
}

// refusals are the statuses that routes refused with.
type refusals struct {
	mu   sync.Mutex
	seen map[string][]int
}

func (s *refusals) watch(h *house) *house {
	h.client.Transport.(*contracttest.Transport).Seen = func(route string, status int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if status >= 400 && !slices.Contains(s.seen[route], status) {
			s.seen[route] = append(s.seen[route], status)
		}
	}
	return h
}

// team has people reach a house over TLS, at least by its address.
func team(t *testing.T) func(*door.Options) {
	return func(o *door.Options) { o.BaseURL = mustURL(t, teamURL) }
}

// madeUp is the token of a link, an invitation or a ticket that nobody made.
var madeUp = strings.Repeat("A", 43)

// forOIDC has people signed in by p.
func forOIDC(p *idp) func(*auth.Options) {
	return func(o *auth.Options) {
		o.OIDC = &issuer.Options{
			Issuer: p.URL, Name: "Acme", ClientID: "banksman", Secret: "s3cret",
			Roles: map[string][]wire.Grant{"ops": {grant(wire.RoleApprover, "shop")}},
		}
	}
}

const goodSubscription = `{"endpoint":"https://push.example.com/x","keys":{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"AAAAAAAAAAAAAAAAAAAAAA"}}`

// What the document says of refusals is what happens: each status that it names for a
// route is given by that route here. The other direction is checked with every call of
// every test.
func TestEveryDocumentedRefusalHappens_D0_30_invariant6(t *testing.T) {
	t.Parallel()
	c, err := published()
	require.NoError(t, err)
	seen := &refusals{seen: map[string][]int{}}
	t.Run("alike on all routes", func(t *testing.T) { seen.alike(t, c) })
	t.Run("of deciding", func(t *testing.T) { seen.deciding(t) })
	t.Run("of other routes", func(t *testing.T) { seen.others(t) })
	t.Run("of reading and signing in", func(t *testing.T) { seen.signingIn(t) })
	t.Run("while the bus is away", func(t *testing.T) { seen.away(t, c) })

	var never []string
	for _, route := range c.Routes() {
		for _, status := range c.Refusals(route) {
			if !slices.Contains(seen.seen[route], status) {
				never = append(never, fmt.Sprint(route, " ", status))
			}
		}
	}
	require.Empty(t, never, "documented, and never given")
}

// address fills the places of a route with what is not there.
func address(route string) (method, path string) {
	method, path, _ = strings.Cut(route, " ")
	return method, strings.NewReplacer("{id}", "nothing", "{code}", "ABCDEFGH").Replace(path)
}

// gets makes a call and wants a status.
func (h *house) gets(want int, method, path, body string, change ...func(*http.Request)) []byte {
	h.t.Helper()
	status, raw, _ := h.call(method, path, body, change...)
	require.Equal(h.t, want, status, "%s %s: %s", method, path, raw)
	return raw
}

// alike makes what is refused before a route looks at it.
func (s *refusals) alike(t *testing.T, c *contracttest.Contract) {
	h := s.watch(newTeamHouse(t))
	h.fake.asked = func(string, hitl.Principal, []byte, time.Duration) (*wire.AskReply, *wire.Error) {
		return nil, &wire.Error{Code: string(hitl.BadInput), Error: "no request"}
	}
	big := `{"text":"` + strings.Repeat("x", 2<<20) + `"}`
	for _, route := range c.Routes() {
		method, path := address(route)
		named := c.Refusals(route)
		has := func(status int) bool { return slices.Contains(named, status) }
		if has(421) {
			h.gets(421, method, path, "", host("evil.example"))
		}
		if has(401) && !strings.HasPrefix(path, "/api/sign-in/") && path != "/api/login" {
			h.gets(401, method, path, "", func(r *http.Request) { r.Header.Del("Authorization") })
		}
		if has(403) && method != http.MethodGet {
			h.gets(403, method, path, "", header("Sec-Fetch-Site", "cross-site"))
		}
		if has(413) {
			h.gets(413, method, path, big)
			h.gets(400, method, path, "{")
		}
	}
}

// deciding makes what becomes of attempts to decide.
func (s *refusals) deciding(t *testing.T) {
	h := s.watch(newHouse(t))
	n := 0
	type way struct{ path, body string }
	ways := func(a *asked) []way {
		id := a.summary.Key
		byKey := fmt.Sprintf(`"request_id":%q`, id)
		at := "/api/sessions/" + a.req.SessionID
		if a.req.Kind == hitl.KindQuestion {
			return []way{{at + "/submit-answers", `{` + byKey + `,"answers":{"db":"SQLite"}}`}}
		}
		digest := fmt.Sprintf(`"digest":%q`, a.summary.Digest)
		token := h.ticket(a)
		return []way{
			{"/api/interactions/" + id + "/decision", `{` + digest + `,"decision":"deny"}`},
			{at + "/approve", `{` + byKey + `}`},
			{at + "/deny", `{` + byKey + `}`},
			{"/api/push/decision", `{"token":"` + token + `","decision":"deny"}`},
		}
	}
	fresh := func(kind string) *asked {
		n++
		r := bash("s1", fmt.Sprint("c", n))
		if kind == hitl.KindQuestion {
			r = question("s1", fmt.Sprint("c", n))
		}
		limit := hitl.Duration(time.Minute)
		r.ExpiresIn = &limit
		return h.fake.ask(r)
	}
	other := hitl.Principal{Kind: "person", ID: "grace", Name: "Grace"}
	for _, kind := range []string{hitl.KindApproval, hitl.KindQuestion} {
		for i := range ways(fresh(kind)) {
			a := fresh(kind)
			w := ways(a)[i]
			h.fake.set(func(f *fake) { f.forbid = true })
			h.gets(403, http.MethodPost, w.path, w.body)
			h.fake.set(func(f *fake) {
				f.forbid = false
				f.close(a, hitl.Content{Outcome: hitl.Clarify, Message: "which?"}, other, "web")
			})
			var e wire.Error
			require.NoError(t, json.Unmarshal(h.gets(409, http.MethodPost, w.path, w.body), &e))
			require.Equal(t, "Grace", e.Decision.Principal.Name, "the winner's")

			late := fresh(kind)
			w = ways(late)[i]
			h.fake.later(2 * time.Minute)
			h.gets(410, http.MethodPost, w.path, w.body)
			require.Equal(t, hitl.Expired, h.fake.decided(late).Outcome)
		}
	}
	for path, body := range map[string]string{
		"/api/interactions/nothing/decision": `{"digest":"d","decision":"deny"}`,
		"/api/sessions/s1/approve":           `{"request_id":"nothing"}`,
		"/api/sessions/s1/deny":              `{"request_id":"nothing"}`,
		"/api/sessions/s1/submit-answers":    `{"request_id":"nothing","answers":{"db":"SQLite"}}`,
	} {
		h.gets(404, http.MethodPost, path, body)
	}
	token := h.ticket(fresh(hitl.KindApproval))
	h.fake.reset() // the record of it is gone
	h.gets(404, http.MethodPost, "/api/push/decision", `{"token":"`+token+`","decision":"deny"}`)
}

// ticket is a token to decide a by the button of a notification.
func (h *house) ticket(a *asked) string {
	h.t.Helper()
	out, refused := h.alerts.Mint(context.WithoutCancel(h.t.Context()), "default", wire.TicketCall{
		Key: a.summary.Key, People: []string{auth.OwnerID}, Recipient: "ada", Channel: "push", Via: wire.TicketPush,
	})
	require.Nil(h.t, refused)
	return out.Token
}

// others makes the refusals that are a route's own.
func (s *refusals) others(t *testing.T) {
	h := s.watch(newTeamHouse(t))
	post, get, drop := http.MethodPost, http.MethodGet, http.MethodDelete
	h.fake.asked = func(_ string, _ hitl.Principal, raw []byte, _ time.Duration) (*wire.AskReply, *wire.Error) {
		code := "conflict"
		if bytes.Contains(raw, []byte("many")) {
			code = "too_many"
		}
		return nil, &wire.Error{Code: code, Error: "not this one"}
	}
	h.gets(409, post, "/api/interactions", `{"key":"k"}`)
	h.gets(429, post, "/api/interactions", `{"key":"many"}`)

	for _, path := range []string{"/api/interactions/nothing", "/api/interactions/nothing/alerts", "/api/interactions/nothing/audience", "/api/sessions/nothing/events", "/api/cli-logins/ABCDEFGH"} {
		h.gets(404, get, path, "")
	}
	for _, path := range []string{"/api/push/nothing", "/api/sign-ins/nothing", "/api/tokens/nothing", "/api/rules/nothing"} {
		h.gets(404, drop, path, "")
	}
	for path, body := range map[string]string{
		"/api/cli-logins/ABCDEFGH":        `{"allow":true}`,
		"/api/sessions/nothing/interrupt": "",
		"/api/sessions/nothing/stop":      "",
		"/api/sessions/nothing/message":   `{"text":"go on"}`,
		"/api/sessions/nothing/mode":      `{"mode":"default"}`,
		"/api/rules/nothing":              `{"version":1,"expires_in":60}`,
		"/api/rules":                      `{"request_id":"default.agents.nothing","digest":"d","expires_in":600}`,
		"/api/rules/preview":              `{"request_id":"default.agents.nothing","digest":"d","expires_in":600}`,
		"/api/users/nothing":              `{"disabled":true}`,
		"/api/users/nothing/invite":       "",
		"/api/push/renewal":               `{"user":"owner","renewal":"x","new":` + goodSubscription + `}`,
	} {
		h.gets(404, post, path, body)
	}
	h.gets(200, post, "/api/users", `{"id":"vera","roles":[{"role":"viewer","projects":["shop"]}]}`)
	h.gets(409, post, "/api/users", `{"id":"vera","roles":[{"role":"viewer","projects":["shop"]}]}`)
	h.gets(200, post, "/api/users/vera", `{"disabled":true}`)
	h.gets(400, post, "/api/users/vera/invite", "")

	call := bash("s1", "c1")
	call.ProjectID, call.AgentName, call.Key = "shop", "build-7", "twice"
	a := h.fake.ask(call)
	var made wire.MadeRule
	require.NoError(t, json.Unmarshal(h.gets(200, post, "/api/rules", wish(a, `,"pattern":"words","scope":"project"`)), &made))
	h.gets(409, post, "/api/rules/"+made.Rule.ID, `{"version":7,"expires_in":60}`)

	// Two of one id.
	h.fake.ask(call)
	h.fake.open("twin")
	h.fake.set(func(f *fake) { f.session(subject.NewSession("default", "others", "twin").String(), "twin") })
	for _, path := range []string{"/api/interactions/" + a.req.ID, "/api/interactions/" + a.req.ID + "/alerts", "/api/interactions/" + a.req.ID + "/audience", "/api/sessions/twin/events"} {
		h.gets(400, get, path, "")
	}
	h.gets(400, get, "/api/interactions?state=odd", "")
	h.fake.set(func(f *fake) { f.runtimes = []string{"claude"} })
	h.gets(400, post, "/api/demo", "")
}

// signingIn makes what people without a right, and who do not sign in well, get.
func (s *refusals) signingIn(t *testing.T) {
	p := newIDP(t)
	h := s.watch(newHouseOf(t, newStore(t, func(o *auth.Options) { o.BaseURL = mustURL(t, teamURL) }, forOIDC(p)), team(t), quick(socket.Limits{Sockets: 1})))
	post, get := http.MethodPost, http.MethodGet
	call := bash("s1", "c1")
	call.ProjectID = "shop"
	a := h.fake.ask(call)
	viewer := h.as(h.user("vera", grant(wire.RoleViewer, "shop")))
	for _, path := range []string{"/api/interactions/" + a.summary.Key + "/alerts", "/api/interactions/" + a.summary.Key + "/audience", "/api/users", "/api/tokens"} {
		viewer.gets(403, get, path, "")
	}
	var token wire.CreatedAPIToken
	require.NoError(t, json.Unmarshal(h.gets(200, post, "/api/tokens", `{"name":"ci","expires_in":600,"roles":[{"role":"viewer","projects":["shop"]}]}`), &token))
	for _, path := range []string{"/api/cli-logins", "/api/cli-logins/ABCDEFGH", "/api/push", "/api/sign-ins"} {
		h.as(token.Token).gets(403, get, path, "")
	}
	for _, path := range []string{"/api/events", "/api/sessions/s1/events"} {
		open := h.stream(path, "")
		h.gets(429, get, path, "")
		require.NoError(t, open.res.Body.Close())
		require.Eventually(t, func() bool { return h.door.Stats().Streams == 0 }, patience, 5*time.Millisecond)
	}
	h.gets(400, post, "/api/proof/begin", "") // no passkey
	for path, body := range map[string]string{
		"/api/login":                  `{"token":"` + madeUp + `"}`,
		"/api/sign-in/invite/begin":   `{"invite":"` + madeUp + `"}`,
		"/api/sign-in/invite/finish":  `{"invite":"` + madeUp + `","ceremony":"AAAA"}`,
		"/api/sign-in/passkey/finish": `{"ceremony":"AAAA"}`,
		"/api/sign-in/oidc/finish":    `{"ceremony":"AAAA","state":"s","code":"c"}`,
	} {
		h.gets(401, post, path, body)
	}
	upgrade := func(r *http.Request) {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		r.Header.Set("Sec-WebSocket-Version", "13")
	}
	h.gets(426, get, "/api/ws", "")
	h.gets(400, get, "/api/ws", "", upgrade) // no key
	h.gets(403, get, "/api/ws", "", upgrade, header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="), header("Origin", "https://evil.example"))

	plain := s.watch(newHouse(t)) // without TLS, a name and an issuer
	plain.gets(400, post, "/api/sign-in/passkey/begin", "")
	plain.gets(404, post, "/api/sign-in/oidc/begin", "")
	plain.gets(404, post, "/api/sign-in/oidc/finish", `{"ceremony":"AAAA","state":"s","code":"c"}`)
	plain.door.Drain()
	plain.gets(503, get, "/readyz", "")
}

// away makes what every route says that cannot reach the bus.
func (s *refusals) away(t *testing.T, c *contracttest.Contract) {
	store := newStore(t, func(o *auth.Options) { o.BaseURL = mustURL(t, teamURL) }, forOIDC(newIDP(t)))
	h := s.watch(newHouseOf(t, store, team(t)))
	nc, _ := servers.Load(store)
	nc.(*nats.Conn).Close()
	bodies := map[string]string{
		"/api/login":                 `{"token":"` + madeUp + `"}`,
		"/api/sign-in/invite/begin":  `{"invite":"` + madeUp + `"}`,
		"/api/sign-in/invite/finish": `{"invite":"` + madeUp + `","ceremony":"AAAA"}`,
		"/api/push/decision":         `{"token":"` + wire.TicketPrefix + madeUp + `","decision":"deny"}`,
		"/api/push/renewal":          `{"user":"owner","renewal":"x","new":` + goodSubscription + `}`,
	}
	for _, route := range c.Routes() {
		method, path := address(route)
		if path == "/readyz" || !slices.Contains(c.Refusals(route), 503) {
			continue // the engine's matter
		}
		body := bodies[path]
		if body == "" && strings.HasSuffix(path, "/finish") {
			body = `{"ceremony":"AAAA","state":"s","code":"c"}`
		}
		var e wire.Error
		require.NoError(t, json.Unmarshal(h.gets(503, method, path, body), &e))
		require.Equal(t, "unavailable", e.Code, path)
		require.NotContains(t, e.Error, "nats", path)
	}
}
