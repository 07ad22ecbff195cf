package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestInboxOfManyAndTheirHistory follows the link of an alert over a sign-in,
// decides many at once, and finds one of them again in the record.
func TestInboxOfManyAndTheirHistory(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in := h.up()
	var askers []*process
	for i := range 10 {
		tool, input := "Bash", fmt.Sprintf(`{"command":"ls part-%d"}`, i)
		if i == 7 {
			tool, input = "Read", `{"file_path":"/srv/notes.txt"}`
		}
		askers = append(askers, h.ask("--tool", tool, "--input", input, "--title", fmt.Sprintf("Part %d", i)))
	}
	list := h.waiting(10)
	byCommand := map[string]string{}
	for _, ix := range list {
		byCommand[ix.ToolInput] = ix.ID
		byCommand[ix.ToolName] = ix.ID
	}
	first := list[0]

	b := newBrowser(t)
	early := b.open(in.url + "/#/i/" + url.PathEscape(first.Key))
	early.see(testID("login-needed"))
	p := b.open(in.login)
	p.see(testID("card-" + first.ID))
	require.Contains(t, evaluate[string](p, `location.hash`), url.PathEscape(first.Key))

	p.run(chromedp.Navigate(in.url + "/#/"))
	p.holds(`document.querySelectorAll('article[data-row]').length === 10`)
	// What a row shows whole and of low risk it decides itself.
	alone := byCommand["Read"]
	p.run(chromedp.ScrollIntoView(chromedp.CSS(testID("row-" + alone)))) // what is far off is not fetched yet
	p.click(testID("row-" + alone + "-approve"))
	p.holds(fmt.Sprintf(`document.querySelector('%s').innerText.includes('Approved once by you')`, testID("row-"+alone)))
	require.Zero(t, askers[7].wait(), askers[7].output())
	for _, n := range []int{2, 3, 4} {
		p.click(testID("select-" + byCommand[fmt.Sprintf("ls part-%d", n)]))
	}
	p.click(testID("batch-open"))
	p.fill(testID("batch-reason"), "three are enough")
	p.click(testID("batch-deny"))
	p.reads(testID("batch"), "3 decided.")
	p.click(testID("batch-close"))
	for _, n := range []int{2, 3, 4} {
		require.Equal(t, 1, askers[n].wait(), askers[n].output())
		require.Contains(t, askers[n].output(), "three are enough")
	}
	h.waiting(6)

	p.run(chromedp.Navigate(in.url + "/#/history"))
	p.fill(testID("history-q"), `"part-3" enough`)
	p.click(testID("history-search"))
	p.see(testID("receipt-" + byCommand["ls part-3"]))
	p.holds(`document.querySelectorAll('[data-testid=history] [data-testid^="receipt-"]').length === 1`)
	p.reads(testID("history"), "That is all.")
}

// TestThePageOpensWithoutItsServer installs the page's own worker, takes the
// server away and loads the page again: it opens, says that it is cut off, and
// holds nothing that the server told.
func TestThePageOpensWithoutItsServer_B27(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	in := h.up("--listen", listen)
	h.ask("--tool", "Bash", "--input", `{"command":"ls SECRETCALL"}`, "--title", "Part", "--timeout", "30m")
	id := h.waiting(1)[0].ID
	p := newBrowser(t).open(in.login)
	p.see(testID("card-" + id))
	p.holds(`navigator.serviceWorker.controller !== null`)
	// Everything that the manifest names is there, as what it says.
	icons := evaluateAsync[[]string](p, `fetch('/manifest.webmanifest').then(r => r.json()).then(m => Promise.all(m.icons.map(i => fetch(i.src).then(r => r.status + ' ' + r.headers.get('Content-Type')))))`)
	require.Equal(t, []string{"200 image/png", "200 image/png", "200 image/png", "200 image/svg+xml"}, icons)
	kept := evaluateAsync[[]string](p, `caches.open('banksman-shell-1').then(c => c.keys().then(k => Promise.all(k.map(r => c.match(r).then(a => a.text()).then(t => new URL(r.url).pathname + (t.includes('SECRETCALL') ? ' SECRETCALL' : ''))))))`)
	require.Contains(t, kept, "/")
	for _, path := range kept {
		require.Regexp(t, `^/($|assets/[\w-]+\.(js|css)$|favicon[\w-]*\.svg$|icon-[\w-]+\.png$|manifest\.webmanifest$)`, path)
	}

	in.kill()
	p.reload()
	p.holds(`document.querySelector('` + testID("conn-status") + `')?.innerText.includes('Connection lost')`)
	require.Equal(t, 0, evaluate[int](p, `document.querySelectorAll('article').length`), "nothing that may be old")
	require.False(t, strings.Contains(p.text("body"), "Nothing waits"), "it does not know what waits")

	// Back again, it is the server's page.
	h.up("--listen", listen)
	p.see(testID("card-" + id))
	p.holds(`!document.querySelector('` + within(id, "deny") + `').disabled`)
	require.Equal(t, 0, evaluate[int](p, `document.querySelectorAll('[data-testid=newer]').length`))
}
