package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

const s1 = "default.agents.s1"

func TestLifeOfAnApproval_D1_02_D1_14_D1_15_D3_04_D3_05_C15_C17(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	var rec recorder
	watch := e.Watch("", rec.add)
	defer watch.Stop()
	require.Empty(t, watch.Snapshot)

	inbox, err := nc.SubscribeSync("hitl.inbox.>")
	require.NoError(t, err)
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	require.Eventually(t, func() bool { return len(rec.events(s1)) == 3 }, patience, time.Millisecond)
	require.Equal(t, []string{"interaction_pending true", "interaction_request", "approval_required"}, rec.events(s1))
	require.Eventually(t, func() bool { st := rec.last(s1); return st != nil && st.PendingRequest != nil }, patience, time.Millisecond)
	st := rec.last(s1)
	require.Equal(t, r.ID, st.PendingRequest.RequestID)
	require.Equal(t, "tool_approval", st.PendingRequest.RequestType)
	require.Equal(t, "make test", st.PendingRequest.ToolInput)
	require.Equal(t, hitl.Digest(raw), st.PendingRequest.Digest)

	got := e.Decide(t.Context(), answer(r, raw, "ada", allow))
	require.Equal(t, hitl.Accepted, got.Status, got.Error)
	require.Equal(t, "ada", got.Decision.Principal.ID)

	m, err := inbox.NextMsg(patience)
	require.NoError(t, err, "the decision is republished to the asker")
	d, err := hitl.ParseDecision(m.Data)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, d.Outcome)
	stored, err := d.Request()
	require.NoError(t, err)
	require.Equal(t, raw, stored, "the record holds the exact bytes")

	require.Eventually(t, func() bool { return len(rec.events(s1)) == 5 }, patience, time.Millisecond)
	require.Equal(t, []string{"interaction_response", "interaction_pending false"}, rec.events(s1)[3:])
	require.Eventually(t, func() bool { return len(rec.last(s1).Closed) == 1 }, patience, time.Millisecond)
	require.Nil(t, rec.last(s1).PendingRequest, "absence clears it everywhere")
	require.Equal(t, hitl.Allowed, rec.last(s1).Closed[0].Outcome)
	// It went from what waits to the history, where it can be opened again.
	pending(t, e)
	history, err := e.Interactions(t.Context(), wire.StateClosed, 0)
	require.NoError(t, err)
	require.Len(t, history, 1)
	require.Equal(t, hitl.Allowed, history[0].Outcome)
	require.Equal(t, "ada", history[0].Decision.Principal.Name)
	require.WithinDuration(t, time.Now(), history[0].Decision.DecidedAt, time.Minute)
	require.Equal(t, "make test", outcome(t, e, r).Body.Blocks[0].Text)

	// Exactly once on every path: the sweeper repeats the closed event in vain.
	j := w.journal(nc)
	require.Eventually(t, func() bool {
		_, err := j.Request(t.Context(), ref(r))
		_, sweeper, _ := j.Floors(t.Context())
		return err != nil && sweeper == 1
	}, patience, time.Millisecond, "what is settled is no longer among the open ones")
	require.Len(t, rec.events(s1), 5)
}

