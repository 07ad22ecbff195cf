package told

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
)

// Whatever the gateways' words and lists say, in whatever order, an interaction begins
// once and ends once, and none ends that had not begun.
func FuzzTold(f *testing.F) {
	const open, closed = `{"key":"t.o.i","state":"pending"}`, `{"key":"t.o.i","state":"closed","outcome":"denied"}`
	for _, s := range []string{
		"", open, open + "\n" + open, open + "\n" + closed, closed + "\n" + open, open + "\n" + closed + "\n" + open + "\n" + closed, closed, "{}", "null\n[]",
		`{"key":"t.o.j","state":"pending"}` + "\n" + open + "\n" + closed, `{"key":"t.o.i","state":""}`, `{"key":"t.o.i","state":"pending","decision":{"v":1}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, words []byte) {
		began, ended := map[string]int{}, map[string]int{}
		told := New(func(ix wire.Interaction) {
			if ix.State == wire.StatePending {
				began[ix.Key]++
			} else {
				ended[ix.Key]++
			}
			require.LessOrEqual(t, began[ix.Key], 1, "it begins once")
			require.LessOrEqual(t, ended[ix.Key], began[ix.Key], "and ends once, after it has begun")
		})
		over := map[string]bool{}
		for line := range bytes.Lines(words) {
			var ix wire.Interaction
			if json.Unmarshal(line, &ix) != nil || ix.Key == "" {
				continue
			}
			told.Take(ix)
			over[ix.Key] = over[ix.Key] || ix.State != wire.StatePending
		}
		told.Old()
		for _, key := range told.Without(nil) {
			require.False(t, over[key], "what has ended does not wait")
			require.Equal(t, 1, began[key])
		}
		for key, n := range began {
			require.Equal(t, over[key], ended[key] == n, "every end is told")
		}
	})
}
