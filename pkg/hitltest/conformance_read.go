package hitltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
)

func requests(t *testing.T, e Env) {
	ctx := limited(t)
	ref := subject.NewRef("t", "o", "i")
	_, err := e.Journal.Request(ctx, ref)
	require.ErrorIs(t, err, journal.ErrNotFound)
	e.Publish(t, subject.Request(ref), map[string][]string{hitl.HeaderWorker: {"w1"}}, []byte(`{"a": 1.0}`))
	m, err := e.Another.Request(ctx, ref)
	require.NoError(t, err)
	require.Equal(t, subject.Request(ref), m.Subject)
	require.Equal(t, `{"a": 1.0}`, string(m.Data), "byte for byte")
	require.Equal(t, []string{"w1"}, m.Header[hitl.HeaderWorker])
	require.EqualValues(t, 1, m.Seq)
	require.WithinDuration(t, time.Now(), m.Time, patience)

	require.NoError(t, e.Journal.DeleteRequest(ctx, m.Seq))
	_, err = e.Journal.Request(ctx, ref)
	require.ErrorIs(t, err, journal.ErrNotFound)
	require.NoError(t, e.Journal.DeleteRequest(ctx, m.Seq), "a deleted one")
	require.NoError(t, e.Journal.DeleteRequest(ctx, 4711), "one that never was")

	e.Publish(t, subject.Request(ref), nil, []byte(`again`))
	m, err = e.Journal.Request(ctx, ref)
	require.NoError(t, err)
	require.EqualValues(t, 2, m.Seq)
}

func traced(t *testing.T, e Env) {
	ref, at := subject.NewRef("t", "o", "i"), trace.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1")
	won, _, err := e.Journal.Decide(at.In(limited(t)), ref, SampleDecision(ref, "d", hitl.Allowed))
	require.NoError(t, err)
	require.Equal(t, at, won.Trace)
	got, err := e.Another.Decision(limited(t), ref)
	require.NoError(t, err)
	require.Equal(t, at, got.Trace)
	_, err = e.Journal.WriteEvent(at.In(limited(t)), subject.Event(ref, "s", subject.Open), []byte("open"))
	require.NoError(t, err)
	_, err = e.Journal.WriteEvent(limited(t), subject.Event(ref, "s", subject.Closed), []byte("closed"))
	require.NoError(t, err)
	events := all(t, e.Another, journal.Events)
	require.Equal(t, at, trace.Read(events[0].Header))
	require.True(t, trace.Read(events[1].Header).IsZero())
}

func eventOnce(t *testing.T, e Env) {
	ref := subject.NewRef("t", "o", "i")
	const writers = 20
	seqs := make([]uint64, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			seq, err := e.both()[i%2].WriteEvent(limited(t), subject.Event(ref, "s", subject.Open), fmt.Appendf(nil, "writer %d", i))
			if err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
			seqs[i] = seq
		})
	}
	wg.Wait()
	for _, seq := range seqs {
		require.EqualValues(t, 1, seq)
	}
	closed, err := e.Journal.WriteEvent(limited(t), subject.Event(ref, "s", subject.Closed), []byte("closed"))
	require.NoError(t, err)
	require.EqualValues(t, 2, closed)
	require.Len(t, all(t, e.Journal, journal.Events), 2)
}

func states(t *testing.T, e Env) {
	ctx := limited(t)
	s := subject.NewSession("t", "o", "s")
	require.NoError(t, e.Journal.WriteGatewayState(ctx, s, []byte("one")))
	require.NoError(t, e.Journal.WriteGatewayState(ctx, s, []byte("two")))
	var got []string
	require.NoError(t, e.Another.Last(ctx, journal.Events, []string{"hitl.sgw.>"}, func(m journal.Message) error {
		got = append(got, m.Subject+" "+string(m.Data))
		return nil
	}))
	require.Equal(t, []string{"hitl.sgw.t.o.s two"}, got)

	require.NoError(t, e.Journal.Enqueue(ctx, &hitl.Start{V: 1, SessionID: "s", Tenant: "t", Pool: "p", Runtime: "demo"}))
	p, err := e.Journal.Position(ctx, journal.Work)
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Last)
}