func TestReceipts_D1_18_invariant6(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	q := question("k2")
	qraw := w.ask(nc, q)
	pending(t, e, r.ID, q.ID)
	decide := func(r *hitl.Request, raw []byte, who string, fn func(*api.Attempt)) wire.Receipt {
		return e.Decide(t.Context(), answer(r, raw, who, fn))
	}
	field := func(rec wire.Receipt) string {
		require.Equal(t, hitl.BadInput, rec.Status, rec.Error)
		require.NotEmpty(t, rec.Fields)
		return rec.Fields[0].Field
	}
	for _, tc := range []struct {
		name string
		run  func() wire.Receipt
		want hitl.Status
		fld  string
	}{
		{"D1-23 no id", func() wire.Receipt {
			return decide(r, raw, "ada", func(a *api.Attempt) { a.RequestID, a.Decision = "", "allow" })
		}, hitl.BadInput, "request_id"},
		{"unknown id", func() wire.Receipt {
			return decide(r, raw, "ada", func(a *api.Attempt) { a.RequestID, a.Decision = "nobody", "allow" })
		}, hitl.NotFound, ""},
		{"D0-44 another session", func() wire.Receipt {
			return decide(r, raw, "ada", func(a *api.Attempt) { a.SessionID, a.Decision = "s2", "allow" })
		}, hitl.NotFound, ""},
		{"D1-24 unknown request type", func() wire.Receipt {
			return decide(r, raw, "ada", func(a *api.Attempt) { a.RequestType, a.Decision = "poll", "allow" })
		}, hitl.BadInput, "request_type"},
		{"D2-12 wrong kind", func() wire.Receipt {
			return decide(q, qraw, "ada", func(a *api.Attempt) { a.RequestType, a.Decision = "", "allow" })
		}, hitl.BadInput, "decision"},
		{"D0-22 a door for another kind", func() wire.Receipt {
			return decide(q, qraw, "ada", func(a *api.Attempt) { a.RequestType, a.Kind, a.Decision = "", hitl.KindApproval, "allow" })
		}, hitl.NotFound, ""},
		{"D1-47 neither allow nor deny", func() wire.Receipt {
			return decide(r, raw, "ada", func(a *api.Attempt) { a.Decision = "yes" })
		}, hitl.BadInput, "decision"},
		{"nothing said", func() wire.Receipt {
			return decide(r, raw, "ada", func(*api.Attempt) {})
		}, hitl.BadInput, "decision"},
		{"no digest", func() wire.Receipt {
			return decide(r, raw, "ada", func(a *api.Attempt) { a.Digest, a.Decision = "", "allow" })
		}, hitl.BadInput, "digest"},
		{"B-55 another digest", func() wire.Receipt {
			return decide(r, raw, "ada", func(a *api.Attempt) { a.Digest, a.Decision = hitl.Digest(qraw), "allow" })
		}, hitl.DigestMismatch, ""},
		{"B-08 unknown question", func() wire.Receipt {
			return decide(q, qraw, "ada", func(a *api.Attempt) { a.Answers = json.RawMessage(`{"7":"SQLite"}`) })
		}, hitl.BadInput, "answers.7"},
		{"C-19 an empty answer", func() wire.Receipt {
			return decide(q, qraw, "ada", func(a *api.Attempt) { a.Answers = json.RawMessage(`{"0":""}`) })
		}, hitl.BadInput, "answers.0"},
		{"B-56 an owner's own word", func() wire.Receipt {
			return decide(r, raw, "x", func(a *api.Attempt) {
				a.Principal, a.Decision = hitl.Principal{Kind: "service", ID: "agents"}, "allow"
			})
		}, hitl.Forbidden, ""},
		{"B-56 no principal", func() wire.Receipt {
			return decide(r, raw, "x", func(a *api.Attempt) { a.Principal, a.Decision = hitl.Principal{}, "allow" })
		}, hitl.Forbidden, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := tc.run()
			require.Equal(t, tc.want, rec.Status, rec.Error)
			require.Nil(t, rec.Decision)
			if tc.fld != "" {
				require.Equal(t, tc.fld, field(rec))
			}
		})
	}
	pending(t, e, r.ID, q.ID) // nothing of that decided anything

	yes := func(a *api.Attempt) { a.Answers = json.RawMessage(`{"Which database?":"SQLite"}`) }
	require.Equal(t, hitl.Accepted, decide(q, qraw, "ada", yes).Status)
	again := decide(q, qraw, "ada", yes)
	require.Equal(t, hitl.Duplicate, again.Status)
	require.Equal(t, []string{"SQLite"}, again.Decision.Answers[0].Values)
	late := decide(q, qraw, "bob", yes)
	require.Equal(t, hitl.AlreadyDecided, late.Status)
	require.Equal(t, "ada", late.Decision.Principal.ID, "the loser learns who won")
	require.Empty(t, late.Decision.RequestB64)
	other := decide(q, qraw, "ada", func(a *api.Attempt) { a.Answers = json.RawMessage(`{"0":"Postgres"}`) })
	require.Equal(t, hitl.AlreadyDecided, other.Status, "the same person with another answer is not a duplicate")
}

