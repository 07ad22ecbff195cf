package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed file is what the structs give: the app cannot drift from the gateway.
func TestGeneratedFileIsCurrent(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile("../src/client/wire.gen.ts")
	require.NoError(t, err)
	require.Equal(t, string(generate()), string(committed))
}
