package projection

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// What was decided before anybody was asked is never among what waits, although the
// conversation has it; and what its asker said of the decision before the events
// came is not lost.
func TestWhatNeverWaitedIsNotShownAsOpen_invariant8(t *testing.T) {
	t.Parallel()
	ledger := quota.New(quota.Limits{Open: 1}, time.Now)
	p := New(Options{
		Logger: slog.New(slog.DiscardHandler), Clock: time.Now, OrphanAfter: time.Hour, Recent: 4,
		Orphan: func(subject.Ref, string) {}, Doubtful: func(subject.Session, bool) {}, Alarm: make(chan struct{}, 1), Ledger: ledger,
	})
	p.Begin(cursor.Position{})
	var told []string
	w := p.Watch("", func(u api.Update) {
		for _, ev := range u.Events {
			told = append(told, ev.Type)
		}
	})
	defer w.Stop()
	ref, key := subject.NewRef("t", "o", "i"), subject.NewSession("t", "o", "s")
	encode := func(v any) []byte {
		raw, err := hitl.Marshal(v)
		require.NoError(t, err)
		return raw
	}
	sum := wire.Summary{RequestID: "i", Key: ref.String(), Kind: hitl.KindApproval, Tenant: "t", Owner: "o", SessionID: "s", SessionKey: key.String(), Digest: "d"}
	ack := func(seq uint64, stage, decision string) {
		p.ApplyTranscript(journal.Message{Subject: subject.Ack(ref, stage), Seq: seq, Time: time.Now(), Data: encode(hitl.Ack{V: 1, Stage: stage, DecisionID: decision})})
	}
	ack(1, hitl.Delivered, "d1")
	p.ApplyEvent(journal.Message{Subject: subject.Event(ref, "s", subject.Open), Seq: 1, Time: time.Now(), Data: encode(wire.Opened{V: 1, Summary: sum, RequestSeq: 1, Decided: true})})
	require.Zero(t, p.Len())
	open, _ := p.ListOpen(api.List{Limit: 10})
	require.Empty(t, open)
	require.Contains(t, told, hitl.EventInteractionRequest)
	require.Nil(t, ledger.Check(quota.Owner{Tenant: "t", Name: "o"}, 1), "it takes no place of what may be open")
	ack(2, hitl.Applied, "d1")
	ack(3, hitl.Refused, "another")
	p.ApplyEvent(journal.Message{Subject: subject.Event(ref, "s", subject.Closed), Seq: 2, Time: time.Now(), Data: encode(wire.Ended{V: 1, Closed: wire.Closed{
		Summary: sum, State: wire.StateClosed, Outcome: hitl.Allowed, Decision: &hitl.Decision{V: 1, DecisionID: "d1", Content: hitl.Content{Outcome: hitl.Allowed}},
	}})})
	list, _ := p.ListClosed(api.List{Limit: 10})
	require.Len(t, list, 1)
	var stages []string
	for _, a := range list[0].Trail {
		stages = append(stages, a.Stage)
	}
	require.Equal(t, []string{hitl.Delivered, hitl.Applied}, stages)
	require.Contains(t, told, hitl.EventInteractionResponse)
}
