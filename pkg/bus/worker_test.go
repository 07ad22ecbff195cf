package bus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

func state(session, worker, s string) *hitl.SessionState {
	now := time.Now().UTC()
	return &hitl.SessionState{
		SessionID: session, Worker: worker, Generation: 1, Runtime: "demo", State: s, StartedAt: now, StateChangedAt: now,
	}
}

func TestOneWorkerWinsAClaim(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	const workers = 8
	won := make([]bool, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			ok, err := c.Claim(t.Context(), state("s", numbered("w", i), hitl.StateStarting))
			if err != nil {
				t.Errorf("claim: %v", err)
			}
			won[i] = ok
		})
	}
	wg.Wait()
	winner := -1
	for i, ok := range won {
		if ok {
			require.Equal(t, -1, winner, "two workers won")
			winner = i
		}
	}
	require.NotEqual(t, -1, winner, "nobody won")
	st, seq, err := c.LastState(t.Context(), c.Session("s"))
	require.NoError(t, err)
	require.Equal(t, numbered("w", winner), st.Worker)
	require.Equal(t, "agents", st.Owner)
	require.Equal(t, "default", st.Tenant)

	next, err := c.StateAfter(t.Context(), state("s", "successor", hitl.StateUserTurn), seq)
	require.NoError(t, err)
	require.Greater(t, next, seq)
	_, err = c.StateAfter(t.Context(), state("s", "zombie", hitl.StateUserTurn), seq)
	require.ErrorIs(t, err, bus.ErrStale)
	last, err := c.State(t.Context(), state("s", "successor", hitl.StateDead))
	require.NoError(t, err)
	require.Greater(t, last, next)

	_, _, err = c.LastState(t.Context(), c.Session("nobody's"))
	require.ErrorIs(t, err, bus.ErrNotFound)
}

// The claim lands, its acknowledgement is lost: it is still a claim won.
func TestALostClaimIsReadBack(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := &deafDialer{}
	c := n.owner(t, nats.SetCustomDialer(d))
	d.arm("hitl.ses.")
	result := make(chan error, 1)
	go func() {
		won, err := c.Claim(context.Background(), state("s", "w", hitl.StateStarting))
		if err == nil && !won {
			err = bus.ErrStale
		}
		result <- err
	}()
	require.Eventually(t, func() bool { return n.count(t, "HITL_TRANSCRIPTS", "hitl.ses.>") == 1 }, patience, 5*time.Millisecond)
	d.cut()
	require.NoError(t, <-result)
	require.Equal(t, 1, n.count(t, "HITL_TRANSCRIPTS", "hitl.ses.>"))
}

func TestEventsAreStoredOnceAndInOrder(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := &deafDialer{}
	c := n.owner(t, nats.SetCustomDialer(d))
	s := c.Session("a session with blanks")
	text := func(i int) hitl.Event {
		return hitl.Event{Type: hitl.EventText, Data: json.RawMessage(fmt.Sprintf(`{"text":"<%d>"}`, i))}
	}
	won, err := c.Claim(t.Context(), state("a session with blanks", "w", hitl.StateStarting))
	require.NoError(t, err)
	require.True(t, won)
	for i := range 2 {
		d.arm("hitl.evt.")
		lost := make(chan error, 1)
		go func() { lost <- c.Event(context.Background(), s, text(i)) }()
		require.Eventually(t, func() bool { return n.count(t, "HITL_TRANSCRIPTS", subject.Transcript(s)) == i+1 }, patience, 5*time.Millisecond)
		d.cut()
		require.NoError(t, <-lost)
	}
	for i := 2; i < 5; i++ {
		require.NoError(t, c.Event(t.Context(), s, text(i)))
	}
	stream, err := n.js.Stream(t.Context(), "HITL_TRANSCRIPTS")
	require.NoError(t, err)
	for i := range 5 {
		m, err := stream.GetMsg(t.Context(), uint64(i+2)) // after the claim
		require.NoError(t, err)
		require.JSONEq(t, fmt.Sprintf(`{"v":1,"type":"text","data":{"text":"<%d>"}}`, i), string(m.Data))
	}
	require.Equal(t, 5, n.count(t, "HITL_TRANSCRIPTS", "hitl.evt.>"))

	var invalid *hitl.InvalidError
	err = c.Event(t.Context(), s, hitl.Event{Type: hitl.EventInteractionPending, Data: json.RawMessage(`{}`)})
	require.ErrorAs(t, err, &invalid, "what is pending is said by gateways alone")
}