func TestLateAnswerNeverDecidesTheNextRequest_B01(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	first := request("k1")
	raw := w.ask(nc, first)
	pending(t, e, first.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(first, raw, "ada", deny)).Status)
	second := request("k2", func(r *hitl.Request) { r.ToolCallID = first.ToolCallID })
	w.ask(nc, second)
	pending(t, e, second.ID)
	rec := e.Decide(t.Context(), answer(first, raw, "bob", allow))
	require.Equal(t, hitl.AlreadyDecided, rec.Status)
	require.Equal(t, hitl.Denied, rec.Decision.Outcome)
	pending(t, e, second.ID)
}

func TestSameToolCallAskedAgainHasANewInteraction_B36_D3_11(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	first := request("k1", func(r *hitl.Request) { r.ToolCallID = "call" })
	raw := w.ask(nc, first)
	pending(t, e, first.ID)
	second := request("k2", func(r *hitl.Request) { r.ToolCallID = "call" })
	w.ask(nc, second)
	pending(t, e, first.ID, second.ID)
	// The tool call alone is ambiguous now, and then nothing is guessed.
	a := answer(first, raw, "ada", allow)
	a.RequestID, a.ToolCallID = "", "call"
	require.Equal(t, hitl.BadInput, e.Decide(t.Context(), a).Status)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(first, raw, "ada", allow)).Status)
	pending(t, e, second.ID)
}

func TestManyDecideAtOnceOverThreeGateways_B04_B50_D1_18_invariant1(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var gws []*Engine
	for range 3 {
		e, _ := w.gateway()
		gws = append(gws, e)
	}
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	for _, e := range gws {
		pending(t, e, r.ID)
	}
	const n = 100
	receipts := make([]wire.Receipt, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			verb := allow
			if i%2 == 1 {
				verb = deny
			}
			receipts[i] = gws[i%3].Decide(context.Background(), answer(r, raw, fmt.Sprint("p", i), verb))
		})
	}
	wg.Wait()
	var winner *hitl.Decision
	for _, rec := range receipts {
		if rec.Status == hitl.Accepted {
			require.Nil(t, winner, "two were told that they won")
			winner = rec.Decision
		}
	}
	require.NotNil(t, winner)
	for _, rec := range receipts {
		require.NotNil(t, rec.Decision, rec.Error)
		require.Equal(t, winner.DecisionID, rec.Decision.DecisionID, "everybody learns the true winner")
	}
	for _, e := range gws {
		pending(t, e)
		require.Equal(t, winner.Outcome, outcome(t, e, r).Outcome)
	}
	pos, err := w.journal(nc).Position(t.Context(), journal.Decisions)
	require.NoError(t, err)
	require.EqualValues(t, 1, pos.Last)
	events, err := w.journal(nc).Position(t.Context(), journal.Events)
	require.NoError(t, err)
	require.EqualValues(t, 2, events.Last, "one open, one closed")
}

