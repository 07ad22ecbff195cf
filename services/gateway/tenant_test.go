package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// estate is an installation with two tenants that have the same of everything: the
// same names, keys, sessions and project. What is acme's says so, and what is
// other's.
type estate struct {
	*site
	g     *running
	prov  *nats.Conn
	acme  *bus.Client // an owner and a caller
	other *bus.Client
	// token is a program's that may do everything, in acme.
	token string
	// kept waits for the decision about other's open request.
	kept <-chan *bus.Answer
}

const theirs = "other.agents." // the keys of what is other's begin with it

func newEstate(t *testing.T) *estate {
	t.Helper()
	e := &estate{site: &site{t: t, dir: t.TempDir()}}
	var owners []natsd.Owner
	var callers []natsd.Caller
	var pools []journal.Pool
	for _, tenant := range []string{bus.DefaultTenant, "acme", "other"} {
		owners = append(owners, natsd.Owner{Tenant: tenant, Name: "agents", Pool: true, Caller: true}, natsd.Owner{Tenant: tenant, Name: "cli", Caller: true})
		callers = append(callers, natsd.Caller{Tenant: tenant, Name: "ci"})
		pools = append(pools, journal.Pool{Tenant: tenant, Pool: "agents"})
	}
	require.NoError(t, natsd.Write(natsd.Plan{Dir: e.dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed, Owners: owners, Callers: callers}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	e.srv, err = natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(e.dir)})
	require.NoError(t, err)
	t.Cleanup(e.srv.Shutdown)
	e.prov = e.connect(bus.RoleProvisioner)
	require.NoError(t, journal.Provision(ctx, e.prov, journal.Config{Pools: pools}))
	e.g = e.gateway()
	e.acme, e.other = e.of(bus.RoleOwner, "acme", "agents"), e.of(bus.RoleOwner, "other", "agents")
	for c, tenant := range map[*bus.Client]string{e.acme: "acme", e.other: "other"} {
		hold, err := c.Claim(ctx, &hitl.SessionState{SessionID: "s1", ProjectID: "shop", Worker: "w", Generation: 1, Runtime: "demo", State: hitl.StateUserTurn, Title: "told in " + tenant})
		require.NoError(t, err)
		require.NoError(t, hold.Event(ctx, hitl.Event{Type: hitl.EventText, Data: json.RawMessage(`{"role":"user","text":"said in ` + tenant + `"}`)}))
		done := e.ask(c, tenant, "done")
		e.g.allow(subject.NewRef(tenant, "agents", hitl.ID(tenant, "agents", "done", 1)))
		require.Equal(t, hitl.Allowed, take(t, done).Decision.Outcome)
		open := e.ask(c, tenant, "open")
		if tenant == "other" {
			e.kept = open
		}
	}
	e.g.open(2)
	code, raw := e.g.call("POST", "/api/tokens", e.g.token, `{"name":"bot","roles":[{"role":"admin","projects":["*"],"tenants":["acme"]}],"expires_in":3600}`)
	require.Equal(t, 200, code, "%s", raw)
	var made wire.CreatedAPIToken
	require.NoError(t, json.Unmarshal(raw, &made))
	e.token = made.Token
	require.Eventually(t, func() bool { // the two decided ones are closed, and their requests gone
		return e.count(e.prov, journal.Events, "hitl.ixe.*.agents.>") == 6 && e.count(e.prov, journal.Requests, "hitl.req.*.*.*") == 2
	}, patience, 5*time.Millisecond)
	return e
}

// of is the client of an identity of a tenant.
func (e *estate) of(role bus.Role, tenant, name string) *bus.Client {
	e.t.Helper()
	c, err := bus.Connect(e.t.Context(), e.credsOf(role, tenant, name), bus.Options{})
	require.NoError(e.t, err)
	e.t.Cleanup(c.Close)
	return c
}

func (e *estate) credsOf(role bus.Role, tenant, name string) *bus.Credentials {
	e.t.Helper()
	c, err := bus.LoadCredentials(natsd.CredentialsFile(e.dir, role, tenant, name))
	require.NoError(e.t, err)
	return c
}

