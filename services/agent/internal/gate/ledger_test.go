package gate

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// An approval is used at most once, over restarts too.
func TestLedger_D4_05_OnceOverARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path)
	require.NoError(t, err)
	require.NoError(t, l.Claim("i", "d"))
	require.ErrorIs(t, l.Claim("i", "d"), ErrSpent)
	require.NoError(t, l.Claim("i2", "d2"))
	require.NoError(t, l.Close())

	l, err = OpenLedger(path)
	require.NoError(t, err)
	require.Error(t, l.Spent("i", "d"))
	require.ErrorIs(t, l.Claim("i", "d"), ErrSpent)
	require.NoError(t, l.Claim("i3", "d"))
	require.NoError(t, l.Close())
	require.Error(t, l.Claim("i3", "d"), "a closed ledger hands nothing out")
}

// A record that was put back to an older copy can hold another decision for an
// interaction whose approval was used. It is no second approval.
func TestLedger_D4_05_AnotherDecisionOfTheSameInteractionIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path)
	require.NoError(t, err)
	require.NoError(t, l.Claim("i", "d"))
	require.ErrorIs(t, l.Claim("i", "d2"), ErrReplaced)
	require.NotErrorIs(t, l.Claim("i", "d2"), ErrSpent)
	require.NoError(t, l.Close())

	l, err = OpenLedger(path)
	require.NoError(t, err)
	require.ErrorIs(t, l.Claim("i", "d2"), ErrReplaced)
	require.ErrorIs(t, l.Claim("i", "d"), ErrSpent)
	require.Error(t, l.Spent("i", "d"))
	require.NoError(t, l.Spent("i2", "d"))
	require.NoError(t, l.Close())
}

func TestLedger_ALineCutByACrashCountsForNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path)
	require.NoError(t, err)
	require.NoError(t, l.Claim("i", "d"))
	require.NoError(t, l.Close())
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"interaction_id":"i2","decis`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	l, err = OpenLedger(path)
	require.NoError(t, err)
	require.Error(t, l.Spent("i", "d"))
	require.NoError(t, l.Claim("i3", "d"))
	require.NoError(t, l.Close())
	l, err = OpenLedger(path)
	require.NoError(t, err)
	require.Error(t, l.Spent("i3", "d"))
	require.NoError(t, l.Close())
}

