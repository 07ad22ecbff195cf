package bus_test

import (
	"context"
	"encoding/json"
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

func TestLiveAndBeatReachCore(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	live, err := n.gateway.SubscribeSync("hitl.live.*.*.*")
	require.NoError(t, err)
	beat, err := n.gateway.SubscribeSync("hitl.beat.*.*.*")
	require.NoError(t, err)
	require.NoError(t, n.gateway.Flush())
	hold, err := c.Claim(t.Context(), state("s", "w1", hitl.StateStarting))
	require.NoError(t, err)
	require.NoError(t, hold.Live(hitl.Event{Type: hitl.EventTextDelta, Data: json.RawMessage(`{"text":"x"}`)}))
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
