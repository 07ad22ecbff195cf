package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a sink that notes what it gets, and when.
type recorder struct {
	mu    sync.Mutex
	start time.Time
	got   []string
	hold  chan struct{} // if set, events wait until it is closed
	fail  error
}

func (r *recorder) note(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, fmt.Sprintf("%s %s", time.Since(r.start).Round(time.Millisecond), s))
}

func (r *recorder) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.got...)
}

func (r *recorder) Event(ctx context.Context, ev hitl.Event) error {
	if r.hold != nil {
		select {
		case <-r.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.note(ev.Type + " " + string(ev.Data))
	return r.fail
}

func (r *recorder) Live(ev hitl.Event) error {
	r.note("live " + ev.Type + " " + string(ev.Data))
	return nil
}

func (r *recorder) State(_ context.Context, st *hitl.SessionState) error {
	r.note("state " + st.State)
	return nil
}

func text(id, s string) item {
	return item{delta: &delta{kind: hitl.EventTextDelta, id: id, text: s}}
}

func newTestPublisher(t *testing.T, r *recorder) *publisher {
	r.start = time.Now()
	return newPublisher(slog.New(slog.NewTextHandler(t.Output(), nil)), func(err error) { r.note("lost " + err.Error()) })
}

// Deltas are gathered for 50 ms; what is stored keeps its order and pushes them
// out first.
func TestPublisher_D0_14_D0_47_OrderAndCoalescing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		p := newTestPublisher(t, r)
		var wg sync.WaitGroup
		wg.Go(func() { p.run(t.Context(), r) })
		p.push(text("b0", "Hel"))
		time.Sleep(20 * time.Millisecond)
		p.push(text("b0", "lo"))
		time.Sleep(100 * time.Millisecond)
		p.push(text("b0", " world"))
		p.push(item{event: encodeEvent(runtime.Text{Role: "assistant", BlockID: "b0", Text: "Hello world"})})
		p.push(item{state: &hitl.SessionState{State: hitl.StateUserTurn}})
		p.push(text("b1", "x"))
		p.push(item{delta: &delta{kind: hitl.EventToolCallDelta, id: "t1", parent: "p", text: "{"}})
		p.close()
		wg.Wait()
		require.Equal(t, []string{
			`50ms live text_delta {"block_id":"b0","text":"Hello"}`,
			`120ms live text_delta {"block_id":"b0","text":" world"}`,
			`120ms text {"block_id":"b0","role":"assistant","text":"Hello world"}`,
			`120ms state user_turn`,
			`120ms live text_delta {"block_id":"b1","text":"x"}`,
			`120ms live tool_call_delta {"parent_tool_call_id":"p","text":"{","tool_call_id":"t1"}`,
		}, r.list())
	})
}

func TestPublisher_ASteadyStreamIsSentOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		p := newTestPublisher(t, r)
		var wg sync.WaitGroup
		wg.Go(func() { p.run(t.Context(), r) })
		for range 20 {
			p.push(text("b0", "x"))
			time.Sleep(10 * time.Millisecond)
		}
		p.close()
		wg.Wait()
		list := r.list()
		require.GreaterOrEqual(t, len(list), 3)
		require.Contains(t, list[0], "50ms live", "the first is not kept back by those that follow")
		sum := 0
		for _, l := range list {
			_, x, _ := strings.Cut(l, `"text":`)
			sum += strings.Count(x, "x")
		}
		require.Equal(t, 20, sum, "nothing is lost")
	})
}

func TestPublisher_FlushWaitsAndRoomIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{hold: make(chan struct{})}
		p := newTestPublisher(t, r)
		var wg sync.WaitGroup
		wg.Go(func() { p.run(t.Context(), r) })
		big := event(hitl.EventText, map[string]any{"text": strings.Repeat("x", queueLimit/2)})
		for range 4 {
			p.push(item{event: big})
		}
		full, cancel := context.WithTimeout(t.Context(), time.Second)
		p.waitRoom(full)
		require.Error(t, full.Err(), "there was room")
		cancel()
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		require.ErrorIs(t, p.flush(late), context.DeadlineExceeded, "flushed what was not stored")
		cancel()

		close(r.hold)
		p.waitRoom(t.Context())
		require.NoError(t, p.flush(t.Context()))
		require.Len(t, r.list(), 4)
		p.close()
		wg.Wait()
		require.ErrorIs(t, p.flush(t.Context()), errNotStored, "nobody is left who would store it")
	})
}

func TestPublisher_GoesOnAfterAnEventThatIsRefused(t *testing.T) {
	t.Parallel()
	r := &recorder{fail: errors.New("too large")}
	p := newTestPublisher(t, r)
	p.push(item{event: encodeEvent(runtime.Problem{Message: "one"})})
	p.push(item{state: &hitl.SessionState{State: hitl.StateDead}})
	p.close()
	p.run(t.Context(), r)
	require.Len(t, r.list(), 2)
}

// What follows the step that another worker's claim refused is not tried.
func TestPublisher_EndsWhenAnotherWorkerHasTheSession(t *testing.T) {
	t.Parallel()
	r := &recorder{fail: fmt.Errorf("%w: since just now", bus.ErrStale)}
	p := newTestPublisher(t, r)
	p.push(item{event: encodeEvent(runtime.Problem{Message: "one"})})
	p.push(item{state: &hitl.SessionState{State: hitl.StateDead}})
	p.run(t.Context(), r)
	require.ErrorIs(t, p.flush(t.Context()), errNotStored)
	list := r.list()
	require.Len(t, list, 2)
	require.Contains(t, list[1], "lost bus: another worker has the session: since just now")
}