func fill(t *testing.T, path string, uses ...Use) {
	t.Helper()
	var text []byte
	for _, u := range uses {
		line, err := json.Marshal(u)
		require.NoError(t, err)
		text = append(append(text, line...), '\n')
	}
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

func ids(uses []Use) (out []string) {
	for _, u := range uses {
		out = append(out, u.Interaction)
	}
	return out
}

// What is older than any decision can be is dropped; what is younger stays, and so
// does what is noted behind it.
func TestLedger_D4_05_OldEntriesGoYoungerOnesStay(t *testing.T) {
	t.Parallel()
	const keep = 400 * 24 * time.Hour
	now := time.Date(2028, 3, 1, 12, 0, 0, 0, time.UTC)
	entry := func(name string, age time.Duration) Use { return Use{name, "d", now.Add(-age)} }
	for name, c := range map[string]struct {
		uses []Use
		now  time.Time
		left []string
	}{
		"by age":                  {[]Use{entry("old", keep+2*time.Hour), entry("edge", keep), entry("young", time.Hour)}, now, []string{"edge", "young"}},
		"in any order":            {[]Use{entry("a", 2*keep), entry("b", time.Hour), entry("c", 2*keep), entry("d", 0)}, now, []string{"b", "d"}},
		"none":                    {[]Use{entry("a", time.Hour)}, now, []string{"a"}},
		"empty":                   {nil, now, nil},
		"a clock far ahead":       {[]Use{entry("a", time.Hour), entry("b", 0)}, now.Add(10 * keep), []string{"a", "b"}},
		"a clock that was ahead":  {[]Use{entry("a", time.Hour), entry("b", -10*keep)}, now, []string{"a", "b"}},
		"a rest of a trim":        {[]Use{entry("old", 2*keep), entry("young", time.Hour)}, now, []string{"young"}},
		"a rest without old ones": {[]Use{entry("young", time.Hour)}, now, []string{"young"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger")
			fill(t, path, c.uses...)
			if strings.HasPrefix(name, "a rest") {
				// A crash while the new file was written: it is not what counts.
				require.NoError(t, os.WriteFile(path+trimmed, []byte(`{"interaction_id":"no","decision_id":"d"}`+"\n{"), 0o600))
			}
			l, err := OpenLedger(path)
			require.NoError(t, err)
			dropped, err := l.Trim(c.now, keep)
			require.NoError(t, err)
			require.Equal(t, len(c.uses)-len(c.left), dropped)
			require.Equal(t, c.left, ids(l.Uses()))
			require.NoFileExists(t, path+trimmed)
			require.NoError(t, l.Claim("next", "d"))
			require.NoError(t, l.Close())
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			l, err = OpenLedger(path)
			require.NoError(t, err)
			require.Equal(t, append(c.left, "next"), ids(l.Uses()))
			for _, id := range c.left {
				require.ErrorIs(t, l.Claim(id, "d"), ErrSpent)
				require.ErrorIs(t, l.Claim(id, "d2"), ErrReplaced)
			}
			require.NoError(t, l.Close())
		})
	}
}

// Trimming that fails leaves the ledger as it was.
func TestLedger_D4_05_ATrimThatFailsForgetsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	now := time.Now()
	fill(t, path, Use{"old", "d", now.Add(-time.Hour)}, Use{"young", "d", now})
	l, err := OpenLedger(path)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(path+trimmed, "in the way"), 0o700))
	_, err = l.Trim(now, time.Minute)
	require.Error(t, err)
	require.ErrorIs(t, l.Claim("old", "d"), ErrSpent)
	require.NoError(t, l.Claim("next", "d"))
	require.NoError(t, l.Close())
	l, err = OpenLedger(path)
	require.NoError(t, err)
	require.Equal(t, []string{"old", "young", "next"}, ids(l.Uses()))
	require.NoError(t, l.Close())
}

func TestLedger_RefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	require.NoError(t, os.WriteFile(path, []byte("{}\n"), 0o600))
	_, err := OpenLedger(path)
	require.ErrorContains(t, err, "unreadable entry")
}

func TestLedger_OneOfManyWins(t *testing.T) {
	t.Parallel()
	l, err := OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	require.NoError(t, err)
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if l.Claim("i", "d") == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, won.Load())
	require.NoError(t, l.Close())
}

// The process that handed the approval out is gone; the next one must not run
// the tool on the same approval.
func TestGate_ASpentApprovalRunsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ans := answer(t, request("a"), allow())
	require.NoError(t, f.ledger.Claim(ans.Decision.InteractionID, ans.Decision.DecisionID))
	f.open(request("a"))
	f.reply("a", ans, nil)
	v := await(t, f.told)
	require.False(t, v.Yes())
	require.Equal(t, SpentText, v.Text)
	await(t, f.acks)
	require.Equal(t, hitl.Refused, await(t, f.acks).stage)
}

// The record was put back to an older copy: the request was decided again, by
// another decision, after its approval had been used.
func TestGate_D4_05_ASecondDecisionAfterARewindRunsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ans := answer(t, request("a"), allow())
	require.NoError(t, f.ledger.Claim(ans.Decision.InteractionID, "the first decision"))
	f.open(request("a"))
	f.reply("a", ans, nil)
	v := await(t, f.told)
	require.False(t, v.Yes())
	require.Equal(t, SpentText, v.Text)
	require.Equal(t, hitl.Delivered, await(t, f.acks).stage)
	require.Equal(t, ack{ans.Ref.ID, hitl.Refused, "d-a", ErrReplaced.Error()}, await(t, f.acks))
}

