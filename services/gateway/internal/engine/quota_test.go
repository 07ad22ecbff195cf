package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

func within(l quota.Limits) func(*Options) {
	return func(o *Options) { o.Quota = l }
}

func TestOverAQuotaARequestIsInvalidAndSaysWhich(t *testing.T) {
	t.Parallel()
	one, err := hitl.Marshal(request("k1"))
	require.NoError(t, err)
	for field, c := range map[string]struct {
		limits quota.Limits
		// again: a place is free once the open one is decided.
		again bool
	}{
		"quota.open":  {quota.Limits{Open: 1}, true},
		"quota.bytes": {quota.Limits{OpenBytes: int64(len(one)) * 3 / 2}, true},
		"quota.rate":  {quota.Limits{DayBytes: 4 << 10}, false},
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e, _ := w.gateway(within(c.limits))
			nc := w.connect()
			first, second, third := request("k1"), request("k2"), request("k3")
			raw := w.ask(nc, first)
			pending(t, e, first.ID)
			w.ask(nc, second)
			ix := outcome(t, e, second)
			require.Equal(t, hitl.InvalidIX, ix.Outcome)
			require.Equal(t, field, ix.Decision.Fields[0].Field)
			require.Contains(t, hitl.AgentText(second, &ix.Decision.Content), field)
			stored, err := w.journal(nc).Decision(t.Context(), ref(second))
			require.NoError(t, err)
			require.Empty(t, stored.RequestB64, "a refused request is not kept")
			pending(t, e, first.ID)
			// Another owner is not concerned.
			other := request("k1", func(r *hitl.Request) { r.Owner = "cli" })
			w.ask(nc, other)
			pending(t, e, first.ID, other.ID)

			require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(first, raw, "ada", allow)).Status)
			pending(t, e, other.ID)
			outcome(t, e, first)
			require.Eventually(t, func() bool { return e.view.Len() == 1 }, patience, time.Millisecond)
			w.ask(nc, third)
			if !c.again {
				require.Equal(t, hitl.InvalidIX, outcome(t, e, third).Outcome)
				return
			}
			pending(t, e, other.ID, third.ID)
		})
	}
}

func TestAQuotaIsCountedAcrossGatewaysAndRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limits := within(quota.Limits{OpenBytes: 100 << 10})
	e, stop := w.gateway(limits)
	nc := w.connect()
	// Larger than what an open event carries: its size is told all the same.
	big := request("big", func(r *hitl.Request) { r.Message = fmt.Sprintf("%060000d", 0) })
	w.ask(nc, big)
	pending(t, e, big.ID)
	two, _ := w.gateway(limits)
	require.Equal(t, 1, two.view.Len())
	stop() // the next is the other gateway's, which only loaded the first
	again := request("again", func(r *hitl.Request) { r.Message = fmt.Sprintf("%060000d", 0) })
	w.ask(nc, again)
	require.Equal(t, "quota.bytes", outcome(t, two, again).Decision.Fields[0].Field)
}

func TestAQuotaCountsWhatAnotherGatewayOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	two := New(Options{Journal: w.journal(w.connect()), Conn: w.connect(), Logger: slog.New(slog.DiscardHandler), Quota: quota.Limits{OpenBytes: 100 << 10}})
	r := request("big", func(r *hitl.Request) { r.Message = fmt.Sprintf("%060000d", 0) })
	one, _ := w.gateway()
	w.ask(w.connect(), r)
	pending(t, one, r.ID)
	require.NoError(t, w.journal(w.connect()).Read(t.Context(), journal.Events, 1, nil, func(m journal.Message) error {
		two.view.ApplyEvent(m)
		return nil
	}))
	require.Equal(t, 1, two.view.Len())
	require.Equal(t, "quota.bytes", two.ledger.Check(quota.Owner{Tenant: "default", Name: "agents"}, 60_000).Field)
	require.Nil(t, two.ledger.Check(quota.Owner{Tenant: "default", Name: "agents"}, 30_000))
}