func floors(t testing.TB, j journal.Journal, intake, sweeper uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		i, s, err := j.Floors(limited(t))
		return err == nil && i == intake && s == sweeper
	}, patience, 5*time.Millisecond, "floors %d and %d", intake, sweeper)
}

func intake(t *testing.T, e Env) {
	floors(t, e.Journal, 0, 0)
	got := make(chan journal.Delivery, 10) // never closed
	running(t, func(ctx context.Context) error {
		return e.Journal.Intake(ctx, 4, func(_ context.Context, d journal.Delivery) { got <- d })
	})
	ref := subject.NewRef("t", "o", "i")
	e.Publish(t, subject.Request(ref), map[string][]string{hitl.HeaderAttempt: {"1"}}, []byte("ask"))
	first := next(t, got)
	require.Equal(t, "hitl.req.t.o.i", first.Subject)
	require.EqualValues(t, 1, first.Seq)
	require.Equal(t, "ask", string(first.Data))
	require.Equal(t, []string{"1"}, first.Header[hitl.HeaderAttempt])
	require.False(t, first.Redelivered)
	require.WithinDuration(t, time.Now(), first.Time, patience)

	e.Publish(t, subject.Withdraw(ref), nil, []byte("withdraw"))
	second := next(t, got)
	require.Equal(t, "hitl.cxl.t.o.i", second.Subject)
	require.NoError(t, second.Ack())
	floors(t, e.Another, 0, 0)
	require.NoError(t, first.Ack())
	require.NoError(t, first.Ack(), "a second acknowledgement does nothing")
	floors(t, e.Another, 2, 0)
	nothing(t, got)
}

func intakeNak(t *testing.T, e Env) {
	got := make(chan journal.Delivery, 10) // never closed
	running(t, func(ctx context.Context) error {
		return e.Journal.Intake(ctx, 1, func(_ context.Context, d journal.Delivery) { got <- d })
	})
	e.Publish(t, "hitl.req.t.o.i", nil, []byte("x"))
	d := next(t, got)
	require.NoError(t, d.Nak(0))
	d = next(t, got)
	require.True(t, d.Redelivered)
	require.EqualValues(t, 1, d.Seq)
	naked := time.Now()
	require.NoError(t, d.Nak(200*time.Millisecond))
	d = next(t, got)
	require.GreaterOrEqual(t, time.Since(naked), 150*time.Millisecond)
	require.NoError(t, d.Term())
	floors(t, e.Journal, 1, 0)
	nothing(t, got)
}

// intakeHandover stops a gateway that holds a message and has others waiting.
func intakeHandover(t *testing.T, e Env) {
	const messages = 10
	for i := range messages {
		e.Publish(t, fmt.Sprintf("hitl.req.t.o.i%d", i), nil, []byte("x"))
	}
	held := make(chan struct{}) // closed by the first delivery
	var once sync.Once
	stop := running(t, func(ctx context.Context) error {
		return e.Journal.Intake(ctx, 1, func(ctx context.Context, d journal.Delivery) {
			once.Do(func() { close(held) })
			<-ctx.Done()
			if err := d.Nak(0); err != nil {
				t.Error(err)
			}
		})
	})
	next(t, held)
	require.ErrorIs(t, stop(), context.Canceled)

	got := make(chan journal.Delivery, 2*messages) // never closed
	running(t, func(ctx context.Context) error {
		return e.Another.Intake(ctx, 2, func(_ context.Context, d journal.Delivery) {
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
			got <- d
		})
	})
	seen := map[uint64]bool{}
	for len(seen) < messages {
		seen[next(t, got).Seq] = true
	}
	floors(t, e.Another, messages, 0)
}

