package crash

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

var (
	seed    = flag.Uint64("seed", 20261128, "of all that is random")
	terms   = flag.Int("terms", 100, "how often a worker is ended by SIGTERM")
	kills   = flag.Int("kills", 40, "how often by kill -9")
	claudes = flag.Int("claudes", 4, "how often a worker of Claude Code")
)

const lanes = 4 // data directories, each with one worker after the other

// answerFor is what a person says to a request of the demo.
func answerFor(rng *rand.Rand, o *wire.Opened) map[string]any {
	switch {
	case o.Kind == hitl.KindQuestion && rng.IntN(3) == 0:
		return map[string]any{"action": "clarify", "message": "what would you do?"}
	case o.Kind == hitl.KindQuestion:
		return map[string]any{"answers": map[string]any{"0": "Staging", "1": "Mail"}}
	case o.Kind == hitl.KindForm && rng.IntN(3) == 0:
		return map[string]any{"action": "dismiss"}
	case o.Kind == hitl.KindForm:
		return map[string]any{"content": map[string]any{"env": "prod"}}
	case rng.IntN(4) == 0:
		return map[string]any{"decision": "deny", "message": "not now"}
	}
	return map[string]any{"decision": "allow"}
}

// A worker is ended at any moment around its asks, in an orderly way and by
// kill -9, a hundred times and more. Its successor takes over. Whatever the
// moment was, no ask is lost, withdrawn or shown for ever, each has one outcome,
// the person's, with a trail, no approval is used twice, and every session gets
// to its end.
func TestWorkersEndAtRandomMoments_B48_B49_D4_05_invariant3(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d, %d times SIGTERM, %d times kill -9", *seed, *terms, *kills)
	s := newSite(t)
	rng := rand.New(rand.NewPCG(*seed, 1))
	s.onAsk = func(o wire.Opened) {
		body, wait := answerFor(rng, &o), time.Duration(0)
		if rng.IntN(2) == 0 {
			wait = time.Duration(rng.Int64N(int64(300 * time.Millisecond)))
		}
		s.answer(wait, o, body)
	}
	signals := slices.Concat(slices.Repeat([]syscall.Signal{syscall.SIGTERM}, *terms), slices.Repeat([]syscall.Signal{syscall.SIGKILL}, *kills))
	rng2 := rand.New(rand.NewPCG(*seed, 2))
	rng2.Shuffle(len(signals), func(i, j int) { signals[i], signals[j] = signals[j], signals[i] })

	var sessions []string
	begin := func() {
		id := fmt.Sprintf("session-%d", len(sessions))
		sessions = append(sessions, id)
		err := s.j.Enqueue(t.Context(), &hitl.Start{
			V: 1, SessionID: id, Tenant: bus.DefaultTenant, Pool: pool, Runtime: "demo", Prompt: "show me",
		})
		if err != nil {
			t.Errorf("start: %v", err)
		}
	}
	setups := make([]setup, lanes)
	for i := range setups {
		setups[i] = setup{Creds: s.creds(), Data: t.TempDir(), Cwd: t.TempDir(), Claude: "none"}
	}
	var queue sync.Mutex // of the sessions, the signals and the counts
	var orderly, orderlyAsking, killedAsking int
	var lane sync.WaitGroup
	for i := range lanes {
		moments := rand.New(rand.NewPCG(*seed, uint64(10+i)))
		lane.Go(func() {
			for {
				queue.Lock()
				if len(signals) == 0 {
					queue.Unlock()
					return
				}
				sig := signals[0]
				signals = signals[1:]
				if len(signals)%3 == 0 {
					begin()
				}
				queue.Unlock()
				w, err := setups[i].start(t)
				if err != nil {
					t.Errorf("worker: %v", err)
					return
				}
				data := setups[i].Data
				s.await(randomMoment(moments, 250*time.Millisecond, 20),
					func() int { return s.steps[workerOf(data)] }, func() int { return s.asks[workerOf(data)] })
				asking := s.asking(data)
				if err := w.end(sig); err != nil {
					t.Errorf("worker: %v", err)
					return
				}
				queue.Lock()
				switch {
				case w.orderly && asking:
					orderlyAsking++
					fallthrough
				case w.orderly:
					orderly++
				case sig == syscall.SIGKILL && asking:
					killedAsking++
				}
				queue.Unlock()
			}
		})
	}
	lane.Wait()
	t.Logf("%d of %d SIGTERMs ended a worker in an orderly way, %d of these with something open; %d of %d times kill -9 met something open",
		orderly, *terms, orderlyAsking, killedAsking, *kills)
	require.GreaterOrEqual(t, orderly, *terms/2, "too many signals came before a worker could listen")
	require.GreaterOrEqual(t, orderlyAsking, *terms/6, "too few signals came while something was open")
	require.GreaterOrEqual(t, killedAsking, *kills/10)
	for i := range setups {
		w, err := setups[i].start(t)
		require.NoError(t, err)
		defer func() { require.NoError(t, w.end(syscall.SIGTERM)) }()
	}
	s.until("every session is through", func() bool {
		for _, id := range sessions {
			st := s.states[id]
			if st.State != hitl.StateUserTurn || !slices.ContainsFunc(s.texts[id], func(e string) bool { return strings.Contains(e, "this was a demo") }) {
				return false
			}
		}
		return true
	})
	s.people.Wait()
	s.settled(t, setups, *terms+*kills)
	for _, id := range sessions {
		n := 0
		for ref := range s.opened {
			if s.opened[ref].SessionID == id {
				n++
			}
		}
		require.Equal(t, 9, n, "asking again is the same interaction")
	}
}