// Beyond the refusals of a day nothing is recorded: the request goes, and its
// asker is told.
func TestRefusalsWithoutEndFillNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gateway(within(quota.Limits{DayRefusals: 2}))
	nc := w.connect()
	heard := make(chan *nats.Msg, 100)
	_, err := nc.ChanSubscribe("hitl.inbox.>", heard)
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	for i := range 5 {
		r := subject.NewRef("default", "agents", fmt.Sprintf("id%d", i))
		w.store(nc, subject.Request(r), []byte(`{"v":1}`))
		select {
		case m := <-heard:
			require.Equal(t, subject.Inbox(r), m.Subject)
			why := m.Header.Get(wire.HeaderTurnedAway)
			if i < 2 {
				require.Empty(t, why)
				require.NotEmpty(t, m.Data, "a decision")
				continue
			}
			require.Contains(t, why, "kind")
			require.Empty(t, m.Data)
			_, err := w.journal(nc).Request(t.Context(), r)
			require.ErrorIs(t, err, journal.ErrNotFound)
			_, err = w.journal(nc).Decision(t.Context(), r)
			require.ErrorIs(t, err, journal.ErrNotFound)
		case <-time.After(patience):
			t.Fatal("nobody was told")
		}
	}
}

// What was put before people by a gateway that died meanwhile stays there, over
// a quota or not.
func TestWhatIsOpenStaysOpenOverAQuota(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]quota.Limits{"bytes": {OpenBytes: 1}, "rate": {DayBytes: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			nc := w.connect()
			r := request("k1")
			raw := w.ask(nc, r)
			e, _ := w.gateway(within(limits), func(o *Options) { o.Journal = untold{o.Journal, true, nil, nil} })
			m, err := w.journal(nc).Request(t.Context(), ref(r))
			require.NoError(t, err)
			one := New(Options{Journal: w.journal(nc), Conn: nc, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, one.admitStored(t.Context(), ref(r), journal.Delivery{Message: *m}))
			require.NoError(t, e.admitStored(t.Context(), ref(r), journal.Delivery{Message: *m, Redelivered: true}))
			require.Equal(t, 1, e.view.Len())
			_, err = w.journal(nc).Decision(t.Context(), ref(r))
			require.ErrorIs(t, err, journal.ErrNotFound)
			require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
			one.stopBg()
			one.bg.Wait()
		})
	}
}

// Who had a request before may have put it before people, and may be about to
// say so: whoever refuses it after that keeps what it was, and its end follows a
// beginning.
func TestWhatAnotherGatewayHadIsRefusedOnTheRecord_invariant8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	j := w.journal(nc)
	m, err := j.Request(t.Context(), ref(r))
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	full := New(Options{Journal: j, Conn: nc, Logger: log, Quota: quota.Limits{OpenBytes: 1, DayRefusals: 1}})
	require.True(t, full.ledger.Refuse(quota.Owner{Tenant: "default", Name: "agents"}), "the day's only refusal without its request")
	again := journal.Delivery{Message: *m, Redelivered: true}
	require.NoError(t, full.admitStored(t.Context(), ref(r), again))
	full.bg.Wait()
	d, err := j.Decision(t.Context(), ref(r))
	require.NoError(t, err)
	require.Equal(t, hitl.InvalidIX, d.Outcome)
	require.Equal(t, "quota.bytes", d.Fields[0].Field)
	kept, err := d.Request()
	require.NoError(t, err)
	require.Equal(t, raw, kept)
	late := New(Options{Journal: j, Conn: nc, Logger: log})
	require.NoError(t, late.writeOpen(t.Context(), wire.Summary{SessionID: r.SessionID}, raw, card.Admission{Ref: ref(r)}, false))
	var events []string
	require.NoError(t, j.Read(t.Context(), journal.Events, 1, nil, func(m journal.Message) error {
		events = append(events, m.Subject)
		return nil
	}))
	require.Equal(t, []string{subject.Event(ref(r), "s1", subject.Open), subject.Event(ref(r), "s1", subject.Closed)}, events)
	full.stopBg()
	late.stopBg()
}