func intakeWorkers(t *testing.T, e Env) {
	const workers, messages = 3, 50
	for i := range messages {
		e.Publish(t, fmt.Sprintf("hitl.req.t.o.i%d", i), nil, []byte("x"))
	}
	var busy, most atomic.Int32
	full := make(chan struct{}) // closed when all workers are busy at once
	var once sync.Once
	got := make(chan struct{}, messages) // never closed
	running(t, func(ctx context.Context) error {
		return e.Journal.Intake(ctx, workers, func(_ context.Context, d journal.Delivery) {
			n := busy.Add(1)
			defer busy.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			if n == workers {
				once.Do(func() { close(full) })
			}
			<-full
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
			got <- struct{}{}
		})
	})
	for range messages {
		next(t, got)
	}
	require.EqualValues(t, workers, most.Load())
	floors(t, e.Journal, messages, 0)
}

func sweep(t *testing.T, e Env) {
	got := make(chan journal.Delivery, 10) // never closed
	running(t, func(ctx context.Context) error {
		return e.Journal.Sweep(ctx, 2, func(_ context.Context, d journal.Delivery) { got <- d })
	})
	ref := subject.NewRef("t", "o", "i")
	w, _, err := e.Journal.Decide(limited(t), ref, SampleDecision(ref, "d", hitl.Allowed))
	require.NoError(t, err)
	d := next(t, got)
	require.Equal(t, subject.Decision(ref), d.Subject)
	require.Equal(t, w.Seq, d.Seq)
	require.NotEmpty(t, d.Header[hitl.HeaderSigner])
	require.NotEmpty(t, d.Header[hitl.HeaderSignature])
	parsed, err := hitl.ParseDecision(d.Data)
	require.NoError(t, err)
	require.Equal(t, "d", parsed.DecisionID)
	require.NoError(t, d.Ack())
	floors(t, e.Journal, 0, w.Seq)
}

// hostileHeaders are stored headers that clients elsewhere take for the
// server's own words.
var hostileHeaders = []map[string][]string{
	{"Status": {"100"}, "Description": {"Idle Heartbeat"}},
	{"Status": {"404"}, "Description": {"No Messages"}},
	{"Status": {"408"}, "Description": {"Request Timeout"}},
	{"Status": {"409"}, "Description": {"Consumer Deleted"}},
	{"Status": {"503"}},
	{"Nats-Subject": {"hitl.req.t.o.another"}, "Nats-Sequence": {"9999"}, "Nats-Stream": {"HITL_DECISIONS"}},
	{"Nats-Time-Stamp": {"1999-01-01T00:00:00Z"}, "Nats-Last-Sequence": {"1"}},
	{"Nats-Pending-Messages": {"0"}, "Nats-Pending-Bytes": {"0"}, "Nats-Num-Pending": {"0"}},
	{"Nats-Consumer-Stalled": {"$JS.ACK.x"}, "Nats-Last-Consumer": {"77"}},
}

func hostile(t *testing.T, e Env) {
	ctx := limited(t)
	for i, h := range hostileHeaders {
		e.Publish(t, fmt.Sprintf("hitl.req.t.o.i%d", i), h, nil)
	}
	check := func(m journal.Message) {
		t.Helper()
		i := int(m.Seq) - 1
		require.Equal(t, fmt.Sprintf("hitl.req.t.o.i%d", i), m.Subject)
		require.Empty(t, m.Data)
		require.WithinDuration(t, time.Now(), m.Time, patience)
		for k, v := range hostileHeaders[i] {
			require.Equal(t, v, m.Header[k], "headers are kept as what they are: the asker's")
		}
	}
	read := all(t, e.Journal, journal.Requests)
	require.Len(t, read, len(hostileHeaders))
	for _, m := range read {
		check(m)
	}
	followed := make(chan journal.Message, len(hostileHeaders)) // never closed
	running(t, func(ctx context.Context) error {
		return e.Journal.Follow(ctx, journal.Requests, 0, nil, func(m journal.Message) error {
			followed <- m
			return nil
		})
	})
	taken := make(chan journal.Delivery, len(hostileHeaders)) // never closed
	running(t, func(ctx context.Context) error {
		return e.Journal.Intake(ctx, 1, func(_ context.Context, d journal.Delivery) { taken <- d })
	})
	for i := range hostileHeaders {
		m, err := e.Journal.Request(ctx, subject.NewRef("t", "o", fmt.Sprintf("i%d", i)))
		require.NoError(t, err)
		check(*m)
		check(next(t, followed))
		d := next(t, taken)
		check(d.Message)
		require.NoError(t, d.Ack())
	}
	// And everything still works for those who come after.
	e.Publish(t, "hitl.req.t.o.honest", nil, []byte("x"))
	require.Equal(t, "hitl.req.t.o.honest", next(t, followed).Subject)
	d := next(t, taken)
	require.Equal(t, "hitl.req.t.o.honest", d.Subject)
	require.NoError(t, d.Ack())
	floors(t, e.Journal, uint64(len(hostileHeaders))+1, 0)
}

