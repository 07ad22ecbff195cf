package latest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

type caller struct{}

// slow says who begins to look, and lets nobody go on before it may.
type slow struct {
	journal.Journal
	begun chan any
	on    chan struct{}
}

func (s *slow) Position(ctx context.Context, stream string) (journal.Position, error) {
	if stream == journal.Decisions {
		s.begun <- ctx.Value(caller{})
		<-s.on
	}
	if ctx.Err() != nil {
		return journal.Position{}, ctx.Err()
	}
	return s.Journal.Position(ctx, stream)
}

// Who looks for others and goes away meanwhile does not leave them without an answer.
func TestALookIsNotThatOfWhoBeganIt(t *testing.T) {
	t.Parallel()
	j := &slow{hitltest.NewMemoryJournal(), make(chan any), make(chan struct{})}
	view := projection.New(projection.Options{Logger: slog.New(slog.DiscardHandler), Clock: time.Now, Recent: 10, Ledger: quota.New(quota.Limits{}, time.Now)})
	var d Desk
	waits := make(chan struct{}, 2)
	wait := func(ctx context.Context, done <-chan struct{}) error {
		waits <- struct{}{}
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ends := map[any]chan error{}
	leave := map[any]context.CancelFunc{}
	look := func(who string) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), caller{}, who))
		end := make(chan error, 1)
		ends[who], leave[who] = end, cancel
		go func() { end <- d.Look(ctx, j, view, wait) }()
	}
	look("first")
	require.Equal(t, "first", <-j.begun)
	look("ada")
	look("bob")
	<-waits // both came too late for that look, and share the next
	<-waits
	j.on <- struct{}{}
	require.NoError(t, <-ends["first"])
	leads := <-j.begun
	<-waits
	leave[leads]()
	j.on <- struct{}{}
	for _, who := range []string{"ada", "bob"} {
		err := <-ends[who]
		if who != leads {
			require.NoError(t, err)
		}
	}
	for _, cancel := range leave {
		cancel()
	}
}
