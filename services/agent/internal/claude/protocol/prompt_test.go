package protocol

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPromptBlocksAreChecked(t *testing.T) {
	t.Parallel()
	for _, blocks := range [][]PromptBlock{
		nil,
		{TextBlock(" ")},
		{TextBlock("\xff")},
		{ImageBlock("image/bmp", []byte("x"))},
		{ImageBlock("image/png", nil)},
		{DocumentBlock("text/html", "", []byte("x"))},
		{DocumentBlock("application/pdf", "", nil)},
		{{}},
	} {
		_, err := PromptLine(blocks)
		var bad *InputError
		require.ErrorAs(t, err, &bad)
		require.Contains(t, bad.Field, "blocks")
	}
	line, err := PromptLine([]PromptBlock{TextBlock("a\u2028b"), TextBlock("second")})
	require.NoError(t, err)
	require.False(t, bytes.ContainsAny(line, "\n\u2028"))
	require.Less(t, bytes.Index(line, []byte(`a\u2028b`)), bytes.Index(line, []byte("second")))
}
