package hitltest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// patience is how long the suite waits for what has to happen.
const patience = 30 * time.Second

// Env is one empty journal under test.
type Env struct {
	// Journal and Another stand for two gateways: two journals on the same
	// streams, with the same signing key and connections of their own. A
	// journal in memory is both.
	Journal, Another journal.Journal
	// Publish stores a message as an asker might, with any header.
	Publish func(t testing.TB, subj string, header map[string][]string, data []byte)
	// Interrupt breaks what may break, a connection or the server, and lets it
	// come back. Nil where there is nothing to break.
	Interrupt func(t testing.TB)
}

// JournalSuite is what every implementation of journal.Journal has to pass.
func JournalSuite(t *testing.T, newEnv func(testing.TB) Env) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Env)
	}{
		{"B-04 one of 100 concurrent deciders wins and 99 get the winner", decideOnce},
		{"B-50 a decision made by one gateway is read by another", decideElsewhere},
		{"B-06 the same decision again is won again", decideAgain},
		{"another owner's equal id is another interaction", decideEqualID},
		{"an unsigned decision is reported and never believed", decideForged},
		{"a decision moved to another interaction does not count", decideMoved},
		{"B-48 every decision settles once across interruptions", decideInterrupted},
		{"an ended context leaves the outcome unknown", decideEnded},
		{"a request is read and deleted", requests},
		{"an event is stored once", eventOnce},
		{"decisions and events are in the trace of who writes them", traced},
		{"gateway states and starts are stored", states},
		{"intake sees requests and withdrawals and its floor follows", intake},
		{"intake gives back what was not acknowledged", intakeNak},
		{"intake hands over to another gateway", intakeHandover},
		{"intake has a bounded number of workers", intakeWorkers},
		{"the sweeper sees signed decisions", sweep},
		{"hostile headers change neither metadata nor delivery", hostile},
		{"positions", positions},
		{"read is in order, filtered and ends at what is stored", read},
		{"last reads the newest of each subject", last},
		{"follow goes on with what comes, in order", follow},
		{"B-19 follow misses and doubles nothing across interruptions", followInterrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, newEnv(t))
		})
	}
}

func (e Env) interrupt(t testing.TB) {
	if e.Interrupt != nil {
		e.Interrupt(t)
	}
}

// both are the gateways.
func (e Env) both() []journal.Journal { return []journal.Journal{e.Journal, e.Another} }

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// SampleDecision makes a decision of id with what every decision has.
func SampleDecision(ref subject.Ref, decisionID string, outcome hitl.Outcome) *hitl.Decision {
	return &hitl.Decision{
		V: 1, DecisionID: decisionID, InteractionID: ref.ID, Digest: strings.Repeat("0", 64),
		Content:   hitl.Content{Outcome: outcome},
		Principal: hitl.Principal{Kind: "person", ID: "p-" + decisionID},
		Channel:   "web", DecidedAt: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC),
	}
}

// running starts f and returns what stops it and waits for its error.
func running(t testing.TB, f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // one error, never closed
	go func() { done <- f(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case err = <-done:
			case <-time.After(patience):
				err = fmt.Errorf("still running %v after its context ended", patience)
			}
		})
		return err
	}
	t.Cleanup(func() { require.ErrorIs(t, stop(), context.Canceled) })
	return stop
}

