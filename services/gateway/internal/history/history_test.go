package history_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/history"
	"github.com/banksman/banksman/services/gateway/internal/record"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushLoop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).syncBlocks"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.startSystemInfo"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/pse.updateUsage"),
	)
}

var (
	ada = hitl.Principal{Kind: "person", ID: "ada", Name: "Ada Byron"}
	bob = hitl.Principal{Kind: "person", ID: "bob", Name: "Bob"}
)

// shelf is a record on a real server, and a History over it.
type shelf struct {
	t    *testing.T
	nc   *nats.Conn
	j    *journal.JetStream
	keys map[string]ed25519.PublicKey
	h    *history.History
	log  *bytes.Buffer
	now  time.Time // of the next decision
	read *counted
}

// counted counts what a search reads.
type counted struct {
	history.Record
	messages int
}

func (c *counted) Read(ctx context.Context, stream string, from uint64, filters []string, fn func(journal.Message) error) error {
	return c.Record.Read(ctx, stream, from, filters, func(m journal.Message) error {
		c.messages++
		return fn(m)
	})
}

func newShelf(t *testing.T, change ...func(*history.Options)) *shelf {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, JetStreamMaxStore: 64 << 30, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 8 << 20,
	})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(20*time.Second))
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	nc, err := nats.Connect(srv.ClientURL(), nats.ReconnectBufSize(-1))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	require.NoError(t, journal.Provision(t.Context(), nc, journal.Config{Pools: []journal.Pool{{Tenant: "default", Pool: "agents"}}}))
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer := journal.NewSigner(key)
	s := &shelf{t: t, nc: nc, j: journal.New(nc, journal.Options{Signer: signer}), log: &bytes.Buffer{}, now: time.Now().UTC()}
	s.keys = map[string]ed25519.PublicKey{signer.KeyID: key.Public().(ed25519.PublicKey)}
	s.read = &counted{Record: s.j}
	o := history.Options{
		Record: s.read, Keys: func() map[string]ed25519.PublicKey { return s.keys },
		Logger: slog.New(slog.NewTextHandler(s.log, nil)), Clock: time.Now,
	}
	for _, fn := range change {
		fn(&o)
	}
	s.h = history.New(o)
	return s
}

// settle stores the decision of a call of make with this key.
func (s *shelf) settle(key, command string, change ...func(*hitl.Request, *hitl.Decision)) *hitl.Decision {
	s.t.Helper()
	input, err := json.Marshal(map[string]string{"command": command})
	require.NoError(s.t, err)
	r := &hitl.Request{
		V: 1, Key: key, Kind: hitl.KindApproval, Tenant: "default", Owner: "agents", SessionID: "s1", AgentName: "build-7",
		Title: "A call", Tool: &hitl.Tool{Name: "Bash", Input: input},
	}
	var d hitl.Decision
	d.Outcome, d.Principal, d.Channel = hitl.Denied, ada, "web"
	for _, fn := range change {
		fn(r, &d)
	}
	r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
	raw, err := hitl.Marshal(r)
	require.NoError(s.t, err)
	ref := subject.NewRef(r.Tenant, r.Owner, r.ID)
	t := &record.Target{
		Admission: card.Admission{Ref: ref, Seq: 1, RequestedAt: s.now, Policy: hitl.Policy{Version: "1", Risk: "low"}},
		Raw:       raw, Digest: hitl.Digest(raw), Request: r,
	}
	dec := t.Decision(d.Content, d.Principal, d.Channel, "session", s.now)
	s.now = s.now.Add(time.Millisecond)
	_, won, err := s.j.Decide(s.t.Context(), ref, dec)
	require.NoError(s.t, err)
	require.True(s.t, won)
	return dec
}

func (s *shelf) search(rights role.Set, q history.Query) wire.ListReply {
	s.t.Helper()
	if q.Limit == 0 {
		q.Limit = 50
	}
	page, err := s.h.Search(s.t.Context(), rights, q)
	require.NoError(s.t, err)
	return page
}

func found(page wire.ListReply) []string {
	out := []string{}
	for _, ix := range page.Interactions {
		out = append(out, ix.ToolInput)
	}
	return out
}

func in(project string) func(*hitl.Request, *hitl.Decision) {
	return func(r *hitl.Request, _ *hitl.Decision) { r.ProjectID = project }
}

