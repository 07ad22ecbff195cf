package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A short run with the real CLI on both sides: every tool ran after its answer,
// and nothing is left behind. It asserts no time but the order.
func TestToolsRunAfterTheirAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out strings.Builder
	require.NoError(t, command(t.Context(), []string{"--rounds", "1", "--n", "1", "--dir", dir}, &out))
	for _, name := range names {
		require.Regexp(t, `\| `+strings.NewReplacer("(", `\(`, ")", `\)`).Replace(name)+` \| \d+\.\d \|`, out.String(), "a time after the answer, not before")
	}
	require.Contains(t, out.String(), "More than the floor")
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--rounds", "0"}, {"--n", "x"}, {"word"}} {
		var out strings.Builder
		require.Error(t, command(t.Context(), args, &out), args)
		require.Empty(t, out.String())
	}
}
