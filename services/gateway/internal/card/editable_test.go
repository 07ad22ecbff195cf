package card

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// What is edited is what the agent asked, and nothing of it is out of sight.
func TestEditable_B54_invariant5_IsTheSameValueInSight(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"plain":               `{"command":"ls","n":9007199254740993, "a":[1.0,1]}`,
		"blanks between":      "{\r\n\t\"a\": 1}",
		"zero width":          "{\"command\":\"echo a\u200bb\"}",
		"direction":           "{\"command\":\"\u202etxt\u2066\"}",
		"a tag, past 16 bits": "{\"command\":\"x\U000e0041y\"}",
		"brackets of a token": "{\"command\":\"⟦U+200B⟧\"}",
		"a name":              "{\"a\u00adb\":1}",
		"delete":              "{\"command\":\"a\u007fb\"}",
		"letters and emoji":   `{"command":"é 你好 😀 ❤️"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := editable(json.RawMessage(value))
			require.JSONEq(t, value, got)
			_, hidden := hitl.Visible(got)
			blank, _ := hitl.Visible("\r")
			if name == "blanks between" {
				require.NotEqual(t, "\r", blank)
				require.Equal(t, value, got)
				return
			}
			require.Zero(t, hidden, got)
		})
	}
}