// settled checks what is left when every session has come to an end and workers
// were ended that many times.
func (s *site) settled(t *testing.T, setups []setup, ends int) {
	t.Helper()
	s.until("every interaction that was shown has its end", func() bool { return len(s.closed) == len(s.opened) })
	require.Eventually(t, func() bool {
		left := 0
		err := s.j.Read(t.Context(), journal.Requests, 1, nil, func(journal.Message) error { left++; return nil })
		return err == nil && left == 0
	}, patience, 20*time.Millisecond, "a request stays in the open set")
	decisions := s.decisions()
	s.mu.Lock()
	opened, won := maps.Clone(s.opened), maps.Clone(s.won)
	s.mu.Unlock()
	require.Len(t, decisions, len(opened))
	used := map[string]string{}
	for _, st := range setups {
		for ix, d := range ledger(t, st.Data) {
			require.NotContains(t, used, ix, "two workers used one approval")
			used[ix] = d
		}
	}
	require.NotEmpty(t, used, "no approval was handed out")
	spent := 0 // approvals whose use the ledger does not tell of
	for ref := range opened {
		d := decisions[ref.String()]
		require.NotNil(t, d, "no decision for %s", ref)
		mine := won[ref.String()]
		require.NotNil(t, mine, "%s ended as %s (%s), and no person said so", ref, d.Outcome, d.Comment)
		require.Equal(t, mine.DecisionID, d.DecisionID)
		end := s.trail(t, ref, d)
		if id, ok := used[ref.ID]; ok {
			require.Equal(t, hitl.Allowed, d.Outcome, "an approval was handed out that nobody gave")
			require.Equal(t, d.DecisionID, id)
		} else if d.Outcome == hitl.Allowed {
			spent++
			if !strings.Contains(end.Detail, "another worker process") {
				t.Errorf("the approval of %s was never handed out, although its session went on: %s, %s", ref, end.Stage, end.Detail)
			}
		}
	}
	t.Logf("%d approvals were handed out, %d spent without", len(used), spent)
	require.LessOrEqual(t, spent, ends, "an approval is spent without being handed out only where its worker was ended")
	code, raw := s.call("GET", "/api/interactions?state=pending", nil)
	require.Equal(t, 200, code)
	require.NotContains(t, string(raw), `"request_id"`)
}

// spentRx is why an asker refuses an approval that it does not dare to use.
const spentRx = "before the worker was lost|another worker process took the approval before"

// trail checks that the person who decided was told what became of it.
func (s *site) trail(t *testing.T, ref subject.Ref, d *hitl.Decision) (end hitl.Ack) {
	t.Helper()
	var ix wire.Interaction
	require.Eventually(t, func() bool {
		ix = s.interaction(ref.String())
		return len(ix.Trail) >= 2
	}, patience, 20*time.Millisecond, "no trail for %s, %s: %v", ref, d.Outcome, ix.Trail)
	require.Equal(t, hitl.Delivered, ix.Trail[0].Stage)
	require.Len(t, ix.Trail, 2)
	end = ix.Trail[1]
	if end.Stage == hitl.Refused {
		// Killed between its claims and the note of its use: it counts as used.
		require.Equal(t, hitl.Allowed, d.Outcome, "only a used approval can be refused: %s", end.Detail)
		require.Regexp(t, spentRx, end.Detail)
	} else {
		require.Equal(t, hitl.Applied, end.Stage)
	}
	return end
}