func next[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

func nothing[T any](t testing.TB, from <-chan T) {
	t.Helper()
	select {
	case v := <-from:
		require.FailNow(t, "one too many", "%v", v)
	default:
	}
}

func all(t testing.TB, j journal.Journal, stream string, filters ...string) []journal.Message {
	t.Helper()
	var got []journal.Message
	require.NoError(t, j.Read(limited(t), stream, 0, filters, func(m journal.Message) error {
		got = append(got, m)
		return nil
	}))
	return got
}

func decideOnce(t *testing.T, e Env) {
	const deciders = 100
	ref := subject.NewRef("t", "o", "contested")
	type result struct {
		winner *journal.StoredDecision
		won    bool
		err    error
	}
	results := make([]result, deciders)
	var wg sync.WaitGroup
	start := make(chan struct{}) // closed below, to start all at once
	for i := range deciders {
		wg.Go(func() {
			outcome := hitl.Allowed
			if i%2 == 1 {
				outcome = hitl.Denied
			}
			d := SampleDecision(ref, fmt.Sprintf("d%d", i), outcome)
			<-start
			r := &results[i]
			r.winner, r.won, r.err = e.both()[i%2].Decide(limited(t), ref, d)
		})
	}
	close(start)
	wg.Wait()
	var won []int
	for i, r := range results {
		require.NoError(t, r.err)
		if r.won {
			won = append(won, i)
		}
	}
	require.Len(t, won, 1, "exactly one decider wins")
	winner := results[won[0]].winner
	for _, r := range results {
		require.Equal(t, winner.DecisionID, r.winner.DecisionID)
		require.Equal(t, winner.Outcome, r.winner.Outcome)
		require.Equal(t, winner.Principal, r.winner.Principal)
		require.Equal(t, winner.Seq, r.winner.Seq)
	}
	require.Len(t, all(t, e.Journal, journal.Decisions), 1, "the record has one decision")
}

func decideElsewhere(t *testing.T, e Env) {
	ref := subject.NewRef("t", "o", "i")
	_, err := e.Another.Decision(limited(t), ref)
	require.ErrorIs(t, err, journal.ErrNotFound)
	d := SampleDecision(ref, "d", hitl.Allowed)
	d.UpdatedInput = []byte(`{"n":1.10}`)
	d.RequestB64 = "e30="
	stored, won, err := e.Journal.Decide(limited(t), ref, d)
	require.NoError(t, err)
	require.True(t, won)
	got, err := e.Another.Decision(limited(t), ref)
	require.NoError(t, err)
	require.Equal(t, stored.Seq, got.Seq)
	require.Equal(t, d, got.Decision)
	require.WithinDuration(t, time.Now(), got.Time, patience)
	require.WithinDuration(t, got.Time, stored.Time, 5*time.Second)

	late, won, err := e.Another.Decide(limited(t), ref, SampleDecision(ref, "late", hitl.Denied))
	require.NoError(t, err)
	require.False(t, won)
	require.Equal(t, got, late, "a loser gets the whole winner")
}

func decideAgain(t *testing.T, e Env) {
	ref := subject.NewRef("t", "o", "i")
	d := SampleDecision(ref, "d", hitl.Denied)
	first, won, err := e.Journal.Decide(limited(t), ref, d)
	require.NoError(t, err)
	require.True(t, won)
	again, won, err := e.Another.Decide(limited(t), ref, d)
	require.NoError(t, err)
	require.True(t, won, "a repeated call finds out that it had won")
	require.Equal(t, first.Seq, again.Seq)
	require.Len(t, all(t, e.Journal, journal.Decisions), 1)
}

func decideEqualID(t *testing.T, e Env) {
	for _, ref := range []subject.Ref{
		subject.NewRef("t", "o", "same"), subject.NewRef("t", "other", "same"), subject.NewRef("u", "o", "same"),
	} {
		got, won, err := e.Journal.Decide(limited(t), ref, SampleDecision(ref, ref.String(), hitl.Denied))
		require.NoError(t, err)
		require.True(t, won)
		require.Equal(t, ref.String(), got.DecisionID)
	}
	require.Len(t, all(t, e.Journal, journal.Decisions), 3)
}

func decideForged(t *testing.T, e Env) {
	for name, header := range map[string]map[string][]string{
		"bare":     nil,
		"invented": {hitl.HeaderSigner: {"0123456789abcdef"}, hitl.HeaderSignature: {"AAAA"}},
	} {
		ref := subject.NewRef("t", "o", name)
		forged, err := hitl.Marshal(SampleDecision(ref, "forged", hitl.Allowed))
		require.NoError(t, err)
		e.Publish(t, subject.Decision(ref), header, forged)
		_, err = e.Journal.Decision(limited(t), ref)
		require.ErrorIs(t, err, journal.ErrUnsigned)
		_, won, err := e.Journal.Decide(limited(t), ref, SampleDecision(ref, "right", hitl.Denied))
		require.ErrorIs(t, err, journal.ErrUnsigned)
		require.False(t, won)
	}
}

func decideMoved(t *testing.T, e Env) {
	from, to := subject.NewRef("t", "o", "harmless"), subject.NewRef("t", "o", "dangerous")
	_, _, err := e.Journal.Decide(limited(t), from, SampleDecision(from, "d", hitl.Allowed))
	require.NoError(t, err)
	m := all(t, e.Journal, journal.Decisions)[0]
	e.Publish(t, subject.Decision(to), m.Header, m.Data)
	_, err = e.Journal.Decision(limited(t), to)
	require.ErrorIs(t, err, journal.ErrUnsigned)
}

// decideInterrupted lets two gateways fight over many interactions while the
// bus breaks underneath: whatever they are told must be what is stored.
func decideInterrupted(t *testing.T, e Env) {
	const interactions = 60
	type told struct {
		winner string
		won    bool
	}
	results := make([][2]told, interactions)
	begun := make(chan struct{}, 2*interactions) // never closed
	var wg sync.WaitGroup
	for g, j := range e.both() {
		wg.Go(func() {
			for i := range interactions {
				ref := subject.NewRef("t", "o", fmt.Sprintf("i%d", i))
				begun <- struct{}{}
				w, won, err := j.Decide(limited(t), ref, SampleDecision(ref, fmt.Sprintf("g%d-%d", g, i), hitl.Allowed))
				if err != nil {
					t.Errorf("gateway %d, interaction %d: %v", g, i, err)
					return
				}
				results[i][g] = told{w.DecisionID, won}
			}
		})
	}
	for range 2 {
		for range interactions / 3 {
			next(t, begun)
		}
		e.interrupt(t)
	}
	wg.Wait()
	for i, r := range results {
		require.Equal(t, r[0].winner, r[1].winner, "interaction %d", i)
		require.NotEqual(t, r[0].won, r[1].won, "interaction %d: one winner", i)
	}
	require.Len(t, all(t, e.Journal, journal.Decisions), interactions)
}

func decideEnded(t *testing.T, e Env) {
	ref := subject.NewRef("t", "o", "i")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, won, err := e.Journal.Decide(ctx, ref, SampleDecision(ref, "d", hitl.Allowed))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, journal.ErrUnknown)
	require.False(t, won)
}
