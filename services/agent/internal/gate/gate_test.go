package gate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// people is an Asker whose answers the test gives.
type people struct {
	mu      sync.Mutex
	waiting map[string]chan reply // by key
	asked   chan string           // keys, as they come
	ended   chan error            // causes of waits that ended early
	acks    chan ack
	taken   map[string]string // who claimed which approval
}

type reply struct {
	ans *bus.Answer
	err error
}

type ack struct{ id, stage, decision, detail string }

// stuck is an Asker whose receipts do not get through until it is closed.
type stuck struct {
	*people
	free chan struct{}
}

func (s stuck) Ack(ctx context.Context, ref subject.Ref, stage, decisionID, detail string) error {
	select {
	case <-s.free:
		return s.people.Ack(ctx, ref, stage, decisionID, detail)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newPeople() *people {
	return &people{
		waiting: map[string]chan reply{}, taken: map[string]string{}, asked: make(chan string, 100), ended: make(chan error, 100), acks: make(chan ack, 100),
	}
}

func (p *people) Ask(ctx context.Context, r *hitl.Request, _ ...bus.AskOption) (*bus.Answer, error) {
	c := make(chan reply, 1)
	p.mu.Lock()
	p.waiting[r.Key] = c
	p.mu.Unlock()
	p.asked <- r.Key
	select {
	case got := <-c:
		return got.ans, got.err
	case <-ctx.Done():
		p.ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}
}

func (p *people) Ack(_ context.Context, ref subject.Ref, stage, decisionID, detail string) error {
	p.acks <- ack{ref.ID, stage, decisionID, detail}
	return nil
}

func (p *people) Take(_ context.Context, ref subject.Ref, _, by string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[ref.ID] == "" {
		p.taken[ref.ID] = by
	}
	return p.taken[ref.ID] == by, nil
}

func (p *people) reply(key string, ans *bus.Answer, err error) {
	p.mu.Lock()
	c := p.waiting[key]
	p.mu.Unlock()
	c <- reply{ans, err}
}

// disk is a Keeper.
type disk struct {
	mu       sync.Mutex
	kept     map[string]Kept
	receipts []Receipt
	fail     error
}

func (d *disk) KeepAsk(k Kept) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return d.fail
	}
	d.kept[k.ID] = k
	return nil
}

func (d *disk) DropAsk(id string, r *Receipt) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.kept, id)
	if r != nil {
		d.receipts = append(d.receipts, *r)
	}
	return nil
}

func (d *disk) DropReceipt(r *Receipt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.receipts = slices.DeleteFunc(d.receipts, func(o Receipt) bool { return o == *r })
}

func (d *disk) unsent() []Receipt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.receipts)
}

func (d *disk) has(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.kept[id]
	return ok
}

