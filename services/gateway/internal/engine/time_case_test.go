package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// hands are a clock that can be set.
type hands struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (h *hands) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Round(0).Add(h.ahead) // the wall's time: no timer counts it
}

func (h *hands) jump(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += d
}

// A timer does not count the time that a machine sleeps. The card ends all the
// same when it wakes up, long before its timer would say so.
func TestDeadlinesPassWhileTheMachineSleeps_B34_invariant9(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var clock hands
	e, _ := w.gateway(sharing(clock.now))
	nc := w.connect()
	short, long := request("k1", expiring(10*time.Minute)), request("k2", expiring(30*time.Hour))
	w.ask(nc, short)
	w.ask(nc, long)
	pending(t, e, short.ID, long.ID)
	clock.jump(8 * time.Hour)
	require.Equal(t, hitl.Expired, outcome(t, e, short).Outcome)
	pending(t, e, long.ID)
}

// A clock that was set back makes nobody's time longer than a timer's, and ends
// nothing early.
func TestAClockThatIsSetBackEndsNothingEarly_invariant9(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var clock hands
	e, _ := w.gateway(sharing(clock.now))
	nc := w.connect()
	r := request("k1", expiring(time.Hour))
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	clock.jump(-2 * time.Hour)
	rec := e.Decide(t.Context(), answer(r, raw, "ada", allow))
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	require.Equal(t, hitl.Allowed, outcome(t, e, r).Outcome)
}

// An answer after the attention point and before the deadline is an answer, and
// nothing that was planned for either comes after it.
func TestNothingFiresAfterAnAnswerPastTheAttentionPoint_B36_D2_06(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var clock hands
	e, _ := w.gateway(sharing(clock.now))
	var rec recorder
	watch := e.Watch("", rec.add)
	defer watch.Stop()
	nc := w.connect()
	attention := hitl.Duration(10 * time.Minute)
	r := request("k1", expiring(30*time.Minute), func(r *hitl.Request) { r.AttentionIn = &attention })
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	list, err := e.Interactions(t.Context(), wire.StatePending, 0)
	require.NoError(t, err)
	require.Equal(t, list[0].CreatedAt.Add(10*time.Minute), *list[0].AttentionAt)
	clock.jump(15 * time.Minute)
	got := e.Decide(t.Context(), answer(r, raw, "ada", allow))
	require.Equal(t, hitl.Accepted, got.Status, got.Error)
	require.Equal(t, hitl.Allowed, outcome(t, e, r).Outcome)
	// A later one's deadline passes, and with it the first one's.
	later := request("k2", expiring(time.Hour), func(r *hitl.Request) { r.SessionID = "s2" })
	w.ask(nc, later)
	pending(t, e, later.ID)
	clock.jump(2 * time.Hour)
	require.Equal(t, hitl.Expired, outcome(t, e, later).Outcome)
	ix := outcome(t, e, r)
	require.Equal(t, hitl.Allowed, ix.Outcome)
	require.Equal(t, got.Decision.DecisionID, ix.Decision.DecisionID)
	ends := 0
	for _, name := range rec.events(s1) {
		if name == hitl.EventInteractionResponse {
			ends++
		}
	}
	require.Equal(t, 1, ends)
}

// lockedLog collects what an engine logs.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) lines(with string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range strings.Split(l.b.String(), "\n") {
		if strings.Contains(line, with) {
			out = append(out, line)
		}
	}
	return out
}

// Expiry leaves a warning with kind and tool and without the input, a row of
// history, and no person.
func TestExpiryLeavesAWarningAndARow_B32_B33(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log lockedLog
	e, _ := w.gateway(func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	})
	nc := w.connect()
	r := request("k1", expiring(50*time.Millisecond), func(r *hitl.Request) { r.Tool.Input = []byte(`{"command":"s3cret-command"}`) })
	q := question("k2")
	soon := hitl.Duration(50 * time.Millisecond)
	q.ExpiresIn = &soon
	w.ask(nc, r)
	w.ask(nc, q)
	for _, one := range []*hitl.Request{r, q} {
		ix := outcome(t, e, one)
		require.Equal(t, hitl.Expired, ix.Outcome)
		require.Equal(t, one.Kind, ix.Kind, "the kind is the request's, not guessed from how it ended")
		require.Equal(t, "system", ix.Decision.Principal.Kind)
	}
	require.Eventually(t, func() bool { return len(log.lines("expired: nobody decided in time")) == 2 }, patience, time.Millisecond)
	warned := strings.Join(log.lines("level=WARN"), "\n")
	require.Contains(t, warned, "kind=approval")
	require.Contains(t, warned, "tool=Bash")
	require.Contains(t, warned, "kind=question")
	require.Empty(t, log.lines("s3cret"), "no tool input in logs")
	require.Eventually(t, func() bool {
		rows, err := e.Interactions(t.Context(), wire.StateClosed, 0)
		return err == nil && len(rows) == 2
	}, patience, time.Millisecond)
}

// Answers and the deadline at the same moment, at three gateways: one end, and
// everybody is told which.
func TestAnswersRaceTheDeadline_B04_B34_invariant1(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var gws []*Engine
	for range 3 {
		e, _ := w.gateway()
		gws = append(gws, e)
	}
	nc := w.connect()
	const n = 12
	type asked struct {
		r        *hitl.Request
		raw      []byte
		deadline time.Time // about: a request that has ended cannot be asked for its own
	}
	var all []asked
	for i := range n {
		r := request(fmt.Sprint("k", i), expiring(time.Second))
		all = append(all, asked{r, w.ask(nc, r), time.Now().Add(time.Second)})
	}
	receipts := make([][]wire.Receipt, n)
	var wg sync.WaitGroup
	for i, a := range all {
		receipts[i] = make([]wire.Receipt, 3)
		for g, e := range gws {
			wg.Go(func() {
				require.Eventually(t, func() bool {
					// Some a little before, some a little after.
					return time.Until(a.deadline) < time.Duration(6-i)*10*time.Millisecond
				}, patience, time.Millisecond)
				receipts[i][g] = e.Decide(t.Context(), answer(a.r, a.raw, fmt.Sprint("p", g), allow))
			})
		}
	}
	wg.Wait()
	for i, a := range all {
		end := outcome(t, gws[i%3], a.r)
		won := 0
		for _, rec := range receipts[i] {
			require.NotNil(t, rec.Decision, rec.Error)
			require.Equal(t, end.Decision.DecisionID, rec.Decision.DecisionID)
			switch rec.Status {
			case hitl.Accepted:
				won++
				require.Equal(t, hitl.Allowed, end.Outcome)
			case hitl.TooLate:
				require.Equal(t, hitl.Expired, end.Outcome)
			default:
				require.Equal(t, hitl.AlreadyDecided, rec.Status)
			}
		}
		require.Equal(t, end.Outcome == hitl.Allowed, won == 1)
		require.LessOrEqual(t, won, 1)
	}
}
