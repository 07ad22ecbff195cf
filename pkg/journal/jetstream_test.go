package journal_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

const (
	patience = 30 * time.Second
	tick     = 5 * time.Millisecond
)

var ref = subject.NewRef("t", "o", "i")

func decision(id string) *hitl.Decision { return hitltest.SampleDecision(ref, id, hitl.Allowed) }

type decided struct {
	winner *journal.StoredDecision
	won    bool
	err    error
}

func decide(ctx context.Context, j journal.Journal, d *hitl.Decision) <-chan decided {
	done := make(chan decided, 1) // one result, never closed
	go func() {
		w, won, err := j.Decide(ctx, ref, d)
		done <- decided{w, won, err}
	}()
	return done
}

func wait[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

// valve is a TCP relay that can hold back what the server sends.
type valve struct {
	addr string
	mu   sync.Mutex
	cond *sync.Cond
	held bool
	open []net.Conn
}

func newValve(t testing.TB, to string) *valve {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	v := &valve{addr: l.Addr().String()}
	v.cond = sync.NewCond(&v.mu)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		v.hold(false)
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			v.mu.Lock()
			v.open = append(v.open, client, server)
			v.mu.Unlock()
			wg.Go(func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			})
			wg.Go(func() {
				_, _ = io.Copy(writerFunc(func(b []byte) (int, error) {
					v.mu.Lock()
					for v.held {
						v.cond.Wait()
					}
					v.mu.Unlock()
					return client.Write(b)
				}), server)
				_ = client.Close()
			})
		}
	})
	return v
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (v *valve) hold(held bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = held
	v.cond.Broadcast()
}

// cut breaks all connections; what is held back never arrives.
func (v *valve) cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.open {
		_ = c.Close()
	}
	v.open, v.held = nil, false
	v.cond.Broadcast()
}

// TestUnknownOutcomeIsReadBack loses the acknowledgement of a stored decision.
func TestUnknownOutcomeIsReadBack_invariant7(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"invariant 7: ours was stored": false, "B-04: another one was stored": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, direct := provisioned(t)
			v := newValve(t, b.srv.Addr().String())
			nc, err := nats.Connect("nats://"+v.addr, nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
			require.NoError(t, err)
			t.Cleanup(nc.Close)
			signer := newKey(t)
			j := journal.New(nc, journal.Options{Signer: signer, Timeout: 100 * time.Millisecond})
			sure := journal.New(direct, journal.Options{Signer: signer})
			if other {
				_, won, err := sure.Decide(t.Context(), ref, decision("other"))
				require.NoError(t, err)
				require.True(t, won)
			}
			before := b.srv.NumSlowConsumers() // the server goes on undisturbed
			v.hold(true)
			pending := decide(t.Context(), j, decision("ours"))
			require.Eventually(t, func() bool {
				_, err := sure.Decision(t.Context(), ref)
				return err == nil
			}, patience, tick)
			select {
			case r := <-pending:
				require.FailNow(t, "decided without knowing", "%+v", r)
			case <-time.After(300 * time.Millisecond): // several attempts are lost
			}
			v.hold(false)
			r := wait(t, pending)
			require.NoError(t, r.err)
			require.Equal(t, !other, r.won)
			stored, err := sure.Decision(t.Context(), ref)
			require.NoError(t, err)
			require.Equal(t, stored, r.winner)
			require.Equal(t, before, b.srv.NumSlowConsumers())
		})
	}
}

func TestDecideOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	b, nc := provisioned(t)
	j := journal.New(nc, journal.Options{Signer: newKey(t), Timeout: 200 * time.Millisecond})
	b.stop()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, won, err := j.Decide(short, ref, decision("d"))
	require.ErrorIs(t, err, journal.ErrUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, won)
	_, err = j.Decision(short, ref)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, journal.ErrNotFound, "unreachable is not absent")

	pending := decide(t.Context(), j, decision("d"))
	b.start(t)
	r := wait(t, pending)
	require.NoError(t, r.err)
	require.True(t, r.won)
}

