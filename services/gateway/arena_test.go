package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// arena is an installation that is attacked: a running gateway, a victim with
// an open and a decided interaction, and bystanders whose requests must be
// decided whatever happens. The attackers are the owner and caller evil, the
// caller ci and the notifier.
type arena struct {
	*site
	g        *running
	prov, gw *nats.Conn
	agents   *bus.Client // the bystander
	kept     <-chan *bus.Answer
	trips    int
	genuine  map[string]bool // decisions about evil's requests that were looked at
}

func newArena(t *testing.T) *arena {
	t.Helper()
	a := &arena{site: &site{t: t, dir: t.TempDir()}, genuine: map[string]bool{}}
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: a.dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed,
		Owners: []natsd.Owner{
			{Name: "agents", Pool: true, Caller: true},
			{Name: "victim", Pool: true},
			{Name: "evil", Pool: true, Caller: true},
			{Tenant: "other", Name: "evil", Pool: true},
		},
		Callers: []natsd.Caller{{Name: "ci"}, {Tenant: "other", Name: "ci"}},
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	a.srv, err = natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(a.dir)})
	require.NoError(t, err)
	t.Cleanup(a.srv.Shutdown)
	a.prov, a.gw = a.connect(bus.RoleProvisioner), a.connect(bus.RoleGateway)
	require.NoError(t, journal.Provision(ctx, a.prov, journal.Config{Pools: []journal.Pool{
		{Tenant: bus.DefaultTenant, Pool: "agents"},
		{Tenant: bus.DefaultTenant, Pool: "victim"},
		{Tenant: bus.DefaultTenant, Pool: "evil"},
		{Tenant: "other", Pool: "evil"},
	}}))
	a.g = a.gateway()
	a.agents = a.client("agents")

	victim := a.client("victim")
	roundTrip(t, victim, a.g, "done")
	hold, err := victim.Claim(ctx, &hitl.SessionState{SessionID: "s1", Worker: "w", Generation: 1, Runtime: "demo", State: hitl.StateUserTurn, Title: "the victim's own"})
	require.NoError(t, err)
	require.NoError(t, hold.Event(ctx, hitl.Event{Type: hitl.EventText, Data: json.RawMessage(`{"role":"user","text":"private"}`)}))
	a.store(a.gw, "hitl.work.default.victim", []byte(`{"v":1}`), nil)
	a.kept = ask(t, victim, "kept")
	require.Eventually(t, func() bool { return a.pending("default.victim." + keptID) }, patience, time.Millisecond)
	// Everything that follows from the two is written.
	require.Eventually(t, func() bool {
		return a.count(a.prov, journal.Events, "hitl.ixe.default.victim.>") == 3 && a.count(a.prov, journal.Requests, "hitl.req.default.victim.*") == 1
	}, patience, 5*time.Millisecond)
	return a
}

var keptID = hitl.ID(bus.DefaultTenant, "victim", "kept", 1)

func (a *arena) pending(key string) bool {
	status, raw := a.g.call(http.MethodGet, "/api/interactions/"+key, a.g.token, "")
	var ix wire.Interaction
	return status == 200 && json.Unmarshal(raw, &ix) == nil && ix.State == wire.StatePending
}

// store publishes and requires the acknowledgement.
func (a *arena) store(nc *nats.Conn, subj string, body []byte, header nats.Header) {
	a.t.Helper()
	m, err := nc.RequestMsg(&nats.Msg{Subject: subj, Data: body, Header: header}, patience)
	require.NoError(a.t, err, subj)
	require.Contains(a.t, string(m.Data), `"seq"`, "%s: %s", subj, m.Data)
}

// whose are the subjects that attackers and bystanders may change. A ticket's does not tell
// whose it is.
var whose = regexp.MustCompile(`^hitl\.(req|cxl|box|dec|ixe|sgw|evt|ses|ack|work)\.(default\.(evil|agents|ci)|(default|other)\.(` +
	strings.Join(callers, "|") + `))(\.|$)|^\$KV\.hitl_tickets\.`)

