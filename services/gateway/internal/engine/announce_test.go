package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/policy"
	"github.com/banksman/banksman/services/gateway/internal/record"
)

// leftBy stores a decision on m as a gateway does that ends right after.
func leftBy(t *testing.T, j journal.Journal, r *hitl.Request, m journal.Message) {
	t.Helper()
	req, a, err := record.Examine(&policy.Policy{}, ref(r), m)
	require.NoError(t, err)
	target := record.Target{Admission: a, Raw: m.Data, Digest: hitl.Digest(m.Data), Request: req}
	_, won, err := j.Decide(t.Context(), ref(r), target.Decision(hitl.Content{Outcome: hitl.Allowed}, person("ada"), "web", "session", m.Time))
	require.NoError(t, err)
	require.True(t, won)
}

// A sweeper that has read a decision which a dead gateway left does not show the
// interaction as open until it gets to store its end.
func TestASweeperHidesWhatItKnowsToBeDecided_invariant8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	free := make(chan struct{})
	e, _ := w.gateway(func(o *Options) { o.Journal = heldEnds{o.Journal, free} })
	nc := w.connect()
	r := request("k1")
	w.ask(nc, r)
	pending(t, e, r.ID)
	m, err := w.journal(nc).Request(t.Context(), ref(r))
	require.NoError(t, err)
	leftBy(t, w.journal(nc), r, *m)
	pending(t, e)
	require.Equal(t, 1, e.view.Len(), "its closed event is not stored yet")
	close(free)
	require.Equal(t, hitl.Allowed, outcome(t, e, r).Outcome)
}

// Somebody with the rights to do so has put another request in the place of the
// one that a gateway shows, and that one was decided: its end tells of what was
// decided, not of what was shown here.
func TestAnEndTellsOfWhatWasDecided_invariant5(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nc := w.connect()
	j := w.journal(nc)
	shown := request("k1")
	other := request("k1", func(r *hitl.Request) { r.Title = "Run make clean" })
	raw := w.ask(nc, shown)
	e, _ := w.gateway()
	pending(t, e, shown.ID)
	m, err := j.Request(t.Context(), ref(shown))
	require.NoError(t, err)
	require.Equal(t, raw, m.Data)
	require.NoError(t, j.DeleteRequest(t.Context(), m.Seq))
	w.ask(nc, other)
	m, err = j.Request(t.Context(), ref(other))
	require.NoError(t, err)
	leftBy(t, j, other, *m)
	pending(t, e)
	var rows []wire.Interaction
	require.Eventually(t, func() bool {
		rows, err = e.Interactions(t.Context(), wire.StateClosed, 0)
		return err == nil && len(rows) == 1
	}, patience, time.Millisecond)
	require.Equal(t, other.Title, rows[0].Title)
	require.Equal(t, hitl.Digest(m.Data), rows[0].Digest)
}

// The events of what was decided long ago are gone, its record is not: asked again it is
// no news, neither to pages nor to notifiers.
func TestWhatWasDecidedLongAgoIsNotToldAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", deny)).Status)
	j := w.journal(nc)
	w.swept(1)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	events, err := js.Stream(t.Context(), journal.Events)
	require.NoError(t, err)
	require.NoError(t, events.Purge(t.Context())) // as their age does
	before, err := j.Position(t.Context(), journal.Events)
	require.NoError(t, err)
	w.ask(nc, r)
	require.Eventually(t, func() bool {
		_, err := j.Request(t.Context(), ref(r))
		return errors.Is(err, journal.ErrNotFound)
	}, patience, time.Millisecond)
	after, err := j.Position(t.Context(), journal.Events)
	require.NoError(t, err)
	require.Equal(t, before.Last, after.Last)
}
