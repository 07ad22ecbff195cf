package gate

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// An approval is used at most once, over restarts too.
func TestLedger_D4_05_OnceOverARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path)
	require.NoError(t, err)
	require.NoError(t, l.Claim("i", "d"))
	require.ErrorIs(t, l.Claim("i", "d"), ErrSpent)
	require.NoError(t, l.Claim("i", "d2"))
	require.NoError(t, l.Close())

	l, err = OpenLedger(path)
	require.NoError(t, err)
	require.True(t, l.Spent("i", "d"))
	require.ErrorIs(t, l.Claim("i", "d"), ErrSpent)
	require.NoError(t, l.Claim("i2", "d"))
	require.NoError(t, l.Close())
	require.Error(t, l.Claim("i3", "d"), "a closed ledger hands nothing out")
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
	require.True(t, l.Spent("i", "d"))
	require.NoError(t, l.Claim("i3", "d"))
	require.NoError(t, l.Close())
	l, err = OpenLedger(path)
	require.NoError(t, err)
	require.True(t, l.Spent("i3", "d"))
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