// callers are the owners of what calling services ask, as the subjects have them.
var callers = []string{
	subject.Token("service:ci"), subject.Token("service:evil"), subject.Token("service:notifier"),
}

// picture is everything that belongs to neither attacker nor bystander: every
// stream's configuration, consumers, and what is stored.
func (a *arena) picture(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	call := func(subj, body string, out any) {
		m, err := a.prov.Request("$JS.API."+subj, []byte(body), patience)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(m.Data, out))
	}
	var names struct{ Streams []string }
	call("STREAM.NAMES", "", &names)
	slices.Sort(names.Streams)
	fmt.Fprintln(&b, names.Streams)
	for _, name := range names.Streams {
		var info struct {
			Config json.RawMessage
			State  struct {
				Subjects map[string]uint64 `json:"subjects"`
			}
		}
		call("STREAM.INFO."+name, `{"subjects_filter":">"}`, &info)
		fmt.Fprintf(&b, "%s %s\n", name, info.Config)
		var subjects []string
		for s, n := range info.State.Subjects {
			if !whose.MatchString(s) {
				subjects = append(subjects, fmt.Sprintf("%q %d", s, n))
			}
		}
		slices.Sort(subjects)
		fmt.Fprintln(&b, strings.Join(subjects, "\n"))
		var consumers struct{ Consumers []string }
		call("CONSUMER.NAMES."+name, "", &consumers)
		for _, c := range consumers.Consumers {
			if slices.Contains([]string{"intake", "mailbox", "sweeper", "notifier", "notifier-other"}, c) || name == journal.Work {
				fmt.Fprintln(&b, c)
			}
		}
	}
	status, raw := a.g.call(http.MethodGet, "/api/sessions", a.g.token, "")
	require.Equal(t, 200, status)
	var list struct {
		Sessions []wire.ProcessState `json:"sessions"`
	}
	require.NoError(t, json.Unmarshal(raw, &list))
	seen := 0
	for _, s := range list.Sessions {
		if s.Owner == "victim" && s.SessionID == "s1" {
			fmt.Fprintln(&b, s.SessionKey, s.Title, s.State, s.Worker, s.Generation, s.PendingCount)
			seen++
		}
	}
	require.Equal(t, 1, seen)
	return b.String()
}

// noForgery requires that every decision about a request of an attacker is a
// gateway's own, and that none is about a request that nobody made.
func (a *arena) noForgery(t *testing.T) {
	t.Helper()
	m, err := a.prov.Request("$JS.API.STREAM.INFO."+journal.Decisions, []byte(`{"subjects_filter":"hitl.dec.*.evil.>"}`), patience)
	require.NoError(t, err)
	var info struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	require.NoError(t, json.Unmarshal(m.Data, &info))
	keys := a.creds(bus.RoleGateway, "").PublicDecisionKeys()
	for subj := range info.State.Subjects {
		require.NotEqual(t, "hitl.dec.default.evil.bait", subj, "no request has this id")
		if a.genuine[subj] {
			continue
		}
		m, err := a.prov.Request("$JS.API.DIRECT.GET."+journal.Decisions+"."+subj, nil, patience)
		require.NoError(t, err)
		_, err = journal.Verify(keys, &journal.Message{Subject: subj, Header: m.Header, Data: m.Data})
		require.NoError(t, err)
		a.genuine[subj] = true
	}
}

// attack runs one attack and then requires that a bystander's request is asked,
// decided and delivered, that nothing changed that is not the attacker's, and
// that the attacker decided nothing.
func (a *arena) attack(t *testing.T, name string, fn func(t *testing.T)) {
	t.Helper()
	t.Run("B-56 "+name, func(t *testing.T) {
		before := a.picture(t)
		fn(t)
		a.trips++
		roundTrip(t, a.agents, a.g, fmt.Sprintf("trip-%d", a.trips))
		require.Equal(t, before, a.picture(t))
		a.noForgery(t)
		require.True(t, a.pending("default.victim."+keptID))
		select {
		case <-a.kept:
			t.Fatal("the victim's wait was ended")
		default:
		}
	})
}

