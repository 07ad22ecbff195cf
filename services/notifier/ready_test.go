package notifier_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// A notifier whose ledger refuses or is gone tells nobody, so it is not ready and says
// why; it is again once the ledger is.
func TestANotifierWithoutItsLedgerIsNotReady(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, nil)
	n := b.notify(t, r.options(t, "0s"))
	js, err := jetstream.New(b.connect(t, bus.RoleNotifier))
	require.NoError(t, err)
	says := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			err := n.Health()
			return err == nil && want == "" || err != nil && want != "" && strings.HasPrefix(err.Error(), want)
		}, patience, tick, "%q", want)
	}
	ready := func(want float64) {
		t.Helper()
		require.Equal(t, want, n.gauge(t, "banksman_ready")["notifier"])
	}
	says("")
	ready(1)
	bucket, err := js.Stream(t.Context(), "KV_"+ledger.Bucket)
	require.NoError(t, err)
	whole := bucket.CachedInfo().Config
	narrow := whole
	narrow.MaxMsgSize = 1
	_, err = js.UpdateStream(t.Context(), narrow)
	require.NoError(t, err)
	says("nobody can be told: the ledger's bucket hitl_alerts cannot be written: ")
	ready(0)
	require.Len(t, n.log.lines("the ledger fails", "message size exceeds"), 1)
	ref := newRef(1)
	b.open(t, ref, summary(ref, time.Now()))
	_, err = js.UpdateStream(t.Context(), whole)
	require.NoError(t, err)
	says("")
	ready(1)
	require.Equal(t, ref.String(), r.next(t).Subject, "what came meanwhile is told then")

	require.NoError(t, js.DeleteStream(t.Context(), "KV_"+ledger.Bucket))
	says("nobody can be told: the ledger's bucket hitl_alerts is gone; a notifier that starts makes an empty one")
	ready(0)
	another := b.notify(t, r.options(t, "0s"))
	says("")
	require.NoError(t, another.Health())
	ref = newRef(2)
	b.open(t, ref, summary(ref, time.Now()))
	require.Equal(t, ref.String(), r.next(t).Subject)
}
