package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
)

// reads counts the stored messages that a gateway is given at its start.
type reads struct {
	journal.Journal
	n atomic.Int64
}

func (r *reads) count(fn func(journal.Message) error) func(journal.Message) error {
	return func(m journal.Message) error {
		r.n.Add(1)
		return fn(m)
	}
}

func (r *reads) Read(ctx context.Context, stream string, from uint64, filters []string, fn func(journal.Message) error) error {
	return r.Journal.Read(ctx, stream, from, filters, r.count(fn))
}

func (r *reads) Last(ctx context.Context, stream string, filters []string, fn func(journal.Message) error) error {
	return r.Journal.Last(ctx, stream, filters, r.count(fn))
}

// However much was settled before, a start reads what is open and a bounded
// number of messages more: by what the engine is given, by what comes over its
// connection, and by what it makes the server look through.
func TestAStartCostsWhatIsOpen_NotTheHistory(t *testing.T) {
	t.Parallel()
	const open, tail = 40, 10
	w := newWorld(t)
	nc := w.connect()
	few := func(o *Options) { o.recent = tail }
	e, stop := w.gateway(few)
	for i := range open {
		w.ask(nc, request(fmt.Sprint("open", i), expiring(time.Hour)))
	}
	settled := 0
	settle := func(n int) {
		for range n {
			r := request(fmt.Sprint("settled", settled), func(r *hitl.Request) { r.SessionID = "s2" })
			settled++
			raw := w.ask(nc, r)
			a := answer(r, raw, "ada", allow)
			a.RequestID = ref(r).String()
			require.Equal(t, hitl.Accepted, e.Decide(t.Context(), a).Status)
		}
		w.swept(settled)
	}
	spy := w.connect()
	made, err := spy.SubscribeSync("$JS.API.CONSUMER.CREATE.>")
	require.NoError(t, err)
	start := func() (given int64, came uint64) {
		stop()
		w.forget(made)
		nc := w.connect()
		count := &reads{Journal: w.journal(nc)}
		before := nc.Stats().InMsgs
		e, stop = w.gateway(few, func(o *Options) { o.Journal, o.Conn = count, nc })
		given, came = count.n.Load(), nc.Stats().InMsgs-before
		require.Len(t, pendingIDs(t, e), open)
		w.looksThrough(made, open+2*tail)
		return given, came
	}
	settle(50)
	given, _ := start()
	require.Positive(t, given)
	require.LessOrEqual(t, given, int64(open+2*tail))
	settle(450)
	again, came := start()
	// How many closed events the tail has depends on how they and the open
	// events came to stand in it; that there are no more does not.
	require.LessOrEqual(t, again, int64(open+2*tail), "ten times the history, no more messages")
	// With the server's answers: some calls, and the first pulls of what the
	// gateway does from then on.
	require.LessOrEqual(t, came, uint64(open+2*tail+100))
}

// forget drops what a subscription has.
func (w *world) forget(sub *nats.Subscription) {
	w.t.Helper()
	for n, _, err := sub.Pending(); n > 0; n, _, err = sub.Pending() {
		require.NoError(w.t, err)
		_, err = sub.NextMsg(patience)
		require.NoError(w.t, err)
	}
}

// looksThrough checks that none of the consumers that were asked for makes the
// server look through more than so many messages. For one of many subjects it
// looks through all.
func (w *world) looksThrough(made *nats.Subscription, most int) {
	w.t.Helper()
	nc := w.connect()
	require.NoError(w.t, nc.Flush())
	seen := 0
	for n, _, err := made.Pending(); n > 0; n, _, err = made.Pending() {
		require.NoError(w.t, err)
		m, err := made.NextMsg(patience)
		require.NoError(w.t, err)
		var wish struct {
			Stream string `json:"stream_name"`
			Config struct {
				Policy   string   `json:"deliver_policy"`
				From     uint64   `json:"opt_start_seq"`
				Subjects []string `json:"filter_subjects"`
			}
		}
		require.NoError(w.t, json.Unmarshal(m.Data, &wish))
		require.Empty(w.t, wish.Config.Subjects, "%s", m.Data)
		if wish.Config.Policy == "last_per_subject" {
			continue // it has an index of these
		}
		require.Equal(w.t, "by_start_sequence", wish.Config.Policy, "%s", m.Data)
		js, err := nc.JetStream()
		require.NoError(w.t, err)
		info, err := js.StreamInfo(wish.Stream)
		require.NoError(w.t, err)
		if info.State.LastSeq >= wish.Config.From {
			require.LessOrEqual(w.t, min(info.State.Msgs, info.State.LastSeq+1-wish.Config.From), uint64(most), "%s", m.Data)
		}
		seen++
	}
	require.Positive(w.t, seen)
}

// swept waits until the sweeper has finished n decisions, and nothing is left
// of their requests.
func (w *world) swept(n int) {
	w.t.Helper()
	j := w.journal(w.connect())
	require.Eventually(w.t, func() bool {
		_, sweeper, err := j.Floors(w.t.Context())
		return err == nil && sweeper == uint64(n)
	}, patience, 10*time.Millisecond)
}

func pendingIDs(t *testing.T, e *Engine) []string {
	t.Helper()
	list, err := e.Interactions(t.Context(), "pending", 0)
	require.NoError(t, err)
	var ids []string
	for _, ix := range list {
		ids = append(ids, ix.ID)
	}
	return ids
}
