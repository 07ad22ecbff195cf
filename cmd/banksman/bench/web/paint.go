package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/chromedp/chromedp"
)

// watch notes when each card was painted: after the frame in which it was there.
const watch = `window.painted = {}; (() => {
	const seen = new Set();
	const look = () => {
		for (const e of document.querySelectorAll('article[data-testid^="card-"]')) {
			const id = e.dataset.testid.slice(5);
			if (seen.has(id)) continue;
			seen.add(id);
			requestAnimationFrame(() => {
				const c = new MessageChannel();
				c.port1.onmessage = () => { window.painted[id] = performance.timeOrigin + performance.now(); };
				c.port2.postMessage(0);
			});
		}
	};
	new MutationObserver(look).observe(document.documentElement, { childList: true, subtree: true });
	return true;
})()`

// waitLimit bounds what has to happen in one step.
const waitLimit = time.Minute

// paint is how many ms pass from an ask to its card on the screen of a real
// browser, n times.
func paint(ctx context.Context, dir string, n int) (took []float64, err error) {
	s, err := startSite(ctx, dir, perPerson)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp(dir, "chromium-")
	if err != nil {
		return nil, err
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.UserDataDir(profile),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
	)...)
	defer stopAlloc()
	tab, stopTab := chromedp.NewContext(alloc)
	defer stopTab()
	if err := chromedp.Do(tab); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, chromedp.Cancel(tab)) }()
	if err := chromedp.Do(tab, chromedp.Navigate(s.hello.Login), chromedp.WaitVisible(chromedp.CSS(`[data-testid="inbox"]`))); err != nil {
		return nil, err
	}
	if _, err := chromedp.Run(tab, chromedp.Evaluate[bool](watch)); err != nil {
		return nil, err
	}
	for i := range n + 5 { // the first five warm up
		a, err := s.ask(ctx, "painted", fmt.Sprintf("card-%d", i), false)
		if err != nil {
			return nil, err
		}
		at, err := chromedp.Run(tab, chromedp.Poll[float64](fmt.Sprintf(`window.painted[%q] || 0`, a.id), chromedp.WithPollingTimeout(waitLimit)))
		a.end()
		if err != nil {
			return nil, err
		}
		if i >= 5 {
			took = append(took, at-float64(a.at.UnixNano())/1e6)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond): // one at a time, as people are asked
		}
	}
	return took, nil
}
