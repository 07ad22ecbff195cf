package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// From the asker through the page's DOM and its edit field back to the asker,
// no digit changes, though JavaScript could not hold these numbers.
func TestNumbersSurviveTheBrowser_C03_invariant5(t *testing.T) {
	t.Parallel()
	const input = `{"a":9007199254740993,"b":1e400,"c":-0,"d":0.1000,"e":9007199254740992,"f":1E5,"g":[1.0,1],"h":123456789012345678901234567890}`
	h := newHome(t)
	in := h.up()
	p := newBrowser(t).open(in.login)
	p.see(testID("inbox"))

	plain := h.ask("--tool", "transfer", "--input", input, "--title", "Transfer")
	id := p.card("transfer")
	text := p.text(testID("card-" + id))
	for _, n := range []string{`"a": 9007199254740993`, `"b": 1e400`, `"c": -0`, `"d": 0.1000`, `"e": 9007199254740992`, `"f": 1E5`, `1.0`, `"h": 123456789012345678901234567890`} {
		require.Contains(t, text, n)
	}
	p.approve(id)
	require.Zero(t, plain.wait())
	require.NotContains(t, plain.output(), "updated_input", "nothing was rewritten")
	p.gone(within(id, "approve"))

	edited := h.ask("--tool", "transfer", "--input", input, "--title", "Transfer again")
	id = p.card("Transfer again")
	p.click(within(id, "edit"))
	field := within(id, "edit-text")
	p.see(field)
	require.Equal(t, input, evaluate[string](p, `document.querySelector(`+quote(field)+`).value`), "the field begins with the very text")
	want := strings.Replace(input, "9007199254740993", "9007199254740995", 1)
	p.replace(field, want)
	p.click(within(id, "edit-approve"))
	require.Zero(t, edited.wait())
	var d hitl.Decision
	for _, line := range strings.Split(edited.output(), "\n") {
		if strings.HasPrefix(line, "{") {
			require.NoError(t, json.Unmarshal([]byte(line), &d))
		}
	}
	require.Equal(t, hitl.Allowed, d.Outcome)
	require.Equal(t, want, string(d.UpdatedInput))
	in.interrupt()
}
