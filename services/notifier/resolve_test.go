package notifier_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// onCall is an on-call service with what a test needs to make digests to it.
type onCall struct {
	t      *testing.T
	b      *bench
	n      *running
	clk    *clock
	events chan string  // what it is told
	refuse atomic.Int32 // how many more it cannot take, or does not say
	status atomic.Int32 // what it answers then
}

func newOnCall(t *testing.T) *onCall {
	t.Helper()
	o := &onCall{t: t, b: newBench(t), clk: newClock(time.Now()), events: make(chan string, 64)}
	o.status.Store(http.StatusServiceUnavailable)
	pd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e struct {
			Action string `json:"event_action"`
			Key    string `json:"dedup_key"`
		}
		_ = json.NewDecoder(r.Body).Decode(&e)
		o.events <- e.Action + " " + e.Key
		if o.refuse.Add(-1) >= 0 {
			w.WriteHeader(int(o.status.Load()))
			return
		}
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
	o.n = o.b.notify(t, notifier.Options{Config: cfg, Clock: o.clk})
	return o
}

func (o *onCall) next() string {
	o.t.Helper()
	select {
	case e := <-o.events:
		return e
	case <-time.After(patience):
		o.t.Fatal("no event")
		return ""
	}
}

func (o *onCall) open(from, to int) {
	o.t.Helper()
	for i := from; i <= to; i++ {
		o.b.open(o.t, newRef(i), summary(newRef(i), o.clk.Now()))
		o.b.awaitAt(o.t, newRef(i), "step1", "ada/pd", ledger.Planned)
	}
	o.n.queues(o.t, float64(to-from+1))
}

// digest opens some, and waits until a message has told of all.
func (o *onCall) digest(from, to int) {
	o.t.Helper()
	o.open(from, to)
	o.clk.move(2 * time.Hour)
	require.Equal(o.t, "trigger banksman digest ada", o.next())
	for i := from; i <= to; i++ {
		o.b.awaitAt(o.t, newRef(i), "step1", "ada/pd", ledger.Sent)
	}
}

// least is the one of a digest under which its end is planned.
func least(from, to int) subject.Ref {
	refs := make([]subject.Ref, 0, to-from+1)
	for i := from; i <= to; i++ {
		refs = append(refs, newRef(i))
	}
	return slices.MinFunc(refs, func(a, b subject.Ref) int { return strings.Compare(a.String(), b.String()) })
}

func (o *onCall) end(i int) {
	o.b.end(o.t, newRef(i), summary(newRef(i), o.clk.Now()), hitl.Allowed, ada)
}

// What stands at an on-call service is ended there: a request's own alert at its end,
// whatever the pace, and that of digests once nothing that was in one waits.
func TestOnCallAlertsAreResolved_B67(t *testing.T) {
	t.Parallel()
	o := newOnCall(t)
	o.open(1, 1)
	o.clk.move(time.Minute)
	require.Equal(t, "trigger banksman "+newRef(1).String(), o.next())
	o.b.awaitAt(t, newRef(1), "step1", "ada/pd", ledger.Sent)
	o.end(1)
	require.Equal(t, "resolve banksman "+newRef(1).String(), o.next(), "though the hour has had its message")

	for round := range 2 { // a digest that comes later is resolved as well
		first := 10 * (round + 1)
		o.digest(first, first+2)
		for _, i := range []int{2, 0} {
			o.end(first + i)
			require.Eventually(t, func() bool {
				_, err := o.b.ledger.Over(t.Context(), newRef(first+i))
				return err == nil
			}, patience, tick)
		}
		require.Empty(t, o.events, "one waits still")
		o.end(first + 1)
		require.Equal(t, "resolve banksman digest ada", o.next())
	}
	require.Empty(t, o.events)
}

// Two replicas write down that the last two of a digest are over, and only then look
// whether all are: both find that, and it is told once.
func TestADigestWhoseLastTwoEndAtOnceIsResolvedOnce_B67(t *testing.T) {
	t.Parallel()
	o := newOnCall(t)
	o.digest(1, 3)
	for i := 1; i <= 3; i++ {
		_, err := o.b.ledger.MarkOver(t.Context(), newRef(i), ledger.Over{Outcome: hitl.Allowed, At: o.clk.Now()})
		require.NoError(t, err)
	}
	o.end(1)
	require.Equal(t, "resolve banksman digest ada", o.next())
	o.end(3)
	o.end(2)
	o.digest(11, 12) // it is written down after what those may have planned
	require.Empty(t, o.events)
	o.end(11)
	o.end(12)
	require.Equal(t, "resolve banksman digest ada", o.next(), "a later one is told of as well")
}

// A digest that could not be sent is over before its next attempt: the on-call service is
// not alerted of it after that was ended there.
func TestOnCallIsNotAlertedAfterTheEnd_B67(t *testing.T) {
	t.Parallel()
	o := newOnCall(t)
	o.refuse.Store(1)
	o.open(1, 3)
	o.clk.move(2 * time.Hour)
	require.Equal(t, "trigger banksman digest ada", o.next())
	o.b.rests(t, "ada/pd")
	for i := 1; i <= 3; i++ {
		o.end(i)
		o.b.awaitAt(t, newRef(i), "step1", "ada/pd", ledger.Retracted)
	}
	o.b.awaitAt(t, least(1, 3), ledger.StepResolved, "ada/pd", ledger.Planned)
	o.clk.move(5 * time.Second)
	require.Equal(t, "resolve banksman digest ada", o.next())
	require.Eventually(t, func() bool {
		o.clk.move(5 * time.Second)
		p, err := o.b.ledger.PaceOf(t.Context(), "ada/pd")
		require.NoError(t, err)
		return p.Batch == nil
	}, patience, 20*time.Millisecond)
	require.Empty(t, o.events)
}

// The end of a digest was taken back, for more of it waited: it is told when that is over.
func TestAnEndThatWasTakenBackIsToldLater_B67(t *testing.T) {
	t.Parallel()
	o := newOnCall(t)
	o.digest(1, 3)
	k := ledger.Key{Ref: least(1, 3), Step: ledger.StepResolved, Channel: "ada/pd"}
	_, won, err := o.b.ledger.Create(t.Context(), k, ledger.Entry{State: ledger.Retracted, DueAt: o.clk.Now(), Problem: "something waits again"})
	require.NoError(t, err)
	require.True(t, won)
	for i := 1; i <= 3; i++ {
		o.end(i)
	}
	require.Equal(t, "resolve banksman digest ada", o.next())
	o.b.awaitAt(t, k.Ref, k.Step, k.Channel, ledger.Sent)
}

// A digest is given up of which nobody knows whether it arrived: if it did, it stands
// there until its end is told.
func TestADigestThatMayHaveArrivedIsResolved_B67(t *testing.T) {
	t.Parallel()
	o := newOnCall(t)
	o.status.Store(http.StatusGatewayTimeout)
	o.refuse.Store(6)
	o.open(1, 2)
	for range 6 {
		require.Eventually(t, func() bool {
			o.clk.move(2 * time.Hour)
			return len(o.events) > 0
		}, patience, 50*time.Millisecond)
		require.Equal(t, "trigger banksman digest ada", o.next())
	}
	for i := 1; i <= 2; i++ {
		o.b.awaitAt(t, newRef(i), "step1", "ada/pd", ledger.Dead)
		o.end(i)
	}
	require.Equal(t, "resolve banksman digest ada", o.next())
}