func TestSearch_B33_FindsByWordsAndFilters(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.settle("1", "make test", func(_ *hitl.Request, d *hitl.Decision) { d.Outcome, d.Principal = hitl.Allowed, bob })
	at := s.now
	s.settle("2", "git push --force origin release/2.4", func(_ *hitl.Request, d *hitl.Decision) {
		d.Message = "not while the freeze lasts"
	})
	s.settle("3", "ls", func(r *hitl.Request, d *hitl.Decision) {
		r.Kind, r.Tool = hitl.KindQuestion, nil
		r.Questions = []hitl.Question{{Question: "Which database?", Options: []hitl.Option{{Label: "Postgres"}, {Label: "SQLite"}}}}
		d.Outcome, d.Answers = hitl.Answered, []hitl.Answer{{QuestionID: "0", Values: []string{"Postgres"}, Other: "the replica"}}
	})
	s.settle("4", "df -h", in("shop"), func(r *hitl.Request, d *hitl.Decision) {
		r.Tool.Name, r.SessionID, d.Outcome, d.Principal = "Disk", "s2", hitl.Expired, hitl.Principal{Kind: "system", ID: "deadline"}
	})
	all := role.Everything()
	keys := func(q history.Query) (out string) {
		for _, ix := range s.search(all, q).Interactions {
			for _, k := range []string{"1", "2", "3", "4"} {
				if ix.ID == hitl.ID("default", "agents", k, 1) {
					out += k
				}
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		q    history.Query
		want string
	}{
		"everything, newest first":          {history.Query{}, "4321"},
		"a word of the command, any case":   {history.Query{Text: "FORCE"}, "2"},
		"words anywhere, all of them":       {history.Query{Text: "freeze origin"}, "2"},
		"in quotes together":                {history.Query{Text: `"push --force"`}, "2"},
		"in quotes, not in this order":      {history.Query{Text: `"force push"`}, ""},
		"what was answered":                 {history.Query{Text: "replica"}, "3"},
		"an option that was offered":        {history.Query{Text: "sqlite"}, "3"},
		"who decided":                       {history.Query{Text: "byron"}, "32"},
		"who":                               {history.Query{Who: "Bob"}, "1"},
		"outcome":                           {history.Query{Outcomes: []hitl.Outcome{hitl.Allowed, hitl.Expired}}, "41"},
		"tool":                              {history.Query{Tool: "disk"}, "4"},
		"kind":                              {history.Query{Kind: hitl.KindQuestion}, "3"},
		"project":                           {history.Query{Project: "shop"}, "4"},
		"agent":                             {history.Query{Agent: "BUILD-7"}, "4321"},
		"session":                           {history.Query{Session: "s2"}, "4"},
		"from":                              {history.Query{From: at}, "432"},
		"until":                             {history.Query{Until: at}, "1"},
		"a pattern is only its characters":  {history.Query{Text: `.*`}, ""},
		"all of it at once":                 {history.Query{Text: "push", Tool: "Bash", Who: "ada", From: at, Agent: "agents"}, "2"},
		"nothing of the record's own forms": {history.Query{Text: "request_b64"}, ""},
	} {
		require.Equal(t, c.want, keys(c.q), name)
	}
	page := s.search(all, history.Query{})
	require.Empty(t, page.Next, "there is nothing older")
	require.Equal(t, hitl.Expired, page.Interactions[0].Outcome)
	require.NotNil(t, page.Interactions[0].Body, "a small body travels")
	require.Empty(t, page.Interactions[0].Decision.RequestB64)
}

func TestSearchTellsWhatBecameOfIt_B49(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	d := s.settle("1", "make")
	ref := subject.NewRef("default", "agents", d.InteractionID)
	raw, err := hitl.Marshal(hitl.Ack{V: 1, Stage: hitl.Applied, DecisionID: d.DecisionID, Detail: "told"})
	require.NoError(t, err)
	other, err := hitl.Marshal(hitl.Ack{V: 1, Stage: hitl.Delivered, DecisionID: "another"})
	require.NoError(t, err)
	js, err := s.nc.JetStream()
	require.NoError(t, err)
	_, err = js.Publish(subject.Ack(ref, hitl.Applied), raw)
	require.NoError(t, err)
	_, err = js.Publish(subject.Ack(ref, hitl.Delivered), other)
	require.NoError(t, err)
	page := s.search(role.Everything(), history.Query{})
	require.Len(t, page.Interactions[0].Trail, 1, "a receipt of another decision is not its")
	require.Equal(t, hitl.Applied, page.Interactions[0].Trail[0].Stage)
}

// TestPagesAreWholeWhileMoreIsDecided pages to the end while decisions come in.
func TestPagesAreWholeWhileMoreIsDecided(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	const n = 300 // more than the first windows
	for i := range n {
		s.settle(fmt.Sprint(i), fmt.Sprintf("echo %03d", i), func(_ *hitl.Request, d *hitl.Decision) {
			if i%3 == 0 {
				d.Outcome = hitl.Allowed
			}
		})
	}
	for name, q := range map[string]history.Query{
		"all": {Limit: 7}, "one in three": {Limit: 7, Outcomes: []hitl.Outcome{hitl.Allowed}}, "few": {Limit: 200, Text: `"echo 29"`},
	} {
		var got []string
		for pages := 0; ; pages++ {
			require.Less(t, pages, n, name)
			page := s.search(role.Everything(), q)
			got = append(got, found(page)...)
			if page.Next == "" {
				break
			}
			q.Before = page.Next
			s.settle(fmt.Sprint("late ", name, pages), "late", func(_ *hitl.Request, d *hitl.Decision) { d.Outcome = hitl.Allowed })
		}
		var want []string
		for i := n - 1; i >= 0; i-- {
			c := fmt.Sprintf("echo %03d", i)
			if name == "all" || name == "one in three" && i%3 == 0 || name == "few" && strings.HasPrefix(c, "echo 29") {
				want = append(want, c)
			}
		}
		var old []string // those that were there when the paging began
		for _, c := range got {
			if c != "late" {
				old = append(old, c)
			}
		}
		require.Equal(t, want, old, name)
	}
}

// TestNobodyFindsWhatTheyMayNotRead searches for each word as everybody.
func TestNobodyFindsWhatTheyMayNotRead(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.settle("call", "echo SECRETCALL", in("shop"), func(r *hitl.Request, d *hitl.Decision) {
		r.Title, d.Message = "run SECRETTITLE", "because of SECRETREASON"
	})
	s.settle("ask", "", in("shop"), func(r *hitl.Request, d *hitl.Decision) {
		r.Kind, r.Tool = hitl.KindQuestion, nil
		r.Questions = []hitl.Question{{Question: "SECRETQUESTION?"}}
		d.Outcome, d.Answers = hitl.Answered, []hitl.Answer{{QuestionID: "0", Other: "SECRETANSWER"}}
	})
	s.settle("none", "echo NOPROJECT")
	grant := func(name string, projects ...string) role.Set { return role.Set{{Role: name, Projects: projects}} }
	call, ask := []string{"SECRETCALL", "SECRETTITLE", "SECRETREASON"}, []string{"SECRETQUESTION", "SECRETANSWER"}
	for name, c := range map[string]struct {
		s     role.Set
		finds []string
		shows int
	}{
		"no role":          {nil, nil, 0},
		"of another":       {grant(wire.RoleAdmin, "bank"), nil, 0},
		"viewer":           {grant(wire.RoleViewer, "shop"), nil, 2},
		"responder":        {grant(wire.RoleResponder, "shop"), ask, 2},
		"approver":         {grant(wire.RoleApprover, "shop"), call, 2},
		"admin of it":      {grant(wire.RoleAdmin, "shop"), append(append([]string{}, call...), ask...), 2},
		"viewer of all":    {grant(wire.RoleViewer, "*"), nil, 3},
		"admin everywhere": {role.Everything(), append(append([]string{"NOPROJECT"}, call...), ask...), 3},
	} {
		require.Len(t, s.search(c.s, history.Query{}).Interactions, c.shows, name)
		for _, word := range append(append([]string{"NOPROJECT"}, call...), ask...) {
			page := s.search(c.s, history.Query{Text: word})
			raw, err := json.Marshal(page)
			require.NoError(t, err)
			want := 0
			for _, f := range c.finds {
				if f == word {
					want = 1
				}
			}
			require.Len(t, page.Interactions, want, "%s searches for %s", name, word)
			if want == 0 {
				require.NotContains(t, string(raw), word)
			}
		}
	}
}

func TestOneSearchReadsABoundedPart(t *testing.T) {
	t.Parallel()
	// A clock on which every look takes a second: two windows, and no more.
	now := time.Now()
	s := newShelf(t, func(o *history.Options) {
		o.Clock = func() time.Time { now = now.Add(time.Second); return now }
	})
	const n = 400
	for i := range n {
		s.settle(fmt.Sprint(i), "echo")
	}
	page := s.search(role.Everything(), history.Query{Text: "nothing like it"})
	require.Empty(t, page.Interactions)
	require.NotEmpty(t, page.Next, "it says that there is more")
	require.NotNil(t, page.ReadTo)
	require.Less(t, s.read.messages, n, "it read all of it")
	for pages := 1; page.Next != ""; pages++ {
		require.Less(t, pages, n)
		page = s.search(role.Everything(), history.Query{Text: "nothing like it", Before: page.Next})
	}

	// From ends the search early, Until begins it late.
	s.read.messages = 0
	s.search(role.Everything(), history.Query{From: time.Now().Add(time.Hour), Limit: 1})
	require.LessOrEqual(t, s.read.messages, 65)
	s.read.messages = 0
	page = s.search(role.Everything(), history.Query{Until: time.Now().Add(-time.Hour), Limit: 1})
	require.Less(t, s.read.messages, 100, "it looked at what is newer")
	require.Empty(t, page.Interactions)
	require.Empty(t, page.Next)
}

func TestHostileSearches(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.settle("1", "echo")
	for field, q := range map[string]history.Query{
		"q":       {Text: strings.Repeat("x", 201)},
		"q words": {Text: "a b c d e f g h i"},
		"q bytes": {Text: "\xff\xfe"},
		"outcome": {Outcomes: []hitl.Outcome{"won"}},
		"tool":    {Tool: strings.Repeat("x", 257)},
		"who":     {Who: "\xff"},
		"before":  {Before: "nonsense"},
		"limit":   {Limit: 201},
		"until":   {From: s.now, Until: s.now.Add(-time.Hour)},
	} {
		if q.Limit == 0 {
			q.Limit = 50
		}
		_, err := s.h.Search(t.Context(), role.Everything(), q)
		var inv *hitl.InvalidError
		require.ErrorAs(t, err, &inv, field)
		require.Equal(t, strings.Fields(field)[0], inv.Fields[0].Field)
	}
	// A place of another record, and one that is ahead of this one.
	_, err := newShelf(t).h.Search(t.Context(), role.Everything(), history.Query{Before: "MS4x", Limit: 1})
	require.ErrorContains(t, err, "before")
	for _, text := range []string{"", `"`, `""`, `" "`, "\u202e", "\x00", `\`, "'; DROP", "(a+)+$", "[", "%", "*"} {
		require.LessOrEqual(t, len(s.search(role.Everything(), history.Query{Text: text}).Interactions), 1, "%q", text)
	}
}

func TestWhatNoGatewaySignedIsNotFound_invariant2(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.settle("1", "echo real")
	forged, err := hitl.Marshal(hitl.Decision{V: 1, DecisionID: "d", InteractionID: "forged", Content: hitl.Content{Outcome: hitl.Allowed}})
	require.NoError(t, err)
	js, err := s.nc.JetStream()
	require.NoError(t, err)
	_, err = js.Publish("hitl.dec.default.agents.forged", forged)
	require.NoError(t, err)
	require.Equal(t, []string{"echo real"}, found(s.search(role.Everything(), history.Query{})))
	require.Contains(t, s.log.String(), "does not count")
}

// What one rule decided is found by its id, also where others decided with it, and
// only by those who may know by what it was decided.
func TestTheDecisionsOfARule(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	by := func(rules string) func(*hitl.Request, *hitl.Decision) {
		return func(r *hitl.Request, d *hitl.Decision) {
			r.ProjectID, d.Outcome, d.Rule, d.Principal = "shop", hitl.Allowed, rules, hitl.Principal{Kind: "rule", ID: "r1"}
		}
	}
	s.settle("1", "make one", by("r1"))
	s.settle("2", "make two", by("r12"))
	s.settle("3", "make three", by("r0,r1"))
	s.settle("4", "make four", in("shop"))
	require.Equal(t, []string{"make three", "make one"}, found(s.search(role.Everything(), history.Query{Rule: "r1"})))
	require.Empty(t, found(s.search(role.Everything(), history.Query{Rule: "r"})))
	viewer := role.Set{{Role: wire.RoleViewer, Projects: []string{"*"}}}
	require.Len(t, s.search(viewer, history.Query{}).Interactions, 4)
	require.Empty(t, s.search(viewer, history.Query{Rule: "r1"}).Interactions)
}
