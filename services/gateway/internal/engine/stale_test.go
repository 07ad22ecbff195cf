package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/quota"
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
			shown, _ := second.view.ListOpen(api.List{Limit: 1})
			require.Empty(t, shown)
		})
	}
}

// slow is behind until somebody asks where the events end.
type slow struct {
	behind
	asked func()
}

func (s slow) Position(ctx context.Context, stream string) (journal.Position, error) {
	at, err := s.behind.Position(ctx, stream)
	if stream == journal.Events {
		s.asked()
	}
	return at, err
}

// A list has what any gateway had written of when it was called: a service that was told
// of an end does not find it open at a gateway that is behind.
func TestAListIsNotOlderThanItsCall_B48_invariant8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, _ := w.gateway()
	letGo := make(chan struct{})
	let := sync.OnceFunc(func() { close(letGo) })
	var loaded atomic.Bool
	second, _ := w.gateway(func(o *Options) {
		o.Journal = slow{behind{o.Journal, letGo}, func() {
			if loaded.Load() {
				let()
			}
		}}
	})
	loaded.Store(true)
	defer let() // else it cannot stop
	r := request("k")
	raw := w.ask(w.connect(), r)
	pending(t, first, r.ID)
	require.Eventually(t, func() bool { _, ok := second.view.Waiting(r.ID); return ok }, patience, time.Millisecond)
	require.Equal(t, hitl.Accepted, first.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	require.Eventually(t, func() bool {
		told, _ := first.view.ListClosed(api.List{Limit: 1})
		return len(told) == 1
	}, patience, time.Millisecond)
	list, err := second.Interactions(t.Context(), wire.StatePending, 0)
	require.NoError(t, err)
	require.Empty(t, list)
	list, err = second.Interactions(t.Context(), wire.StateClosed, 0)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

// untold is a journal through which no end is told until it is let go.
type untold struct {
	journal.Journal
	takesNone bool // it takes no requests either
	letGo     <-chan struct{}
	stored    func() // after a decision, before its gateway knows
}

func (u untold) Intake(ctx context.Context, workers int, fn func(context.Context, journal.Delivery)) error {
	if u.takesNone {
		<-ctx.Done()
		return nil
	}
	return u.Journal.Intake(ctx, workers, fn)
}

func (u untold) Sweep(ctx context.Context, _ int, _ func(context.Context, journal.Delivery)) error {
	<-ctx.Done()
	return nil
}

func (u untold) WriteEvent(ctx context.Context, subj string, data []byte) (uint64, error) {
	if strings.HasSuffix(subj, "."+subject.Closed) {
		select {
		case <-u.letGo:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return u.Journal.WriteEvent(ctx, subj, data)
}

func (u untold) Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*journal.StoredDecision, bool, error) {
	w, won, err := u.Journal.Decide(ctx, ref, d)
	if err == nil && u.stored != nil {
		u.stored()
	}
	return w, won, err
}

// An asker has its decision before any gateway has told the others, or knows of it
// itself: what it asks for next is not refused for what has ended, and no list has that.
func TestWhatIsDecidedCountsNoMore_invariant8(t *testing.T) {
	t.Parallel()
	one, err := hitl.Marshal(request("k1"))
	require.NoError(t, err)
	for name, limits := range map[string]quota.Limits{"of a number": {Open: 1}, "of bytes": {OpenBytes: int64(len(one)) * 3 / 2}, "of none, a list": {}} {
		listed := limits == quota.Limits{}
		for _, there := range []bool{true, false} {
			t.Run(fmt.Sprint("a quota ", name, ", decided by another gateway: ", there), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				nc := w.connect()
				letGo := make(chan struct{})
				defer close(letGo)
				first, second := request("k1"), request("k2")
				var here *Engine
				then := func() {
					if listed {
						list, err := here.Interactions(t.Context(), wire.StatePending, 0)
						require.NoError(t, err)
						require.Empty(t, list)
						return
					}
					w.ask(nc, second)
					require.Eventually(t, func() bool {
						if _, err := w.journal(nc).Decision(t.Context(), ref(second)); err == nil {
							return true
						}
						_, waits := here.view.Waiting(second.ID)
						return waits
					}, patience, time.Millisecond)
				}
				stored := sync.OnceFunc(then)
				if there {
					stored = nil
				}
				here, _ = w.gateway(within(limits), func(o *Options) { o.Journal = untold{o.Journal, false, letGo, stored} })
				by := here
				if there {
					by, _ = w.gateway(func(o *Options) { o.Journal = untold{o.Journal, true, letGo, nil} })
				}
				raw := w.ask(nc, first)
				for _, e := range []*Engine{here, by} {
					require.Eventually(t, func() bool { _, waits := e.view.Waiting(first.ID); return waits }, patience, time.Millisecond)
				}
				require.Equal(t, hitl.Accepted, by.Decide(t.Context(), answer(first, raw, "ada", allow)).Status)
				if there {
					then()
				}
				if listed {
					return
				}
				_, err := w.journal(nc).Decision(t.Context(), ref(second))
				require.ErrorIs(t, err, journal.ErrNotFound, "it was refused")
				pending(t, here, second.ID)
			})
		}
	}
}

// Where it cannot be known what there is, no list says that it was all.
func TestAListThatCannotBeWholeIsRefused_invariant4(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var lost atomic.Bool
	e, _ := w.gateway(func(o *Options) { o.Journal = deaf{o.Journal, &lost} })
	list, err := e.Interactions(t.Context(), wire.StatePending, 0)
	require.NoError(t, err)
	require.Empty(t, list)
	lost.Store(true)
	_, err = e.Interactions(t.Context(), wire.StatePending, 0)
	require.ErrorIs(t, err, nats.ErrTimeout)
}

// deaf is a journal whose server does not say where a stream ends, once it is lost.
type deaf struct {
	journal.Journal
	lost *atomic.Bool
}

func (d deaf) Position(ctx context.Context, stream string) (journal.Position, error) {
	if d.lost.Load() {
		return journal.Position{}, nats.ErrTimeout
	}
	return d.Journal.Position(ctx, stream)
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
