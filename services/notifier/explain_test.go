package notifier_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

func TestExplainTellsWhoWhenBySaidAndNext(t *testing.T) {
	t.Parallel()
	b, clk := newBench(t), newClock(time.Now())
	hook := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 2 {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	o := hook.people(t, `recipients:
  - {name: ada, channels: [{channel: hook}], group: 0s}
  - {name: bob, channels: [{channel: hook}], group: 0s}
routes:
  - name: shop
    match: {project: shop}
    remind: []
    steps:
      - {to: [ada]}
      - {after: 1m, to: [bob]}
      - {after: 5m, to: [bob]}
      - {after: 2h, to: [ada]}
`)
	o.Clock = clk
	b.notify(t, o)
	ref := newRef(1)
	s := summary(ref, clk.Now())
	expires := clk.Now().Add(time.Hour)
	s.ExpiresAt = &expires
	b.open(t, ref, s)
	hook.next(t)
	b.awaitAt(t, ref, "step1", "ada/hook", ledger.Sent)
	clk.move(time.Minute)
	hook.next(t)
	b.awaitAt(t, ref, "step2", "bob/hook", ledger.Failed)

	l, err := notifier.OpenLedger(t.Context(), b.cred)
	require.NoError(t, err)
	defer l.Close()
	for _, id := range []string{ref.ID, ref.String()} {
		found, err := l.Find(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, ref, found[0])
	}
	x, err := l.Explain(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, "shop", x.Route)
	require.Empty(t, x.Outcome)
	require.Len(t, x.Deliveries, 4)
	sent, failed, next, never := x.Deliveries[0], x.Deliveries[1], x.Deliveries[2], x.Deliveries[3]
	require.Equal(t, []string{"step1", "ada/hook", "sent", "status 200"}, []string{sent.Step, sent.Address, sent.State, sent.Said})
	require.NotNil(t, sent.SentAt)
	require.Equal(t, []string{"step2", "bob/hook", "failed"}, []string{failed.Step, failed.Address, failed.State})
	require.Contains(t, failed.Problem, "status 400")
	require.Equal(t, []string{"step3", "bob/hook", "planned"}, []string{next.Step, next.Address, next.State})
	require.WithinDuration(t, s.CreatedAt.Add(5*time.Minute), next.DueAt, time.Second)
	require.Equal(t, []string{"step4", "ada/hook", "skipped", "its time is over before"}, []string{never.Step, never.Address, never.State, never.Problem})

	b.end(t, ref, s, hitl.Allowed, ada)
	require.Equal(t, closed, hook.next(t).Type)
	b.awaitAt(t, ref, "closed", "ada/hook", ledger.Sent)
	x, err = l.Explain(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, hitl.Allowed, x.Outcome)
	states := map[string]string{}
	for _, d := range x.Deliveries {
		states[d.Step+" "+d.Address] = d.State
	}
	require.Equal(t, map[string]string{
		"step1 ada/hook": "sent", "step2 bob/hook": "failed", "step3 bob/hook": "retracted", "step4 ada/hook": "skipped", "closed ada/hook": "sent",
	}, states)
	raw, err := json.Marshal(x)
	require.NoError(t, err)
	require.NotContains(t, string(raw), toolInput)
	require.NotContains(t, string(raw), "hidden")

	_, err = l.Explain(t.Context(), newRef(2))
	require.ErrorIs(t, err, notifier.ErrUnknown)
	_, err = l.Find(t.Context(), "no-such-id")
	require.ErrorIs(t, err, notifier.ErrUnknown)
	_, err = l.Find(t.Context(), "*")
	require.ErrorIs(t, err, notifier.ErrUnknown)
}

func TestTestSendsThroughEachAddressOrOne(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 2 {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	cfg := hook.people(t, `  - {name: out, type: log}
recipients:
  - {name: ada, channels: [{channel: hook}, {channel: out}], quiet: [{from: "00:00", to: "23:59"}]}
  - {name: bob, channels: [{channel: hook}]}
routes:
  - {name: all, steps: [{to: [ada, bob]}]}
`).Config
	log := slog.New(slog.DiscardHandler)
	got, err := notifier.Test(t.Context(), log, cfg, nil, baseURL, "")
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, []string{"ada/hook", "status 200", ""}, []string{got[0].Address, got[0].Said, got[0].Problem}, "whatever the hour")
	require.Equal(t, "bob/hook", got[1].Address)
	require.Contains(t, got[1].Problem, "status 403")
	require.Equal(t, []string{"ada/out", "logged", ""}, []string{got[2].Address, got[2].Said, got[2].Problem})
	c := hook.next(t)
	require.Equal(t, "banksman.test", c.Type)
	require.Equal(t, "https://banksman.test/", c.Data["link"])
	hook.next(t)
	for _, only := range []string{"bob", "bob/hook"} {
		got, err = notifier.Test(t.Context(), log, cfg, nil, "", only)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, []string{"bob/hook", "status 200", ""}, []string{got[0].Address, got[0].Said, got[0].Problem})
		require.Equal(t, "bob", hook.next(t).Data["recipient"])
	}
	got, err = notifier.Test(t.Context(), log, cfg, nil, "", "eve")
	require.NoError(t, err)
	require.Empty(t, got)
}

// What was given up is sent again under the id it had, unless it is over by then.
func TestDeadLettersAreSentAgain_B68(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	status.Store(http.StatusBadRequest)
	hook := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	b := newBench(t)
	b.notify(t, hook.options(t, "0s"))
	l, err := notifier.OpenLedger(t.Context(), b.cred)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	one, two := newRef(1), newRef(2)
	ids := map[string]string{}
	for _, ref := range []subject.Ref{one, two} {
		b.open(t, ref, summary(ref, time.Now()))
		c := hook.next(t)
		ids[c.Subject] = c.ID
		b.await(t, ref, ledger.StepOpen, ledger.Failed)
	}
	dead, err := l.Dead(t.Context())
	require.NoError(t, err)
	require.Len(t, dead, 2)
	require.Equal(t, one.String(), dead[0].Key)
	require.Equal(t, "hook", dead[0].Address)
	require.True(t, dead[0].Again)
	require.Contains(t, dead[0].Problem, "status 400")

	b.end(t, two, summary(two, time.Now()), hitl.Denied, ada)
	require.Eventually(t, func() bool {
		_, err := b.ledger.Over(t.Context(), two)
		return err == nil
	}, patience, tick)
	status.Store(http.StatusNoContent)
	n, err := l.Replay(t.Context(), one.String(), "other")
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = l.Replay(t.Context(), "", "")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	b.await(t, one, ledger.StepOpen, ledger.Sent)
	require.Equal(t, "it was over first", b.await(t, two, ledger.StepOpen, ledger.Retracted).Problem)
	c := hook.next(t)
	require.Equal(t, one.String(), c.Subject)
	require.Equal(t, ids[one.String()], c.ID, "the receiver knows it again")
	require.Empty(t, hook.calls)
	dead, err = l.Dead(t.Context())
	require.NoError(t, err)
	require.Empty(t, dead)
	// Its end is told now that it was told of.
	b.end(t, one, summary(one, time.Now()), hitl.Allowed, ada)
	require.Equal(t, "banksman.interaction.closed", hook.next(t).Type)
}