// Two workers have a copy each of one directory, with the same open ask: their
// ledgers know nothing of each other, the server does.
func TestGate_D4_05_OneOfTwoCopiesUsesAnApproval(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other, err := OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	require.NoError(t, err)
	second := &fixture{t: t, people: newPeople(), disk: &disk{kept: map[string]Kept{}}, ledger: other, told: make(chan Verdict, 1)}
	second.taken = f.taken
	second.gate = New(Options{Asker: second.people, Ledger: other, Keeper: second.disk, Logger: slog.New(slog.DiscardHandler)})
	f.open(request("a"))
	second.open(request("a"))
	ans := answer(t, request("a"), allow())
	f.reply("a", ans, nil)
	require.True(t, ptr(await(t, f.told)).Yes())
	second.reply("a", ans, nil)
	v := await(t, second.told)
	require.False(t, v.Yes())
	require.Equal(t, SpentText, v.Text)
	require.Equal(t, hitl.Delivered, await(t, second.acks).stage)
	require.Equal(t, ack{ans.Ref.ID, hitl.Refused, "d-a", ErrTaken.Error()}, await(t, second.acks))
	second.gate.Wait()
	require.NoError(t, other.Close())
}

// A runtime that took a decision in an earlier process, and says so now: an
// approval that was not claimed there ran nothing, so it is not called applied.
func TestGate_D4_05_B79_ConfirmedIsAppliedOnlyIfItWasClaimed(t *testing.T) {
	t.Parallel()
	for claimed, stage := range map[bool]string{true: hitl.Applied, false: hitl.Refused} {
		f := newFixture(t)
		ans := answer(t, request("a"), allow())
		if claimed {
			require.NoError(t, f.ledger.Claim(ans.Ref.ID, ans.Decision.DecisionID))
		}
		require.NoError(t, f.gate.Open(Ask{Kept: Kept{ID: "a", Request: request("a")}, Settle: func(s *Settled) { s.Confirm() }}))
		await(t, f.asked)
		f.reply("a", ans, nil)
		require.Equal(t, hitl.Delivered, await(t, f.acks).stage)
		require.Equal(t, stage, await(t, f.acks).stage)
	}
}

// A runtime that finds an approval spent says which of the two it is.
func TestGate_D4_05_SpentAndReplacedAreToldApart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		settle func(*Settled)
		spent  string
		stage  string // of the decision that was used
	}{
		"refused":   {func(s *Settled) { s.RefuseSpent("handed over before") }, "handed over before", hitl.Refused},
		"confirmed": {func(s *Settled) { s.Confirm() }, "", hitl.Applied},
	} {
		for used, want := range map[string]ack{
			"d-a":                {"", end.stage, "d-a", end.spent},
			"the first decision": {"", hitl.Refused, "d-a", ErrReplaced.Error()},
		} {
			t.Run(name+", used was "+used, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				ans := answer(t, request("a"), allow())
				require.NoError(t, f.ledger.Claim(ans.Ref.ID, used))
				require.NoError(t, f.gate.Open(Ask{Kept: Kept{ID: "a", Request: request("a")}, Settle: func(s *Settled) {
					if s.Spent() {
						end.settle(s)
					}
				}}))
				await(t, f.asked)
				f.reply("a", ans, nil)
				require.Equal(t, hitl.Delivered, await(t, f.acks).stage)
				want.id = ans.Ref.ID
				require.Equal(t, want, await(t, f.acks))
			})
		}
	}
}

// The server cannot be reached when an approval is to be used: nothing runs until
// it can, and a worker that stops meanwhile leaves the approval unused.
func TestGate_D4_05_NothingRunsWithoutItsClaim_invariant4(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	out := make(chan struct{})
	g := New(Options{Asker: away{f.people, out}, Ledger: f.ledger, Keeper: f.disk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, g.Open(Ask{Kept: Kept{ID: "a", Request: request("a")}, Settle: func(s *Settled) {
		s.Use(func(v Verdict) error { f.told <- v; return nil })
	}}))
	await(t, f.asked)
	ans := answer(t, request("a"), allow())
	f.reply("a", ans, nil)
	<-out
	g.Leave()
	g.Wait()
	none(t, f.told)
	require.True(t, f.has("a"))
	require.NoError(t, f.ledger.Spent(ans.Ref.ID, ans.Decision.DecisionID), "its successor can use it")
}

// away is an Asker whose server went away behind the decision.
type away struct {
	*people
	out chan struct{} // closed at the first claim
}

func (a away) Take(ctx context.Context, _ subject.Ref, _, _ string) (bool, error) {
	close(a.out)
	<-ctx.Done()
	return false, ctx.Err()
}