// heldEnds is a journal whose closed events wait until free is closed.
type heldEnds struct {
	journal.Journal
	free <-chan struct{}
}

func (h heldEnds) WriteEvent(ctx context.Context, subj string, data []byte) (uint64, error) {
	if strings.HasSuffix(subj, "."+subject.Closed) {
		select {
		case <-h.free:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return h.Journal.WriteEvent(ctx, subj, data)
}

// Whoever has an answer asks for the next thing before the closed event of the
// first is stored.
func TestADecisionFreesItsPlaceInTheQuotaAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	free := make(chan struct{})
	e, _ := w.gateway(within(quota.Limits{Open: 1}), func(o *Options) { o.Journal = heldEnds{o.Journal, free} })
	nc := w.connect()
	first, second, third := request("k1"), request("k2"), request("k3")
	raw := w.ask(nc, first)
	pending(t, e, first.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(first, raw, "ada", allow)).Status)
	w.ask(nc, second)
	pending(t, e, second.ID)
	close(free)
	outcome(t, e, first)
	require.Eventually(t, func() bool { return e.view.Len() == 1 }, patience, time.Millisecond)
	// The place was given back once, not twice.
	w.ask(nc, third)
	require.Equal(t, hitl.InvalidIX, outcome(t, e, third).Outcome)
	pending(t, e, second.ID)
}

// What is beyond an owner's quota of conversation is not stored, whoever let pass
// the rest; the log names that owner, seldom, and no other.
func TestAConversationBeyondItsQuotaIsRefusedAndToldOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log lockedLog
	e, _ := w.gateway(within(quota.Limits{DayTalk: 64 << 10}), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	nc := w.connect()
	body := []byte(`{"type":"text","data":{"text":"` + strings.Repeat("x", 1<<10) + `"}}`)
	// Another gateway let a third of it pass.
	for range 9 {
		m := &nats.Msg{Subject: "hitl.evt.default.loud.s1", Data: body, Header: nats.Header{relay.HeaderVia: {"another"}}}
		_, err := nc.RequestMsg(m, patience)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return e.view.Position().Transcripts == 9 }, patience, time.Millisecond)
	say := func(owner string, n int) {
		for range n {
			require.NoError(t, nc.Publish(subject.Said("hitl.evt.default."+owner+".s1"), body))
		}
	}
	say("quiet", 10)
	say("loud", 100)
	say("quiet", 10)
	fit := (48 << 10) / (len(body) + relay.Overhead)
	require.Eventually(t, func() bool { return e.view.Position().Transcripts == int64(20+fit) }, patience, time.Millisecond)
	told := log.lines("tells more of its sessions than its quota")
	require.Len(t, told, 1)
	require.Contains(t, told[0], "owner=loud")
	require.Empty(t, log.lines("got past the gateways"))
	// Accounts of an older version let owners past, and that is noticed.
	w.store(nc, "hitl.evt.default.old.s1", body)
	require.Eventually(t, func() bool { return len(log.lines("got past the gateways")) == 1 }, patience, time.Millisecond)
	require.Contains(t, log.lines("got past the gateways")[0], "owner=old")
}

// Whoever sends heartbeats of ever new workers is told of once and harms nobody.
func TestAFloodOfWorkersIsNotHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log lockedLog
	e, _ := w.gateway(func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	nc := w.connect()
	beat := func(owner, worker string) {
		raw, err := hitl.Marshal(hitl.Beat{V: 1, Worker: worker, Runtimes: []string{"demo"}})
		require.NoError(t, err)
		require.NoError(t, nc.Publish("hitl.beat.default."+owner+"."+worker, raw))
	}
	for i := range 5000 {
		beat("loud", fmt.Sprintf("w%d", i))
	}
	beat("quiet", "w")
	require.Eventually(t, func() bool { return e.view.Serves("default", "quiet", "demo") }, patience, time.Millisecond)
	n, _ := e.view.Workers()
	require.Equal(t, 1001, n)
	require.Len(t, log.lines("too many workers"), 1)
	r := request("k")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
}