type fixture struct {
	*people
	*disk
	t      *testing.T
	gate   *Gate
	ledger *Ledger
	told   chan Verdict // what the runtime was told
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	l, err := OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	require.NoError(t, err)
	f := &fixture{t: t, people: newPeople(), disk: &disk{kept: map[string]Kept{}}, ledger: l, told: make(chan Verdict, 100)}
	f.gate = New(Options{Asker: f.people, Ledger: l, Keeper: f.disk, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(func() {
		f.gate.Cancel("test over")
		f.gate.Wait()
		_ = l.Close() // some tests close it themselves
	})
	return f
}

func request(key string) *hitl.Request {
	return &hitl.Request{
		Kind: hitl.KindApproval, Key: key, SessionID: "s1", ToolCallID: "call", Title: "Bash",
		Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"rm -rf build","n":9007199254740993}`)},
	}
}

// open opens an ask and waits until people see it.
func (f *fixture) open(r *hitl.Request) {
	f.t.Helper()
	require.NoError(f.t, f.gate.Open(Ask{Kept: Kept{ID: r.Key, Request: r}, Settle: func(s *Settled) {
		s.Use(func(v Verdict) error {
			f.told <- v
			return nil
		})
	}}))
	require.Equal(f.t, r.Key, await(f.t, f.asked))
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

func none[T any](t *testing.T, c <-chan T) {
	t.Helper()
	select {
	case v := <-c:
		require.FailNow(t, "unexpected", "%v", v)
	default:
	}
}

// answer is a decision on r as the bus returns it.
func answer(t *testing.T, r *hitl.Request, c hitl.Content) *bus.Answer {
	t.Helper()
	q := *r
	q.V, q.Tenant, q.Owner = 1, "default", "agents"
	q.ID = hitl.ID(q.Tenant, q.Owner, q.Key, 1)
	raw, err := hitl.Marshal(&q)
	require.NoError(t, err)
	return &bus.Answer{
		Ref: subject.NewRef(q.Tenant, q.Owner, q.ID), Request: raw, Attempt: 1,
		Decision: &hitl.Decision{V: 1, DecisionID: "d-" + r.Key, InteractionID: q.ID, Digest: hitl.Digest(raw), Content: c},
	}
}

func allow() hitl.Content { return hitl.Content{Outcome: hitl.Allowed} }

func TestGate_D0_08_D0_09_D2_04_ManyOpenAnyOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keys := []string{"a", "b", "c", "d", "e"}
	for _, k := range keys {
		f.open(request(k))
	}
	require.Equal(t, 5, f.gate.Count())
	for i := len(keys) - 1; i >= 0; i-- {
		k := keys[i]
		f.reply(k, answer(t, request(k), hitl.Content{Outcome: hitl.Denied, Message: "no " + k}), nil)
		require.Equal(t, "no "+k, await(t, f.told).Text)
	}
	f.gate.Wait()
	require.Zero(t, f.gate.Count())
	require.Empty(t, f.kept, "a settled ask leaves nothing behind")
}

func TestGate_B49_ReceiptsInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open(request("a"))
	require.True(t, f.has("a"), "an ask is on disk before anybody can answer it")
	none(t, f.acks)
	ans := answer(t, request("a"), allow())
	f.reply("a", ans, nil)
	require.True(t, ptr(await(t, f.told)).Yes())
	require.Equal(t, ack{ans.Ref.ID, hitl.Delivered, "d-a", ""}, await(t, f.acks))
	require.Equal(t, ack{ans.Ref.ID, hitl.Applied, "d-a", ""}, await(t, f.acks))
}

// A receipt is on disk before its ask is gone from there, until the server has it:
// a worker that is killed in between leaves it to its successor.
func TestGate_B49_B79_ReceiptsOutliveTheirWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	free := make(chan struct{})
	g := New(Options{Asker: stuck{f.people, free}, Ledger: f.ledger, Keeper: f.disk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, g.Open(Ask{Kept: Kept{ID: "a", Request: request("a")}, Settle: func(s *Settled) {
		s.Use(func(v Verdict) error { f.told <- v; return nil })
	}}))
	await(t, f.asked)
	ans := answer(t, request("a"), allow())
	f.reply("a", ans, nil)
	require.True(t, ptr(await(t, f.told)).Yes())
	require.Eventually(t, func() bool { return !f.has("a") }, patience, time.Millisecond)
	want := []Receipt{{Ref: ans.Ref, DecisionID: "d-a", Stage: hitl.Applied}}
	require.Equal(t, want, f.unsent())

	// The successor.
	next := New(Options{Asker: f.people, Ledger: f.ledger, Keeper: f.disk, Logger: slog.New(slog.DiscardHandler)})
	next.Resend(f.unsent())
	next.Wait()
	require.Equal(t, ack{ans.Ref.ID, hitl.Delivered, "d-a", ""}, await(t, f.acks))
	require.Equal(t, ack{ans.Ref.ID, hitl.Applied, "d-a", ""}, await(t, f.acks))
	require.Empty(t, f.unsent())
	close(free)
	g.Wait()
	next.Leave()
}

func ptr[T any](v T) *T { return &v }

// "Seen is run": whatever the decision is about other than what is held here
// runs nothing.
func TestGate_B55_OtherContentIsRefused_invariant5(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *bus.Answer){
		"digest of something else": func(_ *testing.T, a *bus.Answer) { a.Decision.Digest = hitl.Digest([]byte("x")) },
		"another interaction":      func(_ *testing.T, a *bus.Answer) { a.Decision.InteractionID = "other" },
		"other input": func(t *testing.T, a *bus.Answer) {
			r := request("a")
			r.Tool.Input = json.RawMessage(`{"command":"rm -rf build","n":9007199254740992}`)
			*a = *answer(t, r, allow())
		},
		"other tool": func(t *testing.T, a *bus.Answer) {
			r := request("a")
			r.Tool.Name = "Write"
			*a = *answer(t, r, allow())
		},
		"wider permissions": func(t *testing.T, a *bus.Answer) {
			r := request("a")
			r.Suggestions = json.RawMessage(`[{"type":"setMode"}]`)
			*a = *answer(t, r, allow())
		},
		"unreadable request": func(_ *testing.T, a *bus.Answer) {
			a.Request = []byte("{")
			a.Decision.Digest = hitl.Digest(a.Request)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.open(request("a"))
			ans := answer(t, request("a"), allow())
			spoil(t, ans)
			f.reply("a", ans, nil)
			v := await(t, f.told)
			require.False(t, v.Yes())
			require.Equal(t, mismatchText, v.Text)
			require.Equal(t, hitl.Delivered, await(t, f.acks).stage)
			last := await(t, f.acks)
			require.Equal(t, hitl.Refused, last.stage)
			require.NotEmpty(t, last.detail)
			require.NoError(t, f.ledger.Spent(ans.Decision.InteractionID, ""))
		})
	}
}

func TestGate_B55_OtherKeyOrderIsTheSameContent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open(request("a"))
	r := request("a")
	r.Tool.Input = json.RawMessage(`{"n":9007199254740993, "command":"rm -rf build"}`)
	f.reply("a", answer(t, r, allow()), nil)
	require.True(t, ptr(await(t, f.told)).Yes())
}

func TestGate_AnOutcomeMustFitItsKind(t *testing.T) {
	t.Parallel()
	question := &hitl.Request{Kind: hitl.KindQuestion, Key: "a", SessionID: "s1", Title: "t", Questions: []hitl.Question{{Question: "why?"}}}
	form := &hitl.Request{Kind: hitl.KindForm, Key: "a", SessionID: "s1", Title: "t", Schema: json.RawMessage(`{"type":"object"}`)}
	for name, c := range map[string]struct {
		r *hitl.Request
		c hitl.Content
	}{
		"an answered approval":      {request("a"), hitl.Content{Outcome: hitl.Answered}},
		"an allowed question":       {question, allow()},
		"a question without answer": {question, hitl.Content{Outcome: hitl.Answered}},
		"an allowed form":           {form, allow()},
		"a form without content":    {form, hitl.Content{Outcome: hitl.Answered}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.open(c.r)
			f.reply("a", answer(t, c.r, c.c), nil)
			require.False(t, ptr(await(t, f.told)).Yes())
			await(t, f.acks)
			require.Equal(t, hitl.Refused, await(t, f.acks).stage)
		})
	}
}

func TestGate_D0_10_D0_47_D1_17_WithdrawnAsksAreNeverAnswered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open(request("a"))
	f.open(request("b"))
	require.True(t, f.gate.Withdraw("a", "interrupted"))
	require.False(t, f.gate.Withdraw("a", "interrupted"), "a second time does nothing")
	require.False(t, f.gate.Withdraw("unknown", "interrupted"))
	var w *WithdrawnError
	require.ErrorAs(t, await(t, f.ended), &w)
	f.gate.Cancel("the session has ended")
	require.ErrorAs(t, await(t, f.ended), &w)
	f.gate.Wait()
	none(t, f.told)
	require.Empty(t, f.kept)
	require.ErrorIs(t, f.gate.Open(Ask{Kept: Kept{ID: "c", Request: request("c")}}), ErrClosed)
}

// What the agent said before it asked goes out before the ask does, and an ask
// that is taken back meanwhile is never put to anybody.
func TestGate_D0_14_D2_02_WhatWasSaidGoesFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	began, out := make(chan struct{}, 1), make(chan struct{})
	g := New(Options{
		Asker: f.people, Ledger: f.ledger, Keeper: f.disk, Logger: slog.New(slog.DiscardHandler),
		Before: func(ctx context.Context) {
			began <- struct{}{}
			select {
			case <-out:
			case <-ctx.Done():
			}
		},
	})
	require.NoError(t, g.Open(Ask{Kept: Kept{ID: "a", Request: request("a")}, Settle: func(*Settled) {}}))
	await(t, began)
	none(t, f.asked)
	close(out)
	require.Equal(t, "a", await(t, f.asked))
	g.Cancel("test over")
	g.Wait()
}

// A person who answered just before a withdrawal learns that it was in vain.
func TestGate_B49_AnAnswerToAWithdrawnAskIsRefused(t *testing.T) {
	t.Parallel()
	p := newPeople()
	f := newFixture(t)
	var g *Gate
	late := lateAsker{p, func() { g.Withdraw("a", "interrupted") }, answer(t, request("a"), allow())}
	g = New(Options{Asker: late, Ledger: f.ledger, Keeper: f.disk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, g.Open(Ask{Kept: Kept{ID: "a", Request: request("a")}, Settle: func(*Settled) { t.Error("settled") }}))
	a := await(t, p.acks)
	require.Equal(t, hitl.Refused, a.stage)
	require.Contains(t, a.detail, "interrupted")
	g.Wait()
}

type lateAsker struct {
	*people
	before func()
	ans    *bus.Answer
}

func (l lateAsker) Ask(context.Context, *hitl.Request, ...bus.AskOption) (*bus.Answer, error) {
	l.before()
	return l.ans, nil
}

func TestGate_LeavingKeepsAsksForTheSuccessor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open(request("a"))
	f.gate.Leave()
	require.ErrorIs(t, await(t, f.ended), bus.ErrShutdown)
	f.gate.Wait()
	none(t, f.told)
	none(t, f.acks)
	require.True(t, f.has("a"))

	t.Run("a lost connection too", func(t *testing.T) {
		f := newFixture(t)
		f.open(request("a"))
		f.reply("a", nil, &bus.WaitError{Err: bus.ErrClosed})
		f.gate.Wait()
		none(t, f.told)
		require.True(t, f.has("a"))
	})
	t.Run("and a decision that nobody took", func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, f.gate.Open(Ask{Kept: Kept{ID: "a", Request: request("a")}, Settle: func(s *Settled) {
			f.gate.Leave()
			s.Use(func(Verdict) error { return errors.New("the process is gone") })
		}}))
		await(t, f.asked)
		f.reply("a", answer(t, request("a"), allow()), nil)
		f.gate.Wait()
		require.True(t, f.has("a"))
		require.Equal(t, hitl.Delivered, await(t, f.acks).stage)
		none(t, f.acks)
	})
}

func TestGate_NotTakenIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.NoError(t, f.gate.Open(Ask{Kept: Kept{ID: "a", Request: request("a")}, Settle: func(s *Settled) {
		s.Use(func(Verdict) error { return errors.New("withdrawn meanwhile") })
	}}))
	await(t, f.asked)
	f.reply("a", answer(t, request("a"), hitl.Content{Outcome: hitl.Denied}), nil)
	await(t, f.acks)
	last := await(t, f.acks)
	require.Equal(t, hitl.Refused, last.stage)
	require.Contains(t, last.detail, "withdrawn meanwhile")
}

func TestGate_FailsClosedWithoutItsDisk_invariant4(t *testing.T) {
	t.Parallel()
	t.Run("nobody is asked", func(t *testing.T) {
		f := newFixture(t)
		f.fail = errors.New("disk full")
		r := request("a")
		require.NoError(t, f.gate.Open(Ask{Kept: Kept{ID: "a", Request: r}, Settle: func(s *Settled) {
			s.Use(func(v Verdict) error { f.told <- v; return nil })
		}}))
		require.Contains(t, await(t, f.told).Text, "could not be stored")
		none(t, f.asked)
	})
	t.Run("an approval that cannot be recorded is not used", func(t *testing.T) {
		f := newFixture(t)
		f.open(request("a"))
		require.NoError(t, f.ledger.Close())
		f.reply("a", answer(t, request("a"), allow()), nil)
		v := await(t, f.told)
		require.False(t, v.Yes())
		require.Contains(t, v.Text, "could not be recorded")
		await(t, f.acks)
		require.Equal(t, hitl.Refused, await(t, f.acks).stage)
	})
}

func TestGate_DecisionsNotUsedYetAreRefusedAtTheEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	settled := make(chan *Settled, 1)
	require.NoError(t, f.gate.Open(Ask{Kept: Kept{ID: "a", Request: request("a")}, Settle: func(s *Settled) { settled <- s }}))
	await(t, f.asked)
	f.reply("a", answer(t, request("a"), allow()), nil)
	s := await(t, settled)
	f.gate.Cancel("stopped by a person")
	await(t, f.acks)
	require.Equal(t, "stopped by a person", await(t, f.acks).detail)
	s.Use(func(Verdict) error { t.Error("used after the end"); return nil })
	require.Empty(t, f.kept)
}