func (e *estate) ask(c *bus.Client, tenant, key string) <-chan *bus.Answer {
	r := command(key, "echo asked in "+tenant)
	r.ProjectID = "shop"
	return askFor(e.t, c, r)
}

// holdings is everything that is stored of other's.
func (e *estate) holdings(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{journal.Requests, journal.Decisions, journal.Events, journal.Transcripts, journal.Work} {
		m, err := e.prov.Request("$JS.API.STREAM.INFO."+name, []byte(`{"subjects_filter":"hitl.*.other.>"}`), patience)
		require.NoError(t, err)
		var info struct {
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		require.NoError(t, json.Unmarshal(m.Data, &info))
		var lines []string
		for s, n := range info.State.Subjects {
			lines = append(lines, fmt.Sprintf("%s %d", s, n))
		}
		slices.Sort(lines)
		fmt.Fprintln(&b, name, lines)
	}
	return b.String()
}

// nothingOfOther requires that a text, which tells of acme, tells nothing of other.
func nothingOfOther(t *testing.T, text string) {
	t.Helper()
	require.Contains(t, text, "acme", "nothing of one's own: the test looks at the wrong place")
	for _, mark := range []string{"in other", theirs, `"other"`, hitl.ID("other", "agents", "open", 1), hitl.ID("other", "agents", "done", 1)} {
		require.NotContains(t, text, mark)
	}
}

// pairs are what is asked about: other's, and of the same form what never was.
func pairs() map[string][2]string {
	open, done, never := hitl.ID("other", "agents", "open", 1), hitl.ID("other", "agents", "done", 1), hitl.ID("other", "agents", "never", 1)
	return map[string][2]string{
		"the key of what waits":      {theirs + open, theirs + never},
		"the id of what waits":       {open, never},
		"the key of what is decided": {theirs + done, theirs + never},
		"the id of what is decided":  {done, never},
		"the key of a session":       {theirs + "s1", theirs + "s2"},
	}
}

// Who belongs to one tenant sees and changes nothing of another one, by whatever
// door, and what is the other one's is answered like what never was.
func TestTenantsAreApart_B56_invariant2(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	before := e.holdings(t)
	t.Run("HTTP", e.overHTTP)
	t.Run("a socket", e.overSocket)
	t.Run("the service API", e.overService)
	t.Run("subjects of the bus", e.overBus)
	require.Equal(t, before, e.holdings(t))
	t.Run("what is told", e.told)
	// All of it was there to be seen and changed.
	e.g.allow(subject.NewRef("other", "agents", hitl.ID("other", "agents", "open", 1)))
	require.Equal(t, hitl.Allowed, take(t, e.kept).Decision.Outcome)
}

func (e *estate) overHTTP(t *testing.T) {
	for _, path := range []string{
		"/api/interactions", "/api/interactions?state=closed", "/api/interactions?state=decided", "/api/interactions?state=decided&q=asked",
		"/api/interactions?state=decided&project=shop", "/api/sessions",
	} {
		code, raw := e.g.call("GET", path, e.token, "")
		require.Equal(t, 200, code, path)
		nothingOfOther(t, string(raw))
		code, raw = e.g.call("GET", path, e.g.token, "")
		require.Equal(t, 200, code)
		require.Contains(t, string(raw), theirs, "the owner sees it: %s", path)
	}
	digest := e.digest()
	for name, p := range pairs() {
		for _, r := range []struct{ method, path, body string }{
			{"GET", "/api/interactions/%s", ""},
			{"GET", "/api/interactions/%s/audience", ""},
			{"POST", "/api/interactions/%s/decision", `{"decision":"allow","digest":"` + digest + `"}`},
			{"POST", "/api/interactions/%s/decision", `{"decision":"deny"}`},
			{"GET", "/api/sessions/%s/events", ""},
			{"POST", "/api/sessions/%s/message", `{"text":"x"}`},
			{"POST", "/api/sessions/%s/interrupt", ""},
			{"POST", "/api/sessions/%s/stop", ""},
			{"POST", "/api/sessions/%s/mode", `{"mode":"bypassPermissions"}`},
			{"POST", "/api/sessions/" + theirs + "s1/approve", `{"request_id":"%s"}`},
			{"POST", "/api/sessions/" + theirs + "s1/deny", `{"request_id":"%s"}`},
			{"POST", "/api/sessions/%s/approve", `{"tool_call_id":"call-open"}`},
			{"POST", "/api/sessions/%s/submit-answers", `{"tool_call_id":"call-open","answers":{"0":"x"}}`},
			{"GET", "/api/interactions/%s/alerts", ""},
			{"POST", "/api/seen", `{"requests":["%s"]}`},
			{"POST", "/api/rules/preview", `{"request_id":"%s","digest":"` + digest + `","effect":"allow","pattern":"exact","scope":"session","expires_in":60}`},
			{"DELETE", "/api/rules/%s", ""},
		} {
			var told [2]string
			for i, id := range p {
				code, raw := e.g.call(r.method, strings.ReplaceAll(r.path, "%s", id), e.token, strings.ReplaceAll(r.body, "%s", id))
				told[i] = fmt.Sprint(code, " ", strings.ReplaceAll(string(raw), id, "ID"))
				require.GreaterOrEqual(t, code, 400, "%s %s of %s: %s", r.method, r.path, name, raw)
			}
			require.Equal(t, told[1], told[0], "%s %s of %s", r.method, r.path, name)
		}
	}
	for _, r := range []struct {
		path, body string
		code       int
	}{
		{"/api/sessions", `{"runtime":"demo","tenant":"other","pool":"agents"}`, 403},
		{"/api/interactions?wait=0s", `{"key":"k","kind":"approval","title":"t","project_id":"shop","tool":{"name":"x","input":{}}}`, 403}, // the gateway's own tenant
		{"/api/users", `{"id":"eve","roles":[{"role":"admin","projects":["*"]}]}`, 403},
		{"/api/tokens", `{"name":"t","roles":[{"role":"admin","projects":["*"]}],"expires_in":60}`, 403},
	} {
		code, raw := e.g.call("POST", r.path, e.token, r.body)
		require.Equal(t, r.code, code, "%s: %s", r.path, raw)
	}
}

func (e *estate) digest() string {
	e.t.Helper()
	code, raw := e.g.call("GET", "/api/interactions/"+theirs+hitl.ID("other", "agents", "open", 1), e.g.token, "")
	require.Equal(e.t, 200, code)
	var ix wire.Interaction
	require.NoError(e.t, json.Unmarshal(raw, &ix))
	return ix.Digest
}

func (e *estate) overSocket(t *testing.T) {
	mine := *e.g
	mine.token = e.token
	var seen strings.Builder
	mine.socket(func(send func(any), frame json.RawMessage) bool {
		var f struct {
			Type string `json:"type"`
			More bool   `json:"more"`
			wire.Receipt
		}
		require.NoError(t, json.Unmarshal(frame, &f))
		if f.Type != wire.TypeReceipt {
			seen.Write(frame)
		}
		switch {
		case f.Type == wire.TypeActiveProcesses && !f.More:
			for i, id := range []string{"s1", "s2"} {
				send(map[string]any{"type": wire.TypeSubscribe, "ref": fmt.Sprint("sub", i), "session_id": theirs + id})
			}
			send(map[string]any{"type": wire.TypeResponse, "ref": "last", "session_id": theirs + "s1", "request_id": theirs + hitl.ID("other", "agents", "open", 1), "request_type": "tool_approval", "decision": "deny"})
		case f.Type == wire.TypeReceipt:
			require.Equal(t, hitl.NotFound, f.Status, string(frame))
			return f.Ref == "last"
		}
		return false
	})
	nothingOfOther(t, seen.String())
}

func (e *estate) overService(t *testing.T) {
	digest := e.digest()
	for _, c := range []*bus.Client{e.acme, e.of(bus.RoleCaller, "acme", "ci"), e.of(bus.RoleNotifier, "acme", "")} {
		name := fmt.Sprint(c.Credentials().Role, " ", c.Credentials().Name)
		for _, state := range []string{wire.StatePending, wire.StateClosed} {
			list, err := c.List(t.Context(), wire.ListCall{State: state})
			require.NoError(t, err, name)
			raw, err := hitl.Marshal(list)
			require.NoError(t, err)
			nothingOfOther(t, string(raw))
		}
		if c.Credentials().Role != bus.RoleNotifier {
			err := c.Call(t.Context(), wire.VerbTicket, wire.TicketCall{
				Key: "acme.agents." + hitl.ID("acme", "agents", "open", 1), People: []string{"owner"}, Recipient: "r", Channel: "c", Via: wire.TicketLink,
			}, new(wire.TicketReply))
			require.ErrorContains(t, err, "may not have tickets", name)
		}
		for what, p := range pairs() {
			for verb, in := range map[string]func(id string) any{
				wire.VerbGet:    func(id string) any { return wire.GetCall{ID: id} },
				wire.VerbExport: func(id string) any { return wire.ExportCall{ID: id, Token: e.g.token} }, // even the owner's
				wire.VerbDecide: func(id string) any {
					return wire.DecideCall{ID: id, Token: e.g.token, Response: hitl.Response{Decision: "allow", Digest: digest}}
				},
				wire.VerbTicket: func(id string) any {
					return wire.TicketCall{Key: id, People: []string{"owner"}, Recipient: "r", Channel: "c", Via: wire.TicketLink}
				},
			} {
				var told [2]string
				for i, id := range p {
					var out json.RawMessage
					err := c.Call(t.Context(), verb, in(id), &out)
					require.NotContains(t, string(out), `"accepted"`)
					told[i] = strings.ReplaceAll(fmt.Sprint(err, " ", string(out)), id, "ID")
				}
				require.Equal(t, told[1], told[0], "%s of %s by %s", verb, what, name)
				require.Regexp(t, `not_found|no such interaction|forbidden|may not have tickets|not the key`, told[0])
			}
		}
	}
	// A link signs in the owner of the installation, who is over all tenants.
	_, err := e.of(bus.RoleOwner, "acme", "cli").Login(t.Context(), wire.LoginCall{})
	require.ErrorContains(t, err, "may not begin a login")
	_, err = e.of(bus.RoleOwner, bus.DefaultTenant, "cli").Login(t.Context(), wire.LoginCall{})
	require.NoError(t, err)
	// A ticket is for the notifier of the tenant that had it made.
	var made wire.TicketReply
	require.NoError(t, e.of(bus.RoleNotifier, "other", "").Call(t.Context(), wire.VerbTicket, wire.TicketCall{
		Key: theirs + hitl.ID("other", "agents", "open", 1), People: []string{"owner"}, Recipient: "r", Channel: "c", Via: wire.TicketChat,
	}, &made))
	rec, err := e.of(bus.RoleNotifier, "acme", "").Decide(t.Context(), wire.DecideCall{Token: made.Token, Person: "owner", Response: hitl.Response{Decision: "deny", Digest: digest}})
	require.NoError(t, err)
	require.Equal(t, hitl.Forbidden, rec.Status, rec.Error)
}

func (e *estate) overBus(t *testing.T) {
	open, session := hitl.ID("other", "agents", "open", 1), "s1"
	for _, who := range []struct {
		role bus.Role
		name string
	}{{bus.RoleOwner, "agents"}, {bus.RoleCaller, "ci"}, {bus.RoleNotifier, ""}} {
		creds := e.credsOf(who.role, "acme", who.name)
		option, err := creds.Auth()
		require.NoError(t, err)
		closed, refused := make(chan struct{}), make(chan error, 1024)
		nc, err := nats.Connect(creds.URLs[0], option, nats.ClosedHandler(func(*nats.Conn) { close(closed) }),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
		require.NoError(t, err)
		c := &attacker{Conn: nc, who: string(who.role), refused: refused}
		for _, subj := range []string{
			"hitl.req." + theirs + "x", "hitl.cxl." + theirs + open, "hitl.dec." + theirs + open, "hitl.inbox." + theirs + open,
			"hitl.ack." + theirs + open + ".applied", "hitl.say.ack." + theirs + open + ".taken", "hitl.evt." + theirs + session, "hitl.ses." + theirs + session,
			"hitl.sgw." + theirs + session, "hitl.live." + theirs + session, "hitl.beat." + theirs + "w", "hitl.cmd." + theirs + session,
			"hitl.ixe." + theirs + session + "." + open + ".closed", "hitl.seen." + theirs + open, "hitl.work.other.agents", "hitl.feed.ci.other",
			"hitl.svc.other.agents.get", "hitl.svc.other.ci.list", "hitl.svc.other.notifier.ticket", "hitl.svc.other.cli.login",
			"$JS.API.DIRECT.GET.HITL_REQUESTS.hitl.req." + theirs + open, "$JS.API.DIRECT.GET.HITL_DECISIONS.hitl.dec." + theirs + open,
			"$JS.API.DIRECT.GET.HITL_TRANSCRIPTS.hitl.ses." + theirs + session, "$JS.API.CONSUMER.MSG.NEXT.HITL_WORK.other-agents",
			"$JS.API.CONSUMER.MSG.NEXT.HITL_EVENTS.notifier-other", "$JS.ACK.HITL_EVENTS.notifier-other.1.1.1.1.0",
		} {
			c.forbidden(t, subj, `{"batch":1}`)
		}
		for _, subj := range []string{
			"hitl.inbox." + theirs + "*", "hitl.cmd." + theirs + "*", "hitl.feed.ci.other", "hitl.feed.agents.other", "hitl.seen.other.*.*", "hitl.*.other.>",
		} {
			c.deaf(t, subj)
		}
		nc.Close()
		<-closed
	}
	// An id is made of its tenant: a request of acme's under the id of other's is
	// refused, and changes nothing of what other's id finds.
	nc := e.connectAs(t, bus.RoleOwner, "acme", "agents")
	r := command("open", "echo asked in acme")
	r.V, r.Tenant, r.Owner, r.ID = 1, "acme", "agents", open
	raw, err := hitl.Marshal(r)
	require.NoError(t, err)
	e.store(nc, "hitl.req.acme.agents."+open, raw)
	require.Eventually(t, func() bool { return e.count(e.prov, journal.Decisions, "hitl.dec.acme.agents."+open) == 1 }, patience, time.Millisecond)
	ix, err := e.of(bus.RoleCaller, "other", "ci").Get(t.Context(), open)
	require.NoError(t, err)
	require.Equal(t, theirs+open, ix.Key)
	require.Equal(t, wire.StatePending, ix.State)
	never := uuid.NewString()
	r.ID = never
	raw, err = hitl.Marshal(r)
	require.NoError(t, err)
	e.store(nc, "hitl.req.acme.agents."+never, raw)
	require.Eventually(t, func() bool { return e.count(e.prov, journal.Decisions, "hitl.dec.acme.agents."+never) == 1 }, patience, time.Millisecond)
	for range 2 { // while the refused requests lie there, and when they are gone
		var told [2]string
		for i, id := range []string{open, never} {
			code, raw := e.g.call("GET", "/api/interactions/"+id, e.token, "")
			told[i] = fmt.Sprint(code, len(raw))
			var out json.RawMessage
			err := e.acme.Call(t.Context(), wire.VerbGet, wire.GetCall{ID: id}, &out)
			told[i] += fmt.Sprint(" ", err, len(out))
		}
		require.Equal(t, told[1], told[0], "that other has an id shows by nothing")
		require.Eventually(t, func() bool {
			return e.count(e.prov, journal.Requests, "hitl.req.acme.agents."+open) == 0 && e.count(e.prov, journal.Requests, "hitl.req.acme.agents."+never) == 0
		}, patience, time.Millisecond)
	}
}

func (e *estate) store(nc *nats.Conn, subj string, body []byte) {
	e.t.Helper()
	m, err := nc.Request(subj, body, patience)
	require.NoError(e.t, err)
	require.Contains(e.t, string(m.Data), `"seq"`, "%s", m.Data)
}

// told: the feed of callers, looks, and the notifier's events. What is other's
// comes first each time, so that it would be there.
func (e *estate) told(t *testing.T) {
	heard, stop := followed(t, e.of(bus.RoleCaller, "acme", "ci"))
	defer stop()
	nc := e.connectAs(t, bus.RoleNotifier, "acme", "")
	looks, err := nc.SubscribeSync("hitl.seen.acme.*.*")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	require.Equal(t, "acme", next(t, heard).Tenant, "what waited before")
	js, err := jetstream.New(e.connect(bus.RoleGateway))
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), journal.SessionsBucket)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // from now on it is told
		_, err := kv.Get(t.Context(), "feed.acme.ci")
		return err == nil
	}, patience, 10*time.Millisecond)
	// The stream of everything over HTTP.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.g.Addr()+"/api/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+e.token)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, 200, res.StatusCode)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	read := func(until string) {
		var text strings.Builder
		for lines.Scan() {
			text.WriteString(lines.Text())
			if strings.Contains(lines.Text(), until) {
				nothingOfOther(t, text.String())
				return
			}
		}
		require.NoError(t, errors.Join(lines.Err(), io.ErrUnexpectedEOF), "before %s", until)
	}
	read("told in acme")
	for _, c := range []*bus.Client{e.other, e.acme} {
		tenant := c.Credentials().Tenant
		got := e.ask(c, tenant, "told")
		ref := subject.NewRef(tenant, "agents", hitl.ID(tenant, "agents", "told", 1))
		require.Eventually(t, func() bool {
			code, raw := e.g.call("GET", "/api/interactions", e.g.token, "")
			return code == 200 && strings.Contains(string(raw), ref.String())
		}, patience, time.Millisecond)
		code, raw := e.g.call("POST", "/api/seen", e.g.token, `{"requests":["`+ref.String()+`"]}`)
		require.Equal(t, 200, code, "%s", raw)
		e.g.allow(ref)
		take(t, got)
	}
	read(`"outcome":"allowed"`)
	for _, state := range []string{wire.StatePending, wire.StateClosed} {
		ix := next(t, heard)
		require.Equal(t, []string{"acme", state}, []string{ix.Tenant, ix.State})
	}
	m, err := looks.NextMsg(patience)
	require.NoError(t, err)
	require.Equal(t, "hitl.seen.acme.agents."+hitl.ID("acme", "agents", "told", 1), m.Subject)
	// Every event that the durable of acme's notifiers has.
	events, err := nc.SubscribeSync(nc.NewInbox())
	require.NoError(t, err)
	require.NoError(t, nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.HITL_EVENTS.notifier-acme", events.Subject, []byte(`{"batch":1000,"expires":20000000000}`)))
	last := "hitl.ixe.acme.agents.s1." + hitl.ID("acme", "agents", "told", 1) + ".closed"
	for {
		m, err := events.NextMsg(patience)
		require.NoError(t, err)
		require.NotContains(t, string(m.Data), "in other")
		require.Regexp(t, `^\$JS\.ACK\.`, m.Reply, "%v", m.Header)
		require.Contains(t, string(m.Data), "acme")
		if m.Subject == last {
			return
		}
		require.Regexp(t, `^hitl\.(ixe|sgw)\.acme\.`, m.Subject)
	}
}

func (e *estate) connectAs(t *testing.T, role bus.Role, tenant, name string) *nats.Conn {
	t.Helper()
	creds := e.credsOf(role, tenant, name)
	option, err := creds.Auth()
	require.NoError(t, err)
	closed := make(chan struct{})
	nc, err := nats.Connect(creds.URLs[0], option, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}
