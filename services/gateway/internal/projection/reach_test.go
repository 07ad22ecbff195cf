package projection_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// Who brings a cursor that this gateway has not come to waits for exactly that.
func TestReachWaitsForThePositionAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := cursor.Position{EventsEpoch: 1, Events: 4, TranscriptsEpoch: 2, Transcripts: 7}
		p := projection.New(projection.Options{
			Logger: slog.New(slog.DiscardHandler), Clock: time.Now, Alarm: make(chan struct{}, 1), Ledger: quota.New(quota.Limits{}, time.Now),
		})
		p.Begin(at)
		ahead, elsewhere := at, at
		ahead.Events, ahead.Transcripts = 5, 9
		elsewhere.EventsEpoch = 3
		for _, now := range []string{"", "garbage", at.String(), elsewhere.String()} {
			p.Reach(t.Context(), now) // waits for nothing
		}
		done := make(chan struct{})
		go func() {
			p.Reach(t.Context(), ahead.String())
			close(done)
		}()
		reached := func() bool {
			synctest.Wait()
			select {
			case <-done:
				return true
			default:
				return false
			}
		}
		require.False(t, reached())
		p.ApplyEvent(journal.Message{Subject: "none of ours", Seq: 5})
		p.ApplyTranscript(journal.Message{Subject: "none of ours", Seq: 8})
		require.False(t, reached())
		p.ApplyTranscript(journal.Message{Subject: "none of ours", Seq: 9})
		require.True(t, reached())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ahead.Events = 100
		p.Reach(ctx, ahead.String())
		require.Error(t, ctx.Err(), "only the end of the wait ended it")
	})
}