// A stream to which many write at a time refuses some for the moment: they come again
// at once, and nothing is lost or left to people.
func TestWhatIsRefusedForTheMomentIsWrittenAgain(t *testing.T) {
	t.Parallel()
	b := &node{dir: t.TempDir(), port: -1, buffered: 1}
	b.start(t)
	t.Cleanup(b.stop)
	nc := b.connect(t)
	require.NoError(t, journal.Provision(t.Context(), nc, small))
	j := journal.New(nc, journal.Options{Signer: newKey(t)})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const writers = 200
	failed := make(chan error, writers)
	for i := range writers {
		go func() {
			at := subject.NewRef("t", "o", fmt.Sprintf("i%d", i))
			_, won, err := j.Decide(ctx, at, hitltest.SampleDecision(at, "d", hitl.Allowed))
			if err == nil && !won {
				err = errors.New("there is one already")
			}
			if err == nil {
				_, err = j.WriteEvent(ctx, subject.Event(at, "s", subject.Open), []byte("{}"))
			}
			if err == nil {
				err = j.WriteGatewayState(ctx, subject.NewSession("t", "o", "s"), []byte("{}"))
			}
			failed <- err
		}()
	}
	for range writers {
		require.NoError(t, wait(t, failed))
	}
	for stream, n := range map[string]uint64{journal.Decisions: writers, journal.Events: 2 * writers} {
		at, err := j.Position(ctx, stream)
		require.NoError(t, err)
		require.Equal(t, n, at.Last, stream)
	}
}

func TestDecideEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	b, _ := provisioned(t)
	nc := b.connect(t)
	j := journal.New(nc, journal.Options{Signer: newKey(t)})
	nc.Close()
	_, _, err := j.Decide(t.Context(), ref, decision("d"))
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
	require.ErrorIs(t, j.Intake(t.Context(), 1, func(context.Context, journal.Delivery) {}), nats.ErrConnectionClosed)
}

