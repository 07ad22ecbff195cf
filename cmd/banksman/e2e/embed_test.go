package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const (
	webDir      = "../../../services/gateway/web"
	examplesDir = "../../../docs/examples/embed"
)

// inside is a JavaScript expression for a part of an embedded element.
func inside(element, sel string) string {
	return fmt.Sprintf(`document.querySelector(%q)?.shadowRoot?.querySelector(%q)`, element, sel)
}

// press presses a button inside of an element once it can be pressed.
func (p *page) press(element, sel string) {
	p.t.Helper()
	p.holds(fmt.Sprintf(`(() => { const b = %s; if (!b || b.disabled) return false; b.click(); return true; })()`, inside(element, sel)))
}

// evaluateAsync waits for what a promise brings.
func evaluateAsync[T any](p *page, js string) T {
	p.t.Helper()
	return get(p, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
}

// npm runs a script of the web workspace.
func npm(t *testing.T, env string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npm", append([]string{"run", "--silent"}, args...)...)
	cmd.Dir = webDir
	cmd.Env = append(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// The three example pages, each of another origin than the gateway's: what
// waits is drawn in the style of the cards, a decision counts and is told to
// the page, and the page's own style stays as it was.
func TestElementsInPagesOfTheirOwn_D0_30(t *testing.T) {
	t.Parallel()
	built := filepath.Join(t.TempDir(), "examples")
	npm(t, "EXAMPLES_OUT="+built, "examples")
	html, err := os.ReadFile(filepath.Join(examplesDir, "html", "index.html"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(built, "html"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(built, "html", "index.html"), html, 0o600))
	site := httptest.NewServer(http.FileServer(http.Dir(built)))
	t.Cleanup(site.Close)

	h := newHome(t)
	in, _, token := h.upWithLogin("--origin", site.URL)
	b := newBrowser(t)
	open := func(t *testing.T, site, example string) *page {
		at := url.Values{"gateway": {in.url}, "token": {token}}
		p := b.open(site + "/" + example + "/#" + at.Encode())
		p.t = t
		return p
	}
	for _, c := range []struct{ example, element, title string }{
		{"html", "banksman-inbox", "Deploy from a plain page"},
		{"react", "banksman-inbox", "Deploy from React"},
		{"vue", "banksman-interaction", "Deploy from Vue"},
	} {
		t.Run(c.example, func(t *testing.T) {
			asker := h.ask("--tool", "Bash", "--input", `{"command":"make deploy"}`, "--title", c.title)
			h.waiting(1)
			p := open(t, site.URL, c.example)
			p.reads("#count", "1")
			require.NotContains(t, evaluate[string](p, `location.href`), token)
			if c.example == "vue" {
				p.click("main li button")
			}
			approve := inside(c.element, testID("approve"))
			p.holds(`!!` + approve)
			require.Contains(t, evaluate[string](p, inside(c.element, "article[data-card]")+`.innerText`), "make deploy")
			style := evaluate[map[string]string](p, `(() => {
				const a = getComputedStyle(`+approve+`), d = getComputedStyle(`+inside(c.element, testID("deny"))+`);
				return { approve: a.backgroundColor, border: d.borderTopStyle, shadow: getComputedStyle(`+inside(c.element, "article[data-card]")+`).boxShadow,
					h1: getComputedStyle(document.querySelector('h1')).fontWeight, own: String(document.adoptedStyleSheets.length) };
			})()`)
			require.Equal(t, "rgb(51, 71, 192)", style["approve"])
			require.Equal(t, "solid", style["border"], "custom properties with a type work inside of the element")
			require.NotEqual(t, "none", style["shadow"])
			require.Equal(t, "700", style["h1"], "the page keeps its own style")
			require.Equal(t, "0", style["own"])

			p.press(c.element, testID("approve"))
			require.Zero(t, asker.wait(), asker.output())
			p.reads("#last", "Last: allowed")
			p.reads("#count", "0")
			p.holds(fmt.Sprintf(`(%s?.shadowRoot?.textContent ?? '').includes('Approved once by you')`, "document.querySelector('"+c.element+"')"))
			p.shot("embed " + c.example)
		})
	}

	t.Run("a site that is not allowed gets nothing", func(t *testing.T) {
		other := httptest.NewServer(http.FileServer(http.Dir(built)))
		t.Cleanup(other.Close)
		h.ask("--tool", "Bash", "--input", `{"command":"make deploy"}`)
		h.waiting(1)
		p := open(t, other.URL, "vue")
		p.see("main")
		require.True(t, evaluate[bool](p, `customElements.get('banksman-inbox') === undefined`))
		refused := func(what string) bool {
			return evaluateAsync[bool](p, `fetch(`+quote(in.url+what)+`, {headers: {Authorization: 'Bearer `+token+`'}}).then(() => false, () => true)`)
		}
		for _, path := range []string{"/elements.js", "/api/interactions", "/api/events"} {
			require.True(t, refused(path), path)
		}
		require.Equal(t, "0", p.text("#count"))
		require.Len(t, h.pending(), 1)
	})
}

// A box of the page that cuts the end of the text off keeps Approve locked.
func TestElementInABoxLocksApproveUntilAllWasSeen_B54(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<!doctype html><div id="box" style="height: 220px; overflow: hidden"><banksman-inbox></banksman-inbox></div>
<script type="module">
const at = new URLSearchParams(location.hash.slice(1));
const inbox = document.querySelector("banksman-inbox");
inbox.setAttribute("src", at.get("gateway"));
inbox.token = at.get("token");
await import(at.get("gateway") + "/elements.js");
</script>`))
	}))
	t.Cleanup(site.Close)
	in, _, token := h.upWithLogin("--origin", site.URL)
	text := ""
	for i := range 40 {
		text += fmt.Sprintf("echo line %d\n", i)
	}
	fields := `{"kind":"approval","title":"Long","tool":{"name":"Bash","input":{"command":` + quote(text+"rm -rf /srv") + `}}}`
	h.askJSON(fields)
	h.waiting(1)
	p := newBrowser(t).open(site.URL + "/#" + url.Values{"gateway": {in.url}, "token": {token}}.Encode())
	approve := inside("banksman-inbox", testID("approve"))
	p.holds(`!!` + approve)
	// Once an observer of our own was told, the card's was, and two frames later it is drawn.
	require.True(t, evaluateAsync[bool](p, `new Promise((done) => new IntersectionObserver(() =>
		requestAnimationFrame(() => requestAnimationFrame(() => done(`+approve+`.disabled)))).observe(`+approve+`))`))
	p.holds(`(() => { document.querySelector('#box').style.height = 'auto'; ` + inside("banksman-inbox", `[data-testid="deny"]`) + `.scrollIntoView({block: 'end'}); return !` + approve + `.disabled; })()`)
}
