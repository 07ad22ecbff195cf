package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page that stays open while everything is killed and started again: it says
// that it is cut off, lets nobody decide meanwhile, comes back by itself with
// the same card once, and its answer counts.
func TestPageComesBackAfterAKill_B18_B20_D1_29(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	in := h.up("--listen", listen)
	asker := h.ask("--tool", "Bash", "--input", `{"command":"make deploy"}`, "--title", "Deploy", "--timeout", "30m")
	h.ask("--tool", "Bash", "--input", `{"command":"make later"}`, "--title", "Later")
	h.waiting(2)
	p := newBrowser(t).open(in.login)
	id, other := p.card("make deploy"), p.card("make later")
	p.click(within(other, "deny-reason"))
	p.fill(within(other, "deny-reason-text"), "half a thought")
	in.kill()
	p.holds(`document.querySelector('` + within(id, "approve") + `').disabled`)
	p.holds(`!document.querySelector('` + testID("conn-status") + `').innerText.includes('Connected')`)

	h.up("--listen", listen)
	p.holds(`!document.querySelector('` + within(id, "approve") + `').disabled`)
	require.Len(t, p.cards(), 2, "each card once")
	require.Regexp(t, `(29|30) min left`, p.text(testID("card-"+id)), "the deadline counts from the asking, not from the restart")
	require.Equal(t, "half a thought", evaluate[string](p, `document.querySelector('`+within(other, "deny-reason-text")+`').value`))
	p.click(within(id, "approve"))
	require.Zero(t, asker.wait(), asker.output())
	p.reads(testID("receipt-"+id), "Approved once by you")
}