func TestRestartShowsTheSamePending_B48_D1_28_invariant3(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, stop := w.gateway()
	nc := w.connect()
	var open []*hitl.Request
	var raws [][]byte
	var ids []string
	for i := range 4 {
		r := request(fmt.Sprint("k", i))
		raws = append(raws, w.ask(nc, r))
		open, ids = append(open, r), append(ids, r.ID)
		pending(t, e, ids...)
	}
	before, err := e.Interaction(t.Context(), ids[1])
	require.NoError(t, err)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(open[0], raws[0], "ada", allow)).Status)
	stop()
	late := request("late") // asked while no gateway runs
	w.ask(nc, late)

	e, _ = w.gateway()
	pending(t, e, ids[1], ids[2], ids[3], late.ID)
	after, err := e.Interaction(t.Context(), ids[1])
	require.NoError(t, err)
	require.Equal(t, before.ExpiresAt, after.ExpiresAt, "the same deadline")
	require.Equal(t, before.Digest, after.Digest)
	require.Equal(t, hitl.Allowed, outcome(t, e, open[0]).Outcome)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(open[2], raws[2], "ada", deny)).Status)
}

func TestADecidedRequestSentAgainIsNotShown_invariant8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, stop := w.gateway()
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	j := w.journal(nc)
	require.Eventually(t, func() bool {
		_, sweeper, _ := j.Floors(t.Context())
		return sweeper == 1
	}, patience, time.Millisecond)
	stop()
	w.ask(nc, r) // its asker missed everything

	var rec recorder
	e, _ = w.gateway()
	watch := e.Watch("", rec.add)
	defer watch.Stop()
	for _, st := range watch.Snapshot {
		require.Zero(t, st.PendingCount)
	}
	require.Eventually(t, func() bool {
		intake, _, _ := j.Floors(t.Context())
		return intake == 2
	}, patience, time.Millisecond)
	pending(t, e)
	for _, st := range rec.states(s1) {
		require.Zero(t, st.PendingCount)
	}
	_, err := j.Request(t.Context(), ref(r))
	require.ErrorIs(t, err, journal.ErrNotFound)
}

func TestBadRequestsAreSettledAndNeverShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	var rec recorder
	watch := e.Watch("", rec.add)
	defer watch.Stop()
	good := func() *hitl.Request { return request("good") }
	for name, tc := range map[string]struct {
		raw  func(*hitl.Request) string
		fld  string
		subj string
	}{
		"duplicate keys": {func(r *hitl.Request) string { return `{"v":1,"v":1}` }, "request", "dup"},
		"not JSON":       {func(r *hitl.Request) string { return `{` }, "request", "nojson"},
		"invalid UTF-8":  {func(r *hitl.Request) string { return "\"\xff\"" }, "request", "utf8"},
		"another id":     {func(r *hitl.Request) string { b, _ := hitl.Marshal(r); return string(b) }, "id", "otherid"},
	} {
		w.store(nc, "hitl.req.default.agents."+tc.subj, []byte(tc.raw(good())))
		require.Eventually(t, func() bool {
			ix, err := e.Interaction(t.Context(), "default.agents."+tc.subj)
			if err != nil || ix.State != wire.StateClosed {
				return false
			}
			require.Equal(t, hitl.InvalidIX, ix.Outcome, name)
			require.Equal(t, tc.fld, ix.Decision.Fields[0].Field, name)
			return true
		}, patience, time.Millisecond, name)
	}
	// A made-up id: it must follow from the key.
	r := request("k")
	r.ID = "11111111-1111-8111-8111-111111111111"
	raw, err := hitl.Marshal(r)
	require.NoError(t, err)
	w.store(nc, subject.Request(ref(r)), raw)
	require.Equal(t, hitl.InvalidIX, outcome(t, e, r).Outcome)
	for _, st := range rec.states(s1) {
		require.Zero(t, st.PendingCount)
	}
	pending(t, e)

	// Outside the grammar: deleted without a decision, and nothing breaks.
	w.store(nc, "hitl.req.default.agents."+string(make4000()), []byte(`{}`))
	ok := request("ok")
	w.ask(nc, ok)
	pending(t, e, ok.ID)
}

func make4000() []byte {
	b := make([]byte, 4000)
	for i := range b {
		b[i] = 'a'
	}
	return b
}

