package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// The demo shows every kind of card without a model or a key, and ends.
func TestDemoShowsEveryKindOfCard_D0_05(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in := h.up("--demo")
	p := newBrowser(t).open(in.login)
	p.see(testID("inbox"))
	kinds := map[string]int{}
	// Each round decides the first card that can be decided.
	const next = `(() => {
		const c = [...document.querySelectorAll('article[data-testid^="card-"]')].find(c => c.dataset.state === 'pending');
		return c ? c.dataset.kind + ' ' + c.dataset.testid.slice(5) : '';
	})()`
	over := `document.querySelector('[data-testid^="session-"]') && !document.querySelector('[data-testid^="session-"][data-waiting="true"]') && document.querySelectorAll('article[data-state="pending"]').length === 0`
	shot := map[string]bool{}
	for range 40 {
		p.holds(next + ` !== '' || document.body.innerText.includes('ready for you')`)
		got := evaluate[string](p, next)
		if got == "" {
			break
		}
		kind, id, _ := strings.Cut(got, " ")
		if !shot[kind] {
			p.shot("demo " + kind)
			shot[kind] = true
		}
		kinds[kind]++
		switch kind {
		case hitl.KindApproval:
			p.approve(id)
		case hitl.KindQuestion:
			p.answerAll(id)
		case hitl.KindForm:
			p.fillForm(id)
		default:
			t.Fatalf("a card of the kind %q", kind)
		}
		p.holds(fmt.Sprintf(`(() => { const c = document.querySelector(%q); return !c || c.dataset.state !== 'pending'; })()`, testID("card-"+id)))
	}
	p.holds(over)
	require.GreaterOrEqual(t, kinds[hitl.KindApproval], 4)
	require.GreaterOrEqual(t, kinds[hitl.KindQuestion], 1)
	require.GreaterOrEqual(t, kinds[hitl.KindForm], 1)
	require.Empty(t, h.pending())
	p.shot("demo inbox after")
}

// How long a session's requests wait is the person's choice.
func TestUpGivesPeopleTheirTime(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.up("--demo", "--ask-timeout", "2h")
	ix := h.waiting(1)[0]
	require.NotNil(t, ix.ExpiresAt)
	require.Equal(t, 2*time.Hour, ix.ExpiresAt.Sub(ix.CreatedAt))
	r := newHome(t).run("up", "--listen", "127.0.0.1:0", "--ask-timeout", "-1m")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "--ask-timeout: -1m0s is less than 0")
}
