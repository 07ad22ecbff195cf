package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A thousand people, each with a session of its own, decide one interaction at
// the same moment: half by WebSocket, half by HTTP, some allow and some deny.
// One is accepted; the others are told the decision that the asker got: who,
// what and when. crowds checks that, and that the record has one decision.
func TestAThousandPeopleDecideAtOnce_B04_D1_18_invariant1_invariant6(t *testing.T) {
	for _, gateways := range crowdGateways {
		t.Run(fmt.Sprintf("%d gateways", gateways), func(t *testing.T) {
			got, err := crowds(t.Context(), t.TempDir(), gateways, 1000, 2)
			require.NoError(t, err)
			require.Len(t, got.settled, 2)
			t.Log("settled within", got.settled)
		})
	}
}