func positions(t *testing.T, e Env) {
	ctx := limited(t)
	p, err := e.Journal.Position(ctx, journal.Requests)
	require.NoError(t, err)
	require.Zero(t, p.Last)
	for i := range 3 {
		e.Publish(t, fmt.Sprintf("hitl.req.t.o.i%d", i), nil, []byte("x"))
	}
	require.NoError(t, e.Journal.DeleteRequest(ctx, 1))
	q, err := e.Another.Position(ctx, journal.Requests)
	require.NoError(t, err)
	require.EqualValues(t, 2, q.First)
	require.EqualValues(t, 3, q.Last)
	require.WithinDuration(t, time.Now(), q.Created, patience)
	require.Equal(t, p.Created, q.Created)
	_, err = e.Journal.Position(ctx, "NO_SUCH_STREAM")
	require.Error(t, err)
}

func fill(t testing.TB, e Env, n int) {
	t.Helper()
	for i := range n {
		e.Publish(t, fmt.Sprintf("hitl.evt.t.o.s%d", i%3), nil, fmt.Appendf(nil, "%d", i))
	}
}

func read(t *testing.T, e Env) {
	ctx := limited(t)
	require.Empty(t, all(t, e.Journal, journal.Transcripts), "an empty stream ends at once")
	fill(t, e, 1500)
	require.Empty(t, all(t, e.Journal, journal.Transcripts, "hitl.evt.nobody.>"), "so does one without a match")
	for i, m := range all(t, e.Journal, journal.Transcripts) {
		require.EqualValues(t, i+1, m.Seq)
		require.Equal(t, fmt.Sprint(i), string(m.Data))
	}
	require.Len(t, all(t, e.Journal, journal.Transcripts), 1500)
	require.Len(t, all(t, e.Journal, journal.Transcripts, "hitl.evt.t.o.s0"), 500)
	two := all(t, e.Journal, journal.Transcripts, "hitl.evt.t.o.s0", "hitl.evt.t.o.s2")
	require.Len(t, two, 1000)
	for i := range two[1:] {
		require.Less(t, two[i].Seq, two[i+1].Seq)
	}
	var from []uint64
	require.NoError(t, e.Journal.Read(ctx, journal.Transcripts, 1499, nil, func(m journal.Message) error {
		from = append(from, m.Seq)
		return nil
	}))
	require.Equal(t, []uint64{1499, 1500}, from)
	require.NoError(t, e.Journal.Read(ctx, journal.Transcripts, 1501, nil, func(journal.Message) error {
		return errors.New("nothing is there")
	}))

	stop := errors.New("enough")
	calls := 0
	require.ErrorIs(t, e.Journal.Read(ctx, journal.Transcripts, 0, nil, func(journal.Message) error {
		calls++
		return stop
	}), stop)
	require.Equal(t, 1, calls)

	// What is stored while reading is for the next reader.
	calls = 0
	require.NoError(t, e.Journal.Read(ctx, journal.Transcripts, 0, nil, func(m journal.Message) error {
		if calls++; m.Seq == 1 {
			fill(t, e, 10)
		}
		return nil
	}))
	require.Equal(t, 1500, calls)

	// Deleted messages are no reason to wait for them, even as the last ones.
	for i := range 4 {
		e.Publish(t, fmt.Sprintf("hitl.req.t.o.i%d", i), nil, []byte("x"))
	}
	require.NoError(t, e.Journal.DeleteRequest(ctx, 2))
	require.NoError(t, e.Journal.DeleteRequest(ctx, 4))
	var left []uint64
	for _, m := range all(t, e.Another, journal.Requests, "hitl.req.>") {
		left = append(left, m.Seq)
	}
	require.Equal(t, []uint64{1, 3}, left)
}

