package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// host notes what the demo does. Its store can be away.
type host struct {
	mu      sync.Mutex
	emitted chan runtime.Event
	memory  memory
	away    bool
	disk    chan struct{} // where it is not nil, each storing takes one from it
}

func (h *host) Emit(e runtime.Event)    { h.emitted <- e }
func (h *host) Ask(gate.Ask)            {}
func (h *host) Withdraw(string, string) {}

func (h *host) Remember(raw json.RawMessage) error {
	if h.disk != nil {
		<-h.disk
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.memory = memory{}
	return json.Unmarshal(raw, &h.memory)
}

func (h *host) Flush(ctx context.Context) error {
	if h.away {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// What a killed demo remembers as told is stored: its successor repeats the rest.
func TestDemo_D3_06_ForgetsNoWordsWhenItIsKilled(t *testing.T) {
	t.Parallel()
	last := len(script) - 1
	results := map[string]result{}
	for i := range script[last].asks {
		results[script[last].asks[i].name] = result{}
	}
	bye := func(e runtime.Event) bool { _, ok := e.(runtime.TurnDone); return ok }
	for name, c := range map[string]struct {
		m     memory
		until func(runtime.Event) bool
		away  bool
		want  memory
	}{
		"before its step is stored": {
			memory{Round: 1, Step: last, Asked: true, Results: results},
			func(e runtime.Event) bool { x, ok := e.(runtime.Text); return ok && x.Role == "assistant" }, true,
			memory{Round: 1, Step: last, Asked: true, Results: results},
		},
		"before its last words are stored": {
			memory{Round: 1, Step: last + 1}, bye, true, memory{Round: 1, Step: last + 1},
		},
		"after its last words": {
			memory{Round: 1, Step: last + 1},
			func(e runtime.Event) bool { x, ok := e.(runtime.Turn); return ok && !x.Assistant }, false,
			memory{Round: 1, Step: last + 1, Bye: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := json.Marshal(c.m)
			require.NoError(t, err)
			h := &host{emitted: make(chan runtime.Event), away: c.away}
			require.NoError(t, h.Remember(raw))
			run, err := New(Options{Pace: -1}).Start(t.Context(), runtime.Spec{
				SessionID: "s", Memory: raw, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			}, h)
			require.NoError(t, err)
			limit := time.After(time.Minute)
			var seen []string
			for there := false; !there; {
				select {
				case e := <-h.emitted:
					seen = append(seen, fmt.Sprintf("%T", e))
					there = c.until(e)
				case <-limit:
					require.FailNow(t, "never came", "after %v", seen)
				}
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				run.Kill()
			}()
			for open := true; open; {
				select {
				case <-h.emitted:
				case <-done:
					open = false
				}
			}
			want := c.want
			if want.Results == nil {
				want.Results = h.memory.Results
			}
			require.Equal(t, want, h.memory, "after %v", seen)
		})
	}
}

// The worker forgets a message when the demo says that it has it. Until what
// follows from the message is stored, that would be a lie: a killed demo would
// wait for ever for what was said already.
func TestDemo_D3_06_B48_HasAMessageWhenItIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &host{emitted: make(chan runtime.Event, 1000), disk: make(chan struct{})}
		run, err := New(Options{Pace: -1}).Start(t.Context(), runtime.Spec{SessionID: "s", Logger: slog.New(slog.DiscardHandler)}, h)
		require.NoError(t, err)
		has := make(chan error, 1)
		go func() { has <- run.Prompt(t.Context(), runtime.Prompt{Text: "show me"}) }()
		synctest.Wait()
		require.Empty(t, has, "it is not stored yet")
		close(h.disk)
		require.NoError(t, <-has)
		h.mu.Lock()
		require.Equal(t, 1, h.memory.Round)
		h.mu.Unlock()
		run.Kill()
	})
}