func TestLiveAndBeatReachCore(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	live, err := n.gateway.SubscribeSync("hitl.live.*.*.*")
	require.NoError(t, err)
	beat, err := n.gateway.SubscribeSync("hitl.beat.*.*.*")
	require.NoError(t, err)
	require.NoError(t, n.gateway.Flush())
	require.NoError(t, c.Live(c.Session("s"), hitl.Event{Type: hitl.EventTextDelta, Data: json.RawMessage(`{"text":"x"}`)}))
	require.NoError(t, c.Beat(hitl.Beat{Worker: "w1", At: time.Now()}))
	m, err := live.NextMsg(patience)
	require.NoError(t, err)
	require.Equal(t, "hitl.live.default.agents.s", m.Subject)
	require.JSONEq(t, `{"v":1,"type":"text_delta","data":{"text":"x"}}`, string(m.Data))
	m, err = beat.NextMsg(patience)
	require.NoError(t, err)
	require.Equal(t, "hitl.beat.default.agents.w1", m.Subject)
}

func TestCommandsAreAnswered(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	s := c.Session("s")
	unsubscribe, err := c.Commands(s, func(cmd hitl.Command) hitl.CommandReply {
		return hitl.CommandReply{Status: "ok", Error: cmd.Type + " " + cmd.Text}
	})
	require.NoError(t, err)
	call := func(body string) (hitl.CommandReply, error) {
		m, err := n.gateway.Request(subject.Command(s), []byte(body), patience)
		if err != nil {
			return hitl.CommandReply{}, err
		}
		var r hitl.CommandReply
		return r, json.Unmarshal(m.Data, &r)
	}
	r, err := call(`{"v":1,"command_id":"c1","type":"message","text":"go on"}`)
	require.NoError(t, err)
	require.Equal(t, hitl.CommandReply{Status: "ok", Error: "message go on"}, r)
	for _, bad := range []string{`{`, `{"command_id":"a","command_id":"b"}`, `{"type":"stop"}`} {
		r, err := call(bad)
		require.NoError(t, err)
		require.Equal(t, "invalid", r.Status, bad)
	}
	unsubscribe()
	require.Eventually(t, func() bool {
		_, err := n.gateway.Request(subject.Command(s), []byte(`{}`), 100*time.Millisecond)
		return err != nil
	}, patience, 10*time.Millisecond)
}

func TestWorkIsTakenOnceAndPutBackWhenRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	starts := make(chan hitl.Start, 8)
	refuse := make(chan struct{}, 1)
	refuse <- struct{}{}
	ended := make(chan error, 1)
	go func() {
		ended <- c.Work(ctx, "agents", func(_ context.Context, st hitl.Start) bool {
			starts <- st
			select {
			case <-refuse:
				return false
			default:
				return true
			}
		})
	}()
	for _, body := range []string{`not json`, `{"v":1,"session_id":"one"}`, `{"v":1,"session_id":"two"}`} {
		_, err := n.js.Publish(t.Context(), subject.Work("default", "agents"), []byte(body))
		require.NoError(t, err)
	}
	got := map[string]int{}
	for range 3 {
		select {
		case st := <-starts:
			got[st.SessionID]++
		case <-time.After(patience):
			t.Fatal("no work")
		}
	}
	require.Equal(t, map[string]int{"one": 2, "two": 1}, got, "the refused start came again")
	require.Eventually(t, func() bool { return n.count(t, "HITL_WORK", ">") == 0 }, patience, 10*time.Millisecond)
	cancel(bus.ErrShutdown)
	require.ErrorIs(t, <-ended, bus.ErrShutdown)
}

