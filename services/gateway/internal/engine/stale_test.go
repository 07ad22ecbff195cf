package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// behind is a journal whose reader hears of no end until it is let go.
type behind struct {
	journal.Journal
	letGo <-chan struct{}
}

func (b behind) Follow(ctx context.Context, stream string, from uint64, filters []string, fn func(journal.Message) error) error {
	return b.Journal.Follow(ctx, stream, from, filters, func(m journal.Message) error {
		if strings.HasSuffix(m.Subject, "."+subject.Closed) {
			select {
			case <-b.letGo:
			case <-ctx.Done():
			}
		}
		return fn(m)
	})
}

// A gateway that is behind reads the record for whoever asks it about one
// interaction, and does not show what it has told to be decided.
func TestAGatewayThatIsBehindTellsTheTruth_B50_invariant8(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(t *testing.T, second *Engine, r *hitl.Request, raw []byte){
		"invariant 8: one interaction": func(t *testing.T, second *Engine, r *hitl.Request, _ []byte) {
			ix, err := second.Interaction(t.Context(), ref(r).String())
			require.NoError(t, err)
			require.Equal(t, wire.StateClosed, ix.State)
			require.Equal(t, hitl.Allowed, ix.Outcome)
		},
		"B-50 a late answer": func(t *testing.T, second *Engine, r *hitl.Request, raw []byte) {
			rec := second.Decide(t.Context(), answer(r, raw, "bob", deny))
			require.Equal(t, hitl.AlreadyDecided, rec.Status)
			require.Equal(t, "ada", rec.Decision.Principal.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			// Each has its own: behind one end nothing later is seen either.
			w := newWorld(t)
			first, _ := w.gateway()
			letGo := make(chan struct{}) // closed at the end
			second, _ := w.gateway(func(o *Options) { o.Journal = behind{o.Journal, letGo} })
			defer close(letGo)
			r := request(name)
			raw := w.ask(w.connect(), r)
			pending(t, first, r.ID)
			pending(t, second, r.ID)
			require.Equal(t, hitl.Accepted, first.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
			look(t, second, r, raw)
			list, err := second.Interactions(t.Context(), wire.StatePending, 0)
			require.NoError(t, err)
			require.Empty(t, list)
		})
	}
}

// between is a journal in which something happens after the first look for a
// decision has found none.
type between struct {
	journal.Journal
	once *sync.Once
	then func()
}

func (b between) Decision(ctx context.Context, ref subject.Ref) (*journal.StoredDecision, error) {
	w, err := b.Journal.Decision(ctx, ref)
	if errors.Is(err, journal.ErrNotFound) {
		b.once.Do(b.then)
	}
	return w, err
}

// Between the look for the decision and the look for the request another
// gateway decides and sweeps: then neither look finds anything.
func TestDecidedAndSweptBetweenTwoLooksIsNotUnknown_invariant6(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nc := w.connect()
	j := w.journal(nc)
	other, _ := w.gateway()
	for name, look := range map[string]func(t *testing.T, e *Engine, r *hitl.Request, raw []byte){
		"invariant 6: an answer": func(t *testing.T, e *Engine, r *hitl.Request, raw []byte) {
			a := answer(r, raw, "bob", deny)
			a.RequestID = ref(r).String()
			rec := e.Decide(t.Context(), a)
			require.Equal(t, hitl.AlreadyDecided, rec.Status, rec.Error)
			require.Equal(t, "ada", rec.Decision.Principal.ID)
		},
		"invariant 6: a read": func(t *testing.T, e *Engine, r *hitl.Request, _ []byte) {
			ix, err := e.Interaction(t.Context(), ref(r).String())
			require.NoError(t, err)
			require.Equal(t, hitl.Allowed, ix.Outcome)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(name)
			raw := w.ask(nc, r)
			pending(t, other, r.ID)
			// It runs nothing: it knows only what it is asked.
			e := New(Options{Conn: nc, Logger: other.log, Journal: between{j, new(sync.Once), func() {
				require.Equal(t, hitl.Accepted, other.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
				require.Eventually(t, func() bool {
					_, err := j.Request(t.Context(), ref(r))
					return errors.Is(err, journal.ErrNotFound)
				}, patience, time.Millisecond)
			}}})
			look(t, e, r, raw)
		})
	}
}