func TestPublisher_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := &recorder{hold: make(chan struct{})}
	p := newTestPublisher(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		p.run(ctx, r)
		close(done)
	}()
	p.push(item{event: encodeEvent(runtime.Problem{Message: "one"})})
	cancel()
	<-done
	require.Empty(t, r.list())
}

// A tool's input goes out byte for byte; one that is cut goes as text.
func TestEvent_ToolInputByteForByte(t *testing.T) {
	t.Parallel()
	ev := encodeEvent(runtime.ToolEnd{ID: "t1", Name: "Bash", Input: []byte(`{"n":9007199254740993,"s":"<&>"}`), Parent: "p1"})
	require.Equal(t, hitl.EventToolCallEnd, ev.Type)
	require.Equal(t, `{"input":{"n":9007199254740993,"s":"<&>"},"parent_tool_call_id":"p1","tool_call_id":"t1","tool_name":"Bash"}`, string(ev.Data))
	ev = encodeEvent(runtime.ToolEnd{ID: "t1", Name: "Write", Input: []byte(`{"content":"` + strings.Repeat("x", maxText) + `"}`)})
	require.Contains(t, string(ev.Data), `bytes are shown]"`)
	ev = encodeEvent(runtime.ToolEnd{ID: "t1", Name: "Write"})
	require.Contains(t, string(ev.Data), `"input":""`)
	ev = encodeEvent(runtime.ToolEnd{ID: "t1", Name: "Bash", Input: []byte(`{"command":"a","command":"b"}`)})
	require.Contains(t, string(ev.Data), `"input":"{\"command\":\"a\",\"command\":\"b\"}"`, "both are shown")
	ev = encodeEvent(runtime.ToolEnd{ID: "t1", Name: "Write", Input: []byte(`{"path":1,"Path":2}`)})
	require.Contains(t, string(ev.Data), `"input":{"path":1,"Path":2}`)
}

func TestEvent_LongTextsSayThatTheyAreCut(t *testing.T) {
	t.Parallel()
	got := bounded(strings.Repeat("ü", maxText))
	require.Contains(t, got, fmt.Sprintf("[cut: %d of %d bytes are shown]", maxText, 2*maxText))
	require.Less(t, len(got), maxText+100)
	require.Equal(t, "short", bounded("short"))
}

// D0-15: every event of a run has a type that a worker may send.
func TestEvent_D0_15_OnlyAllowedTypes(t *testing.T) {
	t.Parallel()
	for _, e := range []runtime.Event{
		runtime.Text{}, runtime.ToolStart{}, runtime.ToolEnd{}, runtime.ToolResult{}, runtime.Problem{}, runtime.Note{}, runtime.TurnDone{},
	} {
		ev := encodeEvent(e)
		require.NotNil(t, ev, "%T", e)
		require.True(t, hitl.AgentMaySend(ev.Type), "%T", e)
	}
	require.Nil(t, encodeEvent(runtime.Turn{}))
}

// What the quota leaves out is counted, told to the log once a minute, and to the
// conversation when there is room again.
func TestWhatTheQuotaLeavesOutIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{fail: fmt.Errorf("quota.conversation: %w", bus.ErrOverQuota)}
		p := newTestPublisher(t, r)
		var log strings.Builder
		p.log = slog.New(slog.NewTextHandler(&log, nil))
		go p.run(t.Context(), r)
		event := item{event: &hitl.Event{Type: hitl.EventText, Data: []byte(`{}`)}}
		for range 5 {
			p.push(event)
		}
		require.NoError(t, p.flush(t.Context()))
		require.Equal(t, 1, strings.Count(log.String(), "what it says is not stored"), log.String())
		require.Contains(t, log.String(), "quota.conversation")
		time.Sleep(noteEvery)
		p.push(event)
		require.NoError(t, p.flush(t.Context()))
		require.Equal(t, 2, strings.Count(log.String(), "what it says is not stored"), log.String())
		r.mu.Lock()
		r.fail, r.got = nil, nil
		r.mu.Unlock()
		p.push(event)
		p.push(event)
		require.NoError(t, p.flush(t.Context()))
		p.close()
		<-p.ended
		require.Len(t, r.list(), 3)
		require.Contains(t, r.list()[0], "error")
		require.Contains(t, r.list()[0], "6 parts of this conversation are missing here")
		require.Contains(t, r.list()[1], "text")
	})
}

// full is a sink that has room for a state at its third try.
type full struct {
	*recorder
	left int
}

func (f *full) State(ctx context.Context, st *hitl.SessionState) error {
	if f.left--; f.left >= 0 {
		return fmt.Errorf("quota.conversation: %w", bus.ErrOverQuota)
	}
	return f.recorder.State(ctx, st)
}

// A session whose quota is used up is dead all the same, and people hear of it.
func TestPublisher_AStateOverTheQuotaIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]bool{"at the end": true, "in between": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				p := newTestPublisher(t, r)
				go p.run(t.Context(), &full{r, 2})
				p.push(item{state: &hitl.SessionState{State: hitl.StateUserTurn}})
				p.push(item{state: &hitl.SessionState{State: hitl.StateDead}})
				if end {
					p.close()
					<-p.ended
				}
				time.Sleep(time.Minute)
				require.Equal(t, []string{"10s state dead"}, r.list())
				p.close()
				<-p.ended
			})
		})
	}
}

// A worker that stops does not wait for room.
func TestPublisher_AStateOverTheQuotaHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		p := newTestPublisher(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		go p.run(ctx, &full{r, 1000})
		p.push(item{state: &hitl.SessionState{State: hitl.StateDead}})
		p.close()
		time.Sleep(time.Minute)
		cancel()
		<-p.ended
		require.Empty(t, r.list())
	})
}
