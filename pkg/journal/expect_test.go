package journal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/journal"
)

// The stream takes one message per subject, and Decide expects the place to be
// empty. Each alone has to do: here it is the stream that lost its limit, while
// the gateways run.
func TestDecideExpectsAnEmptyPlace_invariant1(t *testing.T) {
	t.Parallel()
	_, nc := provisioned(t)
	js := streams(t, nc)
	s, err := js.Stream(t.Context(), journal.Decisions)
	require.NoError(t, err)
	cfg := s.CachedInfo().Config
	cfg.MaxMsgsPerSubject, cfg.DiscardNewPerSubject = -1, false
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)

	signer := newKey(t)
	one, two := journal.New(nc, journal.Options{Signer: signer}), journal.New(nc, journal.Options{Signer: signer})
	_, won, err := one.Decide(t.Context(), ref, decision("first"))
	require.NoError(t, err)
	require.True(t, won)
	winner, won, err := two.Decide(t.Context(), ref, decision("second"))
	require.NoError(t, err)
	require.False(t, won)
	require.Equal(t, "first", winner.DecisionID)
	pos, err := one.Position(t.Context(), journal.Decisions)
	require.NoError(t, err)
	require.EqualValues(t, 1, pos.Last)
}