// attacker is a connection with the credential of an identity.
type attacker struct {
	*nats.Conn
	who     string
	refused chan error // capacity 1024: what the server says no to
}

func (a *arena) attacker(t *testing.T, role bus.Role, name string, more ...nats.Option) *attacker {
	t.Helper()
	creds := a.creds(role, name)
	option, err := creds.Auth()
	require.NoError(t, err)
	closed := make(chan struct{})
	c := &attacker{who: string(role), refused: make(chan error, 1024)}
	c.Conn, err = nats.Connect(creds.URLs[0], append(more, option, nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case c.refused <- err:
			default:
			}
		}), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))...)
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		<-closed
	})
	return c
}

// forbidden requires that the server refuses a publish at once, and says what
// it refuses. In its own account a notifier may call its own JetStream: there
// an error is as good, or that nobody answers.
func (c *attacker) forbidden(t *testing.T, subj string, body string) {
	t.Helper()
	inbox := c.NewInbox()
	sub, err := c.SubscribeSync(inbox)
	require.NoError(t, err)
	defer func() { _ = sub.Unsubscribe() }()
	require.NoError(t, c.PublishMsg(&nats.Msg{Subject: subj, Reply: inbox, Data: []byte(body)}))
	require.NoError(t, c.Flush())
	type answer struct {
		m   *nats.Msg
		err error
	}
	answered := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	go func() {
		m, err := sub.NextMsgWithContext(ctx)
		answered <- answer{m, err}
	}()
	defer cancel()
	select {
	case err := <-c.refused:
		require.ErrorIs(t, err, nats.ErrPermissionViolation)
		require.Contains(t, strings.ToLower(err.Error()), strings.ToLower(fmt.Sprintf("publish to %q", subj)))
	case got := <-answered:
		own := c.who == string(bus.RoleNotifier) && (strings.HasPrefix(subj, "$JS.") || strings.HasPrefix(subj, "$KV.")) ||
			strings.HasPrefix(subj, "_R_.") // each answers something: commands, as a decider, why it alerted
		require.True(t, own, "%s was answered on %s: %v", c.who, subj, got)
		if !errors.Is(got.err, nats.ErrNoResponders) {
			require.NoError(t, got.err, "%s: no word on %s", c.who, subj)
			require.Contains(t, string(got.m.Data), `"error"`, subj)
		}
	}
}

// deaf requires that the server refuses a subscription at once.
func (c *attacker) deaf(t *testing.T, subj string) {
	t.Helper()
	_, err := c.SubscribeSync(subj)
	require.NoError(t, err)
	require.NoError(t, c.Flush())
	select {
	case err := <-c.refused:
		require.ErrorIs(t, err, nats.ErrPermissionViolation)
		require.Contains(t, strings.ToLower(err.Error()), strings.ToLower(fmt.Sprintf("subscription to %q", subj)))
	case <-time.After(patience):
		t.Fatalf("subscription to %s was not refused", subj)
	}
}

// request is a request of evil's, as its bytes and under its subject.
func evils(key string, change ...func(*hitl.Request)) (string, []byte) {
	r := request(key)
	r.V, r.Tenant, r.Owner = 1, bus.DefaultTenant, "evil"
	for _, fn := range change {
		fn(r)
	}
	r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
	raw, err := hitl.Marshal(r)
	if err != nil {
		panic(err)
	}
	return subject.Request(subject.NewRef(r.Tenant, r.Owner, r.ID)), raw
}

// send is a request whose answer, whatever it is, does not matter.
func (c *attacker) send(t *testing.T, m *nats.Msg) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	type answer struct {
		m   *nats.Msg
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		m, err := c.RequestMsgWithContext(ctx, m)
		answered <- answer{m, err}
	}()
	select {
	case err := <-c.refused:
		require.ErrorIs(t, err, nats.ErrPermissionViolation)
		cancel()
		<-answered
		return err.Error()
	case got := <-answered:
		require.NoError(t, got.err, m.Subject)
		return string(got.m.Data)
	}
}