func TestReadersEndWithTheConnection(t *testing.T) {
	t.Parallel()
	b, _ := provisioned(t)
	nc := b.connect(t)
	j := journal.New(nc, journal.Options{Signer: newKey(t)})
	done := make(chan error, 2) // two results, never closed
	begun := make(chan struct{}, 2)
	go func() {
		done <- j.Intake(t.Context(), 1, func(_ context.Context, d journal.Delivery) { begun <- struct{}{} })
	}()
	go func() {
		done <- j.Follow(t.Context(), journal.Requests, 0, nil, func(journal.Message) error {
			begun <- struct{}{}
			return nil
		})
	}()
	publish(t, nc, subject.Request(ref), nil, []byte("x"))
	wait(t, begun)
	wait(t, begun)
	nc.Close()
	for range 2 {
		require.ErrorIs(t, wait(t, done), nats.ErrConnectionClosed)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	_, nc := provisioned(t)
	older, newer := newKey(t), newKey(t)
	_, _, err := journal.New(nc, journal.Options{}).Decide(t.Context(), ref, decision("d"))
	require.ErrorContains(t, err, "no signing key")
	_, won, err := journal.New(nc, journal.Options{Signer: older}).Decide(t.Context(), ref, decision("d"))
	require.NoError(t, err)
	require.True(t, won)

	keys := map[string]ed25519.PublicKey{older.KeyID: older.Key.Public().(ed25519.PublicKey)}
	rotated := journal.New(nc, journal.Options{Signer: newer, Keys: keys})
	w, won, err := rotated.Decide(t.Context(), ref, decision("late"))
	require.NoError(t, err)
	require.False(t, won)
	require.Equal(t, "d", w.DecisionID)

	var log bytes.Buffer
	stranger := journal.New(nc, journal.Options{Signer: newer, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, _, err = stranger.Decide(t.Context(), ref, decision("late"))
	require.ErrorIs(t, err, journal.ErrUnsigned)
	require.ErrorIs(t, err, hitl.ErrBadSignature)
	require.Contains(t, log.String(), "level=ERROR", "an alarm")
}

// TestNoMessageID: deduplication is stream-wide, so nobody may take part in it.
func TestNoMessageID(t *testing.T) {
	t.Parallel()
	_, nc := provisioned(t)
	j := journal.New(nc, journal.Options{Signer: newKey(t)})
	seen, err := nc.SubscribeSync("hitl.>")
	require.NoError(t, err)
	_, _, err = j.Decide(t.Context(), ref, decision("d"))
	require.NoError(t, err)
	_, err = j.WriteEvent(t.Context(), subject.Event(ref, "s", subject.Open), []byte("x"))
	require.NoError(t, err)
	require.NoError(t, j.WriteGatewayState(t.Context(), subject.NewSession("t", "o", "s"), []byte("x")))
	require.NoError(t, j.Enqueue(t.Context(), &hitl.Start{Tenant: "t", Pool: "p"}))
	for range 5 { // with the republished decision
		m, err := seen.NextMsg(patience)
		require.NoError(t, err)
		require.NotContains(t, m.Header, jetstream.MsgIDHeader)
	}
}

// TestMalformedDecision: signed, but not a decision.
func TestMalformedDecision(t *testing.T) {
	t.Parallel()
	_, nc := provisioned(t)
	signer := newKey(t)
	body := []byte(`{"v":1,"outcome":"perhaps"}`)
	publish(t, nc, subject.Decision(ref), map[string][]string{
		hitl.HeaderSigner: {signer.KeyID}, hitl.HeaderSignature: {hitl.Sign(signer.Key, subject.Decision(ref), body)},
	}, body)
	j := journal.New(nc, journal.Options{Signer: signer})
	var invalid *hitl.InvalidError
	_, err := j.Decision(t.Context(), ref)
	require.ErrorAs(t, err, &invalid)
	_, won, err := j.Decide(t.Context(), ref, decision("d"))
	require.ErrorAs(t, err, &invalid)
	require.False(t, won)
}

func TestReplaysLeaveNoConsumers(t *testing.T) {
	t.Parallel()
	_, nc := provisioned(t)
	j := journal.New(nc, journal.Options{Signer: newKey(t)})
	for i := range 10 {
		_, err := j.WriteEvent(t.Context(), fmt.Sprintf("hitl.ixe.t.o.s.i%d.open", i), []byte("x"))
		require.NoError(t, err)
	}
	discard := func(journal.Message) error { return nil }
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, j.Read(ctx, journal.Events, 0, nil, discard))
	require.NoError(t, j.Last(ctx, journal.Events, nil, discard))
	require.ErrorIs(t, j.Follow(ctx, journal.Events, 0, nil, func(m journal.Message) error {
		if m.Seq == 10 {
			cancel()
		}
		return nil
	}), context.Canceled)
	s, err := streams(t, nc).Stream(t.Context(), journal.Events)
	require.NoError(t, err)
	var names []string
	for name := range s.ConsumerNames(t.Context()).Name() {
		names = append(names, name)
	}
	require.Equal(t, []string{"notifier-t"}, names)
}

// TestFollowNoticesAnotherHistory makes the stream anew under a reader.
// The server ends a pull that has delivered its bytes. The next one must follow
// at once and at the same consumer: waiting for silence first made a start on a
// few hundred large requests take minutes.
func TestLargeMessagesAreReadWithoutPauses(t *testing.T) {
	t.Parallel()
	b, nc := provisioned(t)
	watch := b.connect(t)
	made, err := watch.SubscribeSync("$JS.API.CONSUMER.CREATE." + journal.Requests + ".>")
	require.NoError(t, err)
	require.NoError(t, watch.Flush())
	const n = 30 // of 1 MiB: several pulls
	body := bytes.Repeat([]byte("x"), hitl.MaxRequest)
	for i := range n {
		publish(t, nc, subject.Request(subject.NewRef("t", "o", strconv.Itoa(i))), nil, body)
	}
	got := 0
	j := journal.New(nc, journal.Options{Signer: newKey(t)})
	require.NoError(t, j.Read(t.Context(), journal.Requests, 1, nil, func(m journal.Message) error {
		got++
		return nil
	}))
	require.Equal(t, n, got)
	require.NoError(t, watch.Flush())
	consumers, _, err := made.Pending()
	require.NoError(t, err)
	require.Equal(t, 1, consumers)
}

func TestFollowNoticesAnotherHistory(t *testing.T) {
	t.Parallel()
	t.Run("B-19 a stream made anew ends its readers", func(t *testing.T) {
		t.Parallel()
		_, nc := provisioned(t)
		j := journal.New(nc, journal.Options{Signer: newKey(t)})
		got := make(chan journal.Message, 10) // never closed
		done := make(chan error, 1)           // one result, never closed
		go func() {
			done <- j.Follow(t.Context(), journal.Events, 0, nil, func(m journal.Message) error {
				got <- m
				return nil
			})
		}()
		_, err := j.WriteEvent(t.Context(), "hitl.ixe.t.o.s.i.open", []byte("x"))
		require.NoError(t, err)
		wait(t, got)
		old, err := j.Position(t.Context(), journal.Events)
		require.NoError(t, err)
		require.NoError(t, streams(t, nc).DeleteStream(t.Context(), journal.Events))
		require.NoError(t, journal.Provision(t.Context(), nc, small))
		require.ErrorIs(t, wait(t, done), journal.ErrRecreated)
		fresh, err := j.Position(t.Context(), journal.Events)
		require.NoError(t, err)
		require.NotEqual(t, old.Created, fresh.Created)
	})
}

// TestFollowLosesNothingOnTheWay breaks the connection under a message that the
// server has sent, and comes back before the server gives up on the reader: no
// later message shows the gap.
func TestFollowLosesNothingOnTheWay(t *testing.T) {
	t.Parallel()
	b, direct := provisioned(t)
	v := newValve(t, b.srv.Addr().String())
	nc, err := nats.Connect("nats://"+v.addr, nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond), nats.ReconnectBufSize(-1))
	require.NoError(t, err)
	writer := journal.New(direct, journal.Options{Signer: newKey(t)})
	got := make(chan journal.Message, 10) // never closed
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // one result, never closed
	go func() {
		done <- journal.New(nc, journal.Options{}).Follow(ctx, journal.Events, 0, nil, func(m journal.Message) error {
			got <- m
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, wait(t, done), context.Canceled)
		nc.Close()
	})
	_, err = writer.WriteEvent(t.Context(), "hitl.ixe.t.o.s.i.open", []byte("x"))
	require.NoError(t, err)
	require.EqualValues(t, 1, wait(t, got).Seq)

	v.hold(true)
	_, err = writer.WriteEvent(t.Context(), "hitl.ixe.t.o.s.i.closed", []byte("x"))
	require.NoError(t, err)
	s, err := streams(t, direct).Stream(t.Context(), journal.Events)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		for c := range s.ListConsumers(t.Context()).Info() {
			if c.Name != "notifier-t" && c.Delivered.Stream == 2 {
				return true
			}
		}
		return false
	}, patience, tick, "the server has sent it")
	v.cut()
	require.EqualValues(t, 2, wait(t, got).Seq)
}

