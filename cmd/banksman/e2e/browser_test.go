package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// browser is one running Chromium with a profile of its own.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// page is one tab.
type page struct {
	t   *testing.T
	ctx context.Context
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	require.NoError(t, err, "Chromium is missing: run make setup")
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.WindowSize(1280, 900),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(patience),
	)
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancelCtx := chromedp.NewContext(alloc)
	t.Cleanup(cancelCtx)
	require.NoError(t, chromedp.Do(ctx))
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) })
	return &browser{t, ctx}
}

// open opens a tab of the same profile.
func (b *browser) open(url string) *page {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	p := &page{b.t, ctx}
	// A context's first action opens the tab, which lives as long as it: no
	// time limit there.
	require.NoError(b.t, chromedp.Do(ctx))
	p.run(chromedp.Navigate(url))
	return p
}

func (p *page) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("browser: %v\npage: %s", err, p.dump())
	}
}

func (p *page) dump() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ''`))
	if err != nil {
		return err.Error()
	}
	return text
}

// testID selects by data-testid.
func testID(id string) string { return fmt.Sprintf(`[data-testid=%q]`, id) }

// within selects a part of a card.
func within(card, id string) string { return testID("card-"+card) + " " + testID(id) }

func (p *page) see(sel string) {
	p.t.Helper()
	p.run(chromedp.WaitVisible(chromedp.CSS(sel)))
}

func (p *page) gone(sel string) {
	p.t.Helper()
	p.run(chromedp.WaitNotPresent(chromedp.CSS(sel)))
}

func (p *page) click(sel string) {
	p.t.Helper()
	p.run(
		chromedp.WaitVisible(chromedp.CSS(sel)),
		chromedp.WaitEnabled(chromedp.CSS(sel)),
		chromedp.ScrollIntoView(chromedp.CSS(sel)),
	)
	// What has just come takes no press for a moment.
	p.holds(fmt.Sprintf(`getComputedStyle(document.querySelector(%q) ?? document.body).pointerEvents !== "none"`, sel))
	p.run(
		chromedp.Click(chromedp.CSS(sel)),
	)
}

func (p *page) fill(sel, text string) {
	p.t.Helper()
	p.run(
		chromedp.WaitVisible(chromedp.CSS(sel)),
		chromedp.Focus(chromedp.CSS(sel)),
		chromedp.SendKeys(chromedp.CSS(sel), text),
	)
}

func (p *page) choose(sel, value string) {
	p.t.Helper()
	p.run(chromedp.WaitVisible(chromedp.CSS(sel)), chromedp.SetValue(chromedp.CSS(sel), value))
}

func (p *page) text(sel string) string {
	p.t.Helper()
	p.see(sel)
	return get(p, chromedp.Text(chromedp.CSS(sel)))
}

// reads waits until the element's text contains want.
func (p *page) reads(sel, want string) {
	p.t.Helper()
	p.holds(fmt.Sprintf(`(() => { const e = document.querySelector(%q); return !!e && e.innerText.includes(%q); })()`, sel, want))
}

// holds waits until a JavaScript condition is true.
func (p *page) holds(js string) {
	p.t.Helper()
	get(p, chromedp.Poll[bool](js, chromedp.WithPollingTimeout(patience)))
}

// get runs one action that has a value.
func get[T any](p *page, a chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		p.t.Fatalf("browser: %v\npage: %s", err, p.dump())
	}
	return v
}

// cards returns the request ids of the cards on the page, in order.
func (p *page) cards() []string {
	p.t.Helper()
	return get(p, chromedp.Evaluate[[]string](`[...document.querySelectorAll('article[data-testid^="card-"]')].map(e => e.dataset.testid.slice(5))`))
}

// card waits for a card whose text contains want and returns its id.
func (p *page) card(want string) string {
	p.t.Helper()
	js := fmt.Sprintf(`(() => { const e = [...document.querySelectorAll('article[data-testid^="card-"]')].find(e => e.innerText.includes(%q)); return e ? e.dataset.testid.slice(5) : ''; })()`, want)
	p.holds("!!" + js)
	return get(p, chromedp.Evaluate[string](js))
}

func (p *page) phone() {
	p.t.Helper()
	p.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch))
}

func (p *page) dark() {
	p.t.Helper()
	p.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
		})
		return err
	}))
}

// shot writes a screenshot where SHOTS names a folder.
func (p *page) shot(name string) {
	p.t.Helper()
	dir := os.Getenv("SHOTS")
	if dir == "" {
		return
	}
	png := get(p, chromedp.CaptureScreenshot())
	require.NoError(p.t, os.WriteFile(dir+"/"+strings.ReplaceAll(name, " ", "-")+".png", png, 0o644))
}

func (p *page) reload() {
	p.t.Helper()
	p.run(chromedp.Reload())
}

func evaluate[T any](p *page, js string) T {
	p.t.Helper()
	return get(p, chromedp.Evaluate[T](js))
}

// approve makes the whole text reachable first, as Approve demands.
func (p *page) approve(id string) {
	p.t.Helper()
	card := testID("card-" + id)
	p.holds(fmt.Sprintf(`(() => {
		const c = document.querySelector(%q);
		if (!c) return false;
		for (const d of c.querySelectorAll('details:not([open])')) d.open = true;
		for (const b of c.querySelectorAll('button[aria-expanded="false"]')) b.click();
		for (const e of c.querySelectorAll('*')) if (e.scrollHeight > e.clientHeight + 1) e.scrollTop = e.scrollHeight;
		const a = c.querySelector('[data-testid="approve"]');
		if (!a || a.disabled || a.getAttribute('aria-disabled') === 'true') return false;
		a.click(); // not by its place on the screen: cards above may be folding
		return true;
	})()`, card))
}

// answerAll chooses the first option of each question.
func (p *page) answerAll(id string) {
	p.t.Helper()
	n := evaluate[int](p, fmt.Sprintf(`document.querySelectorAll(%q).length`, testID("card-"+id)+` [data-testid$="-opt-0"]`))
	for i := range n {
		p.click(within(id, fmt.Sprintf("q-%d-opt-0", i)))
	}
	p.click(within(id, "submit"))
}

func (p *page) fillForm(id string) {
	p.t.Helper()
	p.click(within(id, "field-env-0"))
	p.fill(within(id, "field-replicas"), "2")
	p.click(within(id, "field-announce-0"))
	p.click(within(id, "submit"))
}
