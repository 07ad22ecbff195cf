package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The dangerous end of a long command is on a phone's screen before anybody
// can approve, and nothing needs sideways scrolling.
func TestLongCommandOnAPhone_B54(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in := h.up()
	const end = "; rm -rf /srv/data #"
	command := "printf '%s' " + strings.Repeat("harmless ", 55) + end
	raw := `{"command":"` + command + `"}`
	p := newBrowser(t).open(in.login)
	p.see(testID("inbox"))
	p.phone()
	h.ask("--tool", "Bash", "--input", raw, "--title", "Print something")
	id := p.card("harmless")
	card := testID("card-" + id)
	require.Contains(t, p.text(card), end, "the whole command is there, not a cut of it")
	p.holds(`document.documentElement.scrollWidth <= document.documentElement.clientWidth`)
	for _, button := range []string{"approve", "deny"} {
		box := evaluate[[]float64](p, `(() => { const r = document.querySelector('`+within(id, button)+`').getBoundingClientRect(); return [r.width, r.height, r.left]; })()`)
		require.GreaterOrEqual(t, box[0], 44.0, button)
		require.GreaterOrEqual(t, box[1], 44.0, button)
	}
	p.shot("phone long command")
	bright := `(() => { const m = getComputedStyle(document.documentElement).backgroundColor.match(/[\d.]+/g); return m.slice(0, 3).reduce((a, b) => a + +b, 0); })()`
	locked := `(() => { const b = document.querySelector('` + within(id, "approve") + `'); return b.disabled || b.getAttribute('aria-disabled') === 'true'; })()`
	p.holds(locked) // the end was not on the screen yet
	p.holds(`(() => { document.querySelector('` + within(id, "deny-reason") + `').scrollIntoView({block: 'end'}); return !` + locked + `; })()`)
	light := evaluate[float64](p, bright)
	p.dark()
	require.NotEqual(t, light, evaluate[float64](p, bright), "the page follows the system into the dark")
	p.shot("phone dark")
}