func last(t *testing.T, e Env) {
	require.NoError(t, e.Journal.Last(limited(t), journal.Transcripts, nil, func(journal.Message) error {
		return errors.New("nothing is there")
	}))
	fill(t, e, 900)
	e.Publish(t, "hitl.ses.t.o.s0", nil, []byte("state"))
	for _, filters := range [][]string{nil, {"hitl.evt.t.o.>"}, {"hitl.evt.t.o.s2"}} {
		want := map[string][]string{
			"":                {"897", "898", "899", "state"},
			"hitl.evt.t.o.>":  {"897", "898", "899"},
			"hitl.evt.t.o.s2": {"899"},
		}
		var got []string
		require.NoError(t, e.Journal.Last(limited(t), journal.Transcripts, filters, func(m journal.Message) error {
			got = append(got, string(m.Data))
			return nil
		}))
		key := ""
		if len(filters) > 0 {
			key = filters[0]
		}
		require.Equal(t, want[key], got)
	}
	several := []string{"hitl.evt.t.o.s2", "hitl.evt.t.o.none", "hitl.ses.t.o.s0", "hitl.evt.t.o.s0"}
	var got []string
	require.NoError(t, e.Journal.Last(limited(t), journal.Transcripts, several, func(m journal.Message) error {
		got = append(got, m.Subject+" "+string(m.Data))
		return nil
	}))
	require.Equal(t, []string{"hitl.evt.t.o.s0 897", "hitl.evt.t.o.s2 899", "hitl.ses.t.o.s0 state"}, got, "in the order of the stream")
	enough := errors.New("enough")
	got = nil
	require.ErrorIs(t, e.Journal.Last(limited(t), journal.Transcripts, several, func(m journal.Message) error {
		got = append(got, m.Subject)
		return enough
	}), enough)
	require.Len(t, got, 1)
}

func follow(t *testing.T, e Env) {
	fill(t, e, 700)
	got := make(chan journal.Message, 2000) // never closed
	running(t, func(ctx context.Context) error {
		return e.Another.Follow(ctx, journal.Transcripts, 601, []string{"hitl.evt.>"}, func(m journal.Message) error {
			got <- m
			return nil
		})
	})
	want := uint64(601)
	for ; want <= 700; want++ {
		require.Equal(t, want, next(t, got).Seq)
	}
	e.Publish(t, "hitl.ses.t.o.s", nil, []byte("not asked for"))
	fill(t, e, 700)
	for want = 702; want <= 1401; want++ {
		require.Equal(t, want, next(t, got).Seq)
	}
	nothing(t, got)

	stop := errors.New("enough")
	require.ErrorIs(t, e.Journal.Follow(limited(t), journal.Transcripts, 0, nil, func(journal.Message) error { return stop }), stop)
}

func followInterrupted(t *testing.T, e Env) {
	got := make(chan journal.Message, 2000) // never closed
	running(t, func(ctx context.Context) error {
		return e.Another.Follow(ctx, journal.Events, 0, nil, func(m journal.Message) error {
			got <- m
			return nil
		})
	})
	const events = 90
	want := uint64(0)
	for i := range events {
		if i%30 == 29 {
			e.interrupt(t)
		}
		seq, err := e.Journal.WriteEvent(limited(t), fmt.Sprintf("hitl.ixe.t.o.s.i%d.open", i), []byte("x"))
		require.NoError(t, err)
		require.Equal(t, want+1, seq, "written once")
		want = seq
	}
	for seq := uint64(1); seq <= want; seq++ {
		require.Equal(t, seq, next(t, got).Seq)
	}
	nothing(t, got)
}