func TestWithdrawal_D0_10_D0_47_D1_16_D1_17(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	withdrawal := []byte(`{"v":1,"reason":"the run was interrupted"}`)
	w.store(nc, subject.Withdraw(ref(r)), withdrawal)
	ix := outcome(t, e, r)
	require.Equal(t, hitl.Cancelled, ix.Outcome)
	require.Equal(t, "asker", ix.Decision.Principal.Kind)
	require.False(t, ix.Decision.AsksAgain())
	pending(t, e)
	rec := e.Decide(t.Context(), answer(r, raw, "ada", allow))
	require.Equal(t, hitl.AlreadyDecided, rec.Status)
	require.Equal(t, hitl.Cancelled, rec.Decision.Outcome)
	// Again, and for what nobody knows: no effect.
	j := w.journal(nc)
	w.store(nc, subject.Withdraw(subject.NewRef("default", "agents", "nobody")), withdrawal)
	require.Eventually(t, func() bool {
		intake, _, _ := j.Floors(t.Context())
		return intake == 3
	}, patience, time.Millisecond)
	pos, err := j.Position(t.Context(), journal.Decisions)
	require.NoError(t, err)
	require.EqualValues(t, 1, pos.Last)

	shut := request("k2")
	w.ask(nc, shut)
	pending(t, e, shut.ID)
	w.store(nc, subject.Withdraw(ref(shut)), []byte(`{"v":1,"shutdown":true}`))
	require.True(t, outcome(t, e, shut).Decision.AsksAgain())
}

func TestExpiryWithoutAnyReader_B32_B34_C08_D0_45(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	r := request("k1", expiring(300*time.Millisecond))
	raw := w.ask(nc, r)
	ix := outcome(t, e, r)
	require.Equal(t, hitl.Expired, ix.Outcome)
	require.Equal(t, "system", ix.Decision.Principal.Kind, "no person in the record")
	rec := e.Decide(t.Context(), answer(r, raw, "ada", allow))
	require.Equal(t, hitl.TooLate, rec.Status)
	pending(t, e)
	require.Eventually(t, func() bool {
		_, err := w.journal(nc).Request(t.Context(), ref(r))
		return errors.Is(err, journal.ErrNotFound)
	}, patience, time.Millisecond, "what waited in vain holds nothing")
}

func TestAnswerAtTheDeadlineIsExpired_D0_47_invariant9(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nc := w.connect()
	// A gateway whose clock is far ahead, but whose timers have not fired.
	var ahead time.Duration
	var mu sync.Mutex
	e, _ := w.gateway(sharing(func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(ahead)
	}))
	r := request("k1", expiring(time.Hour))
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	mu.Lock()
	ahead = time.Hour
	mu.Unlock()
	rec := e.Decide(t.Context(), answer(r, raw, "ada", allow))
	require.Equal(t, hitl.TooLate, rec.Status)
	require.Equal(t, hitl.Expired, rec.Decision.Outcome)
	require.Equal(t, hitl.Expired, outcome(t, e, r).Outcome)
}

// state stores a worker's word on a session.
func (w *world) state(nc *nats.Conn, st hitl.SessionState) {
	w.t.Helper()
	st.V, st.Tenant, st.Owner = 1, "default", "agents"
	raw, err := hitl.Marshal(st)
	require.NoError(w.t, err)
	w.store(nc, subject.State(subject.NewSession(st.Tenant, st.Owner, st.SessionID)), raw)
}

