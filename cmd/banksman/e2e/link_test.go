package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// routed is a configuration by which the person of this machine decides by the link
// of a message to this receiver.
func (r *receiver) routed(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notify.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
channels:
  - {name: hook, type: webhook, url: %q, allow_private: true, secrets: [whsec_%s]}
recipients:
  - {name: me, user: owner, messages: 0, channels: [{channel: hook, decide: link}]}
routes:
  - {name: all, steps: [{after: 0s, to: [me]}]}
`, r.URL, base64.StdEncoding.EncodeToString(r.secret)), 0o600))
	return file
}

// link waits for the link of the nth message.
func (r *receiver) link(t *testing.T, n int) string {
	t.Helper()
	var ev struct{ Data struct{ Link string } }
	require.Eventually(t, func() bool {
		_, bodies := r.got()
		return len(bodies) >= n && json.Unmarshal([]byte(bodies[n-1]), &ev) == nil
	}, patience, 20*time.Millisecond)
	return ev.Data.Link
}

// pressAll does what a scanner of links can do: it ticks, chooses and presses
// whatever it finds, sends every form as it stands, and follows links.
const pressAll = `(() => {
	for (const e of document.querySelectorAll('input[type=radio], input[type=checkbox]')) e.click();
	for (const e of document.querySelectorAll('select')) e.selectedIndex = e.options.length - 1;
	for (const e of document.querySelectorAll('button, summary, [role=button], [onclick]')) e.click();
	const sent = [];
	for (const f of document.forms) {
		sent.push(fetch(f.action || location.href, { method: f.method, body: new URLSearchParams(new FormData(f)) }).then(r => r.status, () => 0));
		f.noValidate = true;
		try { f.requestSubmit(); } catch {}
	}
	return document.forms.length;
})()`

// A mail scanner with a whole browser loads the page, runs it and presses what can be
// pressed: nothing is decided. A person types a word, and it is.
func TestAScannerDecidesNothing_B62_B67(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	hook := newReceiver(t)
	h.upWithLogin("--notify", hook.routed(t))
	asker := h.ask("--tool", "Bash", "--input", `{"command":"make test"}`, "--title", "Test")
	id := h.waiting(1)[0].ID
	link := hook.link(t, 1)
	require.Contains(t, link, "/l/ticket_")
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		req, err := http.NewRequestWithContext(t.Context(), method, link, nil)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	require.Len(t, h.waiting(1), 1)

	p := newBrowser(t).open(link)
	p.reads("h1", "make test")
	p.shot("link page")
	require.Equal(t, 1, evaluate[int](p, pressAll))
	// Its own form was sent without the word, and the server says so.
	require.Contains(t, p.text(`[role=alert]`), "Nothing was decided")
	require.Equal(t, id, h.waiting(1)[0].ID)

	// What is on the page can be read and reached without JavaScript.
	p.run(chromedp.Navigate(link))
	require.Zero(t, evaluate[int](p, `document.scripts.length`))
	p.fill("#word", "Deny")
	p.fill("#message", "not now")
	p.click("#send")
	require.Regexp(t, `^Denied by .*link:hook`, p.text("#outcome"))
	p.shot("link page decided")
	require.Equal(t, 1, asker.wait())
	asker.line(`not now`)
	require.False(t, evaluate[bool](p, `!!document.querySelector('form')`))
	p.reload()
	require.Contains(t, p.text("#outcome"), "Denied by")
	// The end is told, too, with the usual link.
	require.Eventually(t, func() bool {
		types, bodies := hook.got()
		return len(types) == 2 && types[1] == "banksman.interaction.closed" && !strings.Contains(bodies[1], "ticket_")
	}, patience, 20*time.Millisecond)
	hook.mu.Lock()
	defer hook.mu.Unlock()
	require.Empty(t, hook.bad)
}