// Work that comes while something else is under way is no answer to that.
func TestWorkIsNobodysReply_B_01(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	asked := make(chan *nats.Msg, 1)
	sub, err := n.gateway.ChanSubscribe("hitl.svc.default.agents.get", asked)
	require.NoError(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	require.NoError(t, n.gateway.Flush())

	ctx, cancel := context.WithCancel(t.Context())
	starts, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- c.Work(ctx, "agents", func(_ context.Context, st hitl.Start) bool {
			starts <- st.SessionID
			return true
		})
	}()
	replied := make(chan *wire.Interaction, 1)
	go func() {
		ix, _ := c.Get(ctx, "i1")
		replied <- ix
	}()
	m := <-asked
	_, err = n.js.Publish(t.Context(), subject.Work("default", "agents"), []byte(`{"session_id":"s1","id":"not the reply"}`))
	require.NoError(t, err)
	require.Equal(t, "s1", <-starts)
	require.NoError(t, m.Respond([]byte(`{"id":"i1"}`)))
	ix := <-replied
	require.NotNil(t, ix)
	require.Equal(t, "i1", ix.ID)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestWorkGoesOnAfterAServerRestart_B_48(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	ctx, cancel := context.WithCancel(t.Context())
	starts := make(chan string, 8)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Work(ctx, "agents", func(_ context.Context, st hitl.Start) bool {
			starts <- st.SessionID
			return true
		})
	}()
	publish := func(id string) {
		_, err := n.js.Publish(t.Context(), subject.Work("default", "agents"), []byte(`{"session_id":"`+id+`"}`))
		require.NoError(t, err)
	}
	publish("before")
	require.Equal(t, "before", <-starts)
	n.srv.Shutdown()
	n.start(t)
	require.Eventually(t, n.core.IsConnected, patience, 10*time.Millisecond)
	require.Eventually(t, c.IsConnected, patience, 10*time.Millisecond)
	publish("after")
	select {
	case id := <-starts:
		require.Equal(t, "after", id)
	case <-time.After(patience):
		t.Fatal("the worker does not pull any more")
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// A second worker waits for the same start, and would get it after ten seconds
// without a word.
func TestWorkUnderWayStaysWithItsWorker(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	stream, err := n.js.Stream(t.Context(), "HITL_WORK")
	require.NoError(t, err)
	_, err = stream.UpdateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable:       subject.WorkConsumer(bus.DefaultTenant, "agents"),
		FilterSubject: subject.Work(bus.DefaultTenant, "agents"), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: 4 * time.Second,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	starts := make(chan string, 8)
	release := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		c := n.owner(t)
		wg.Go(func() {
			_ = c.Work(ctx, "agents", func(_ context.Context, st hitl.Start) bool {
				starts <- st.SessionID
				<-release
				return true
			})
		})
	}
	_, err = n.js.Publish(t.Context(), subject.Work("default", "agents"), []byte(`{"session_id":"s"}`))
	require.NoError(t, err)
	require.Equal(t, "s", <-starts)
	require.Never(t, func() bool { return len(starts) > 0 }, 6*time.Second, 50*time.Millisecond)
	close(release)
	require.Eventually(t, func() bool { return n.count(t, "HITL_WORK", ">") == 0 }, patience, 10*time.Millisecond)
	cancel()
	wg.Wait()
	require.Empty(t, starts)
}

func TestForbiddenWorkSaysSo(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, _ := n.client(t, bus.RoleOwner, "cli") // no pool
	err := c.Work(t.Context(), "agents", func(context.Context, hitl.Start) bool { return true })
	require.ErrorIs(t, err, bus.ErrForbidden)
}

func TestConnect(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	creds := n.owner(t).Credentials()
	n.srv.Shutdown()
	t.Run("gives up with its context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := bus.Connect(ctx, creds, bus.Options{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("waits for a server that is not there yet", func(t *testing.T) {
		connected := make(chan error, 1)
		go func() {
			c, err := bus.Connect(context.Background(), creds, bus.Options{})
			if err == nil {
				c.Close()
			}
			connected <- err
		}()
		n.start(t)
		require.NoError(t, <-connected)
	})
	t.Run("an unknown identity is an error", func(t *testing.T) {
		stranger := *creds
		stranger.Seed = strangerSeed(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := bus.Connect(ctx, &stranger, bus.Options{})
		require.ErrorIs(t, err, nats.ErrAuthorization)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	})
}