func TestEndedSessionOrphansWhatItAsked_D1_16_B37(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, stop := w.gateway()
	nc := w.connect()
	w.state(nc, hitl.SessionState{SessionID: "s1", Worker: "w1", Generation: 1, State: hitl.StateAssistantTurn})
	r := request("k1")
	w.ask(nc, r)
	pending(t, e, r.ID)
	w.state(nc, hitl.SessionState{SessionID: "s1", Worker: "w1", Generation: 1, State: hitl.StateDead, KillReason: "stopped"})
	require.Equal(t, hitl.Orphaned, outcome(t, e, r).Outcome)
	pending(t, e)
	require.Equal(t, hitl.StateDead, e.Sessions()[0].State)
	require.Equal(t, "stopped", e.Sessions()[0].KillReason)
	// The end was told while no gateway ran.
	stop()
	w.state(nc, hitl.SessionState{SessionID: "s2", Worker: "w1", Generation: 1, State: hitl.StateAssistantTurn})
	late := request("k2", func(r *hitl.Request) { r.SessionID = "s2" })
	w.ask(nc, late)
	w.state(nc, hitl.SessionState{SessionID: "s2", Worker: "w1", Generation: 1, State: hitl.StateDead})
	e, _ = w.gateway()
	require.Equal(t, hitl.Orphaned, outcome(t, e, late).Outcome)
}

func TestSilentWorkerIsUnreachableThenItsAsksAreOrphaned_B37(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var ahead time.Duration
	jump := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		ahead += d
	}
	e, _ := w.gateway(func(o *Options) {
		o.OrphanAfter = time.Minute
		o.Clock = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		}
	})
	nc := w.connect()
	w.state(nc, hitl.SessionState{SessionID: "s1", Worker: "w1", Generation: 1, State: hitl.StateAssistantTurn})
	r := request("k1", func(r *hitl.Request) { zero := hitl.Duration(0); r.ExpiresIn = &zero })
	w.ask(nc, r)
	pending(t, e, r.ID)
	require.False(t, e.Sessions()[0].Unreachable)
	beat := func() {
		raw, err := hitl.Marshal(hitl.Beat{V: 1, Worker: "w1", Runtimes: []string{"demo"}})
		require.NoError(t, err)
		require.NoError(t, nc.Publish(subject.Beat("default", "agents", "w1"), raw))
		require.NoError(t, nc.Flush())
	}
	unreachable := func(want bool) {
		require.Eventually(t, func() bool { return e.Sessions()[0].Unreachable == want }, patience, time.Millisecond)
	}
	jump(20 * time.Second)
	unreachable(true)
	pending(t, e, r.ID) // still answerable
	beat()
	unreachable(false)
	jump(61 * time.Second)
	ix := outcome(t, e, r)
	require.Equal(t, hitl.Orphaned, ix.Outcome)
	require.Eventually(t, func() bool { return e.Sessions()[0].State == hitl.StateDead }, patience, time.Millisecond)
	// A successor revives the session with the next generation.
	w.state(nc, hitl.SessionState{SessionID: "s1", Worker: "w2", Generation: 2, State: hitl.StateUserTurn})
	require.Eventually(t, func() bool { return e.Sessions()[0].State == hitl.StateUserTurn }, patience, time.Millisecond)
	// And its predecessor's late word does not count.
	w.state(nc, hitl.SessionState{SessionID: "s1", Worker: "w1", Generation: 1, State: hitl.StateDead})
	w.state(nc, hitl.SessionState{SessionID: "s3", Worker: "w2", Generation: 1, State: hitl.StateUserTurn})
	require.Eventually(t, func() bool { return len(e.Sessions()) == 2 }, patience, time.Millisecond)
	require.Equal(t, hitl.StateUserTurn, e.Sessions()[0].State)
}

// A session that no worker told of is what waits in it: when that is over, so is it.
func TestASessionWithoutAWorkerEndsWithWhatWaited_B38_B74(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	var rec recorder
	watch := e.Watch("", rec.add)
	t.Cleanup(watch.Stop)
	r := request("k1")
	raw := w.ask(w.connect(), r)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	require.Eventually(t, func() bool { st := rec.last(s1); return st != nil && st.State == hitl.StateDead }, patience, time.Millisecond)
	st := rec.last(s1)
	require.Zero(t, st.PendingCount)
	require.WithinDuration(t, time.Now(), st.StateChangedAt, time.Minute)
	require.WithinDuration(t, time.Now(), st.StartedAt, time.Minute)
}