// BenchmarkFollow measures from the start of a write to the follower.
func BenchmarkFollow(b *testing.B) {
	_, nc := provisioned(b)
	j := journal.New(nc, journal.Options{Signer: newKey(b)})
	got := make(chan struct{}) // never closed
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1) // one result, never closed
	go func() {
		done <- j.Follow(ctx, journal.Events, 0, nil, func(journal.Message) error {
			got <- struct{}{}
			return nil
		})
	}()
	i := 0
	for b.Loop() {
		if err := nc.Publish(fmt.Sprintf("hitl.ixe.t.o.s.i%d.open", i), []byte("x")); err != nil {
			b.Fatal(err)
		}
		i++
		<-got
	}
	cancel()
	<-done
}

// BenchmarkIntake measures one taken and acknowledged request.
func BenchmarkIntake(b *testing.B) {
	_, nc := provisioned(b)
	j := journal.New(nc, journal.Options{Signer: newKey(b)})
	got := make(chan struct{}, 1024) // never closed
	ctx, cancel := context.WithCancel(b.Context())
	for i := range b.N {
		if err := nc.Publish(fmt.Sprintf("hitl.req.t.o.i%d", i), []byte("x")); err != nil {
			b.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	done := make(chan error, 1) // one result, never closed
	go func() {
		done <- j.Intake(ctx, 16, func(_ context.Context, d journal.Delivery) {
			if err := d.Ack(); err != nil {
				b.Error(err)
			}
			got <- struct{}{}
		})
	}()
	for range b.N {
		<-got
	}
	b.StopTimer()
	cancel()
	<-done
}

// BenchmarkDecide measures one stored, signed decision.
func BenchmarkDecide(b *testing.B) {
	_, nc := provisioned(b)
	j := journal.New(nc, journal.Options{Signer: newKey(b)})
	i := 0
	for b.Loop() {
		i++
		if _, _, err := j.Decide(b.Context(), subject.NewRef("t", "o", fmt.Sprint(i)), decision("d")); err != nil {
			b.Fatal(err)
		}
	}
}
