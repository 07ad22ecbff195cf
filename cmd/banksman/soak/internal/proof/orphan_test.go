package proof

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// A worker's request is given up once the worker has been silent for so long, not
// before and not never.
func TestWorkersAreGivenUpByTheirRule_B37(t *testing.T) {
	t.Parallel()
	at := func(s float64) int64 { return time.Unix(100, 0).UnixNano() + int64(s*float64(time.Second)) }
	beats := func(from, to float64) (all []int64) {
		for s := from; s <= to; s += 0.5 {
			all = append(all, at(s))
		}
		return all
	}
	orphaned := func(s float64) Stored {
		return Stored{Decision: &hitl.Decision{DecisionID: "1", Content: hitl.Content{Outcome: hitl.Orphaned}, DecidedAt: time.Unix(0, at(s))}}
	}
	// site is one in which something was wrong between two moments.
	site := func(from, to float64) Site {
		s := undisturbed
		s.Up = func(a, b int64) time.Duration {
			return time.Duration(b - a - max(0, min(b, at(to))-max(a, at(from))))
		}
		s.Calm = func(a, b int64) time.Duration {
			if b <= at(from) || a >= at(to) {
				return time.Duration(b - a)
			}
			return time.Duration(max(at(from)-a, b-at(to)))
		}
		return s
	}
	calm := site(-100, -100)
	for _, c := range []struct {
		name string
		says string
		ix   Interaction
		rec  Stored
		site Site
	}{
		{"silent for its time", "", Interaction{works: true, beats: beats(0, 2), gone: at(2.1)}, orphaned(10.3), calm},
		{"noticed a little later", "", Interaction{works: true, beats: beats(0, 2), gone: at(2.1)}, orphaned(18), calm},
		{"somebody was faster", "", Interaction{works: true, beats: beats(0, 2), gone: at(2.1)}, Stored{Decision: &hitl.Decision{Content: hitl.Content{Outcome: hitl.Denied}}}, calm},
		{"nobody could hear it", "", Interaction{works: true, beats: beats(0, 12), gone: at(12.1)}, orphaned(9), site(0.7, 9)},
		{"nobody was there to notice", "", Interaction{works: true, beats: beats(0, 2), gone: at(2.1)}, orphaned(60), site(8, 50)},
		{"it beats", "before its worker could have been silent for 8s", Interaction{works: true, beats: beats(0, 30)}, orphaned(20), calm},
		{"silent for half of it", "before its worker could have been silent for 8s", Interaction{works: true, beats: beats(0, 10), gone: at(10.1)}, orphaned(14), calm},
		{"it was back", "before its worker could have been silent for 8s", Interaction{works: true, beats: append(beats(0, 3), beats(6, 30)...)}, orphaned(12), calm},
		{"noticed much later", "it was not given up in", Interaction{works: true, beats: beats(0, 2), gone: at(2.1)}, orphaned(30), calm},
		{"never", "stays away, and it was not given up", Interaction{works: true, beats: beats(0, 2), gone: at(2.1)}, Stored{Request: true}, calm},
		{"no worker", "no worker asked it", Interaction{}, orphaned(10), calm},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			errs := contradictions(&c.ix, c.rec, c.site)
			if c.says == "" {
				require.Empty(t, errs)
				return
			}
			require.Len(t, errs, 1)
			require.ErrorContains(t, errs[0], c.says)
		})
	}
	// In the search for an order it cannot come before its time either.
	ix := Interaction{works: true, beats: beats(0, 2), gone: at(2.1)}
	resolve(&ix, orphaned(10.3), calm, at(100))
	require.Equal(t, OpSettle, ix.Ops[0].Kind)
	require.Equal(t, at(10)-int64(orphanSlack), ix.Ops[0].Call)
}
