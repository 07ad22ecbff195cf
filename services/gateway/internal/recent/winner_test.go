package recent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

func TestWinnersAreBounded(t *testing.T) {
	t.Parallel()
	var l Winners
	ref := func(i int) subject.Ref { return subject.NewRef("default", "agents", fmt.Sprint("id", i)) }
	for i := range maxWinners + 1 {
		l.Add(ref(i), &journal.StoredDecision{Decision: &hitl.Decision{DecisionID: fmt.Sprint(i)}})
	}
	require.Len(t, l.byRef, maxWinners)
	require.Len(t, l.order, maxWinners)
	require.Nil(t, l.Get(ref(0)), "the oldest goes first")
	again := l.Add(ref(1), &journal.StoredDecision{Decision: &hitl.Decision{DecisionID: "another"}})
	require.Equal(t, "1", again.DecisionID, "the first counts")
	big := &hitl.Decision{RequestB64: strings.Repeat("x", maxWinnerBytes+1)}
	l.Add(ref(-1), &journal.StoredDecision{Decision: big})
	require.Equal(t, []subject.Ref{ref(-1)}, l.order, "however large, the newest stays")
	l.Add(ref(-2), &journal.StoredDecision{Decision: &hitl.Decision{}})
	require.Equal(t, []subject.Ref{ref(-2)}, l.order)
	require.Zero(t, l.bytes)
}

func TestEarlyAcksAreBounded(t *testing.T) {
	t.Parallel()
	var l Acks
	ref := func(i int) subject.Ref { return subject.NewRef("default", "agents", fmt.Sprint("id", i)) }
	for i := range maxEarly + 1 {
		l.Add(ref(i), hitl.Ack{})
	}
	require.Len(t, l.byRef, maxEarly)
	require.Len(t, l.order, maxEarly)
	require.Empty(t, l.Take(ref(0)), "the oldest goes first")
	for range 2 * maxEarlyEach {
		l.Add(ref(1), hitl.Ack{})
	}
	require.Len(t, l.Take(ref(1)), maxEarlyEach)
	require.Empty(t, l.Take(ref(1)))
	for i := range 2 * maxEarly {
		l.Add(ref(1), hitl.Ack{DecisionID: fmt.Sprint(i)})
		l.Take(ref(1))
	}
	require.LessOrEqual(t, len(l.order), maxEarly, "what was taken leaves no trace")
}
