package gate

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

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
	require.True(t, l.Spent("i"))
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
	require.True(t, l.Spent("i"))
	require.False(t, l.Spent("i2"))
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
	require.True(t, l.Spent("i"))
	require.NoError(t, l.Claim("i3", "d"))
	require.NoError(t, l.Close())
	l, err = OpenLedger(path)
	require.NoError(t, err)
	require.True(t, l.Spent("i3"))
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
	require.False(t, f.ledger.Spent(ans.Ref.ID), "its successor can use it")
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
