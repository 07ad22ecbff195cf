package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/projection"
)

// rounds runs the deadline loop of an engine that holds requests for an hour of a
// clock that nothing else moves, and returns how often it went round. A loop that
// spins is ended at the limit.
func rounds(t *testing.T, j *hitltest.MemoryJournal, limit int64, requests ...*hitl.Request) int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int64
	e := New(Options{Journal: j, Logger: slog.New(slog.DiscardHandler)})
	counting := func() time.Time {
		// Every round looks at this clock, once.
		if n.Add(1) > limit {
			cancel()
		}
		return time.Now()
	}
	e.view = projection.New(projection.Options{
		Logger: e.log, Clock: counting, OrphanAfter: time.Hour, Recent: 10,
		Orphan: e.orphan, Doubtful: e.doubtful, Alarm: e.alarm, Ledger: e.ledger,
	})
	for _, r := range requests {
		raw, err := hitl.Marshal(r)
		require.NoError(t, err)
		_, err = j.Publish(subject.Request(ref(r)), nil, raw)
		require.NoError(t, err)
		m, err := j.Request(t.Context(), ref(r))
		require.NoError(t, err)
		e.loadTaken(*m)
	}
	require.Equal(t, len(requests), e.view.Len())
	done := make(chan error, 1)
	go func() { done <- e.watchDeadlines(ctx) }()
	<-time.After(time.Hour) // on the clock of synctest
	cancel()
	require.NoError(t, <-done)
	e.stopBg()
	e.bg.Wait()
	return n.Load()
}

// However far a deadline is, the loop that waits for it goes round only as often
// as the clock is looked at anyway; one that is past is ended in the first round;
// one that cannot be ended is tried once a second.
func TestTheDeadlineLoopRestsWhateverTheDeadlines(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour / time.Second)
	const idle = hour / int64(awakeAfter/time.Second)
	at := func(key string, d time.Duration) *hitl.Request { return request(key, expiring(d)) }
	far := []*hitl.Request{at("century", 100*365*24*time.Hour), at("longest", math.MaxInt64), at("never", 0), at("2^53 ns", 1<<53)}
	for name, c := range map[string]struct {
		requests []*hitl.Request
		broken   bool // decisions cannot be stored
		limit    int64
		left     int
	}{
		"far":               {far, false, idle + 10, len(far)},
		"past":              {[]*hitl.Request{at("ns", 1), at("us", 1000)}, false, idle + 10, 0},
		"far and past":      {append([]*hitl.Request{at("ns", 1)}, far...), false, idle + 10, len(far)},
		"past and unstored": {[]*hitl.Request{at("ns", 1)}, true, 4 * hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := hitltest.NewMemoryJournal()
				if c.broken {
					j.SetFault(func(op, _ string) error {
						if op == "Decide" {
							return errors.New("the store takes nothing")
						}
						return nil
					})
				}
				n := rounds(t, j, c.limit, c.requests...)
				require.LessOrEqual(t, n, c.limit, "the loop spins")
				require.GreaterOrEqual(t, n, idle, "the loop does not look at the clock any more")
				require.Equal(t, c.left, open(t, j, c.requests), fmt.Sprint(n, " rounds"))
			})
		})
	}
}

// open counts those that have no decision.
func open(t *testing.T, j *hitltest.MemoryJournal, requests []*hitl.Request) (n int) {
	t.Helper()
	for _, r := range requests {
		if _, err := j.Decision(t.Context(), ref(r)); err != nil {
			n++
		}
	}
	return n
}

// A time that no clock can count to is refused in words, not counted from.
func TestADeadlineBeyondCountingIsRefused(t *testing.T) {
	t.Parallel()
	for text, problem := range map[string]string{
		"9007199254740992s": "not a duration", "2562047h47m17s": "not a duration", "-1s": "expires_in",
	} {
		_, err := hitl.ParseRequest(fmt.Appendf(nil, `{"v":1,"id":"i","key":"k","kind":"approval","tenant":"t","owner":"o","session_id":"s",`+
			`"title":"x","tool":{"name":"Bash","input":{}},"expires_in":%q}`, text))
		require.ErrorContains(t, err, problem, text)
	}
}
