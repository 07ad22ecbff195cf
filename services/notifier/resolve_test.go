package notifier_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// What stands at an on-call service is ended there: a request's own alert at its end,
// whatever the pace, and that of digests once nothing that was in one waits.
func TestOnCallAlertsAreResolved_B67(t *testing.T) {
	t.Parallel()
	b, clk := newBench(t), newClock(time.Now())
	events := make(chan string, 64)
	pd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e struct {
			Action string `json:"event_action"`
			Key    string `json:"dedup_key"`
		}
		_ = json.NewDecoder(r.Body).Decode(&e)
		events <- e.Action + " " + e.Key
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(pd.Close)
	file := filepath.Join(t.TempDir(), "n.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
channels: [{name: pd, type: pagerduty, token: 0123456789abcdef0123456789abcdef, url: %q, allow_private: true}]
recipients: [{name: ada, channels: [{channel: pd}], messages: 1, per: 1h, group: 0s}]
routes: [{name: all, remind: [], steps: [{after: 1m, to: [ada]}]}]
`, pd.URL), 0o600))
	cfg, err := notifier.LoadConfig(file)
	require.NoError(t, err)
	b.notify(t, notifier.Options{Config: cfg, Clock: clk})
	next := func() string {
		t.Helper()
		select {
		case e := <-events:
			return e
		case <-time.After(patience):
			t.Fatal("no event")
			return ""
		}
	}
	open := func(from, to int) {
		for i := from; i <= to; i++ {
			b.open(t, newRef(i), summary(newRef(i), clk.Now()))
			b.awaitAt(t, newRef(i), "step1", "ada/pd", ledger.Planned)
		}
	}
	end := func(i int) { b.end(t, newRef(i), summary(newRef(i), clk.Now()), hitl.Allowed, ada) }

	open(1, 1)
	clk.move(time.Minute)
	require.Equal(t, "trigger banksman "+newRef(1).String(), next())
	b.awaitAt(t, newRef(1), "step1", "ada/pd", ledger.Sent)
	end(1)
	require.Equal(t, "resolve banksman "+newRef(1).String(), next(), "though the hour has had its message")

	for round := range 2 { // a digest that comes later is resolved as well
		first := 10 * (round + 1)
		open(first, first+2)
		clk.move(2 * time.Hour)
		require.Equal(t, "trigger banksman digest ada", next())
		for i := range 3 {
			b.awaitAt(t, newRef(first+i), "step1", "ada/pd", ledger.Sent)
		}
		for _, i := range []int{2, 0} {
			end(first + i)
			require.Eventually(t, func() bool {
				_, err := b.ledger.Over(t.Context(), newRef(first+i))
				return err == nil
			}, patience, tick)
		}
		require.Empty(t, events, "one waits still")
		end(first + 1)
		require.Equal(t, "resolve banksman digest ada", next())
	}
	require.Empty(t, events)
}
