package protocol

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPromptBlocksAreChecked_D1_42(t *testing.T) {
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

func TestPromptPaths_D1_42_D1_46(t *testing.T) {
	t.Parallel()
	text, image, doc := TextBlock("look"), ImageBlock("image/png", []byte("x")), DocumentBlock("application/pdf", "a.pdf", []byte("%PDF"))
	for name, c := range map[string]struct {
		in   []PromptBlock
		want []string
	}{
		"text":             {[]PromptBlock{text}, []string{"text"}},
		"image":            {[]PromptBlock{image}, []string{"image"}},
		"document":         {[]PromptBlock{doc}, []string{"document"}},
		"image and text":   {[]PromptBlock{text, image}, []string{"image", "text"}},
		"all, in any turn": {[]PromptBlock{text, doc, image}, []string{"image", "document", "text"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, err := PromptLine(c.in)
			require.NoError(t, err)
			var msg struct {
				Message struct {
					Content []struct{ Type string }
				}
			}
			require.NoError(t, json.Unmarshal(line, &msg))
			var got []string
			for _, b := range msg.Message.Content {
				got = append(got, b.Type)
			}
			require.Equal(t, c.want, got)
		})
	}
}
