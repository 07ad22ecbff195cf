package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
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

// painted is how many ms passed until each card was on the screen: of the product
// from the ask, of the bare page from the sending of the same frame.
type painted [2][]float64

// paint asks n times, one at a time, with a page of the app in a real browser and
// the bare page in another, by turns.
func paint(ctx context.Context, dir string, n int) (took painted, err error) {
	s, err := startSite(ctx, dir, perPerson)
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	floor, err := startBare()
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, floor.close()) }()
	var tabs [2]context.Context
	for i, page := range []struct{ url, there string }{
		{s.hello.Login, `[data-testid="inbox"]`},
		{floor.addr, `body[data-open]`},
	} {
		tab, stop, err := browse(ctx, dir, page.url, page.there)
		if err != nil {
			return took, err
		}
		defer stop()
		tabs[i] = tab
	}
	in, err := follow(ctx, s)
	if err != nil {
		return took, err
	}
	defer func() { _ = in.CloseNow() }()
	for i := range n + 5 { // the first five warm up
		a, err := s.ask(ctx, "painted", fmt.Sprintf("card-%d", i), false)
		if err != nil {
			return took, err
		}
		ours, err := seen(tabs[0], a.id, a.at)
		var frame []byte
		if err == nil {
			frame, err = frameOf(ctx, in, a.id)
		}
		a.end()
		if err != nil {
			return took, err
		}
		at := time.Now()
		if err := floor.send(ctx, frame); err != nil {
			return took, err
		}
		theirs, err := seen(tabs[1], a.id, at)
		if err != nil {
			return took, err
		}
		if i >= 5 {
			took[0], took[1] = append(took[0], ours), append(took[1], theirs)
		}
		select {
		case <-ctx.Done():
			return took, ctx.Err()
		case <-time.After(20 * time.Millisecond): // one at a time, as people are asked
		}
	}
	return took, nil
}

// seen is how many ms after at a card was painted.
func seen(tab context.Context, id string, at time.Time) (float64, error) {
	ms, err := chromedp.Run(tab, chromedp.Poll[float64](fmt.Sprintf(`window.painted[%q] || 0`, id), chromedp.WithPollingTimeout(waitLimit)))
	return ms - float64(at.UnixNano())/1e6, err
}

// browse opens a page in a browser of its own and watches it once something is there.
func browse(ctx context.Context, dir, url, there string) (tab context.Context, stop func(), err error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, nil, err
	}
	profile, err := os.MkdirTemp(dir, "chromium-")
	if err != nil {
		return nil, nil, err
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.UserDataDir(profile),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
	)...)
	tab, stopTab := chromedp.NewContext(alloc)
	stop = func() {
		_ = chromedp.Cancel(tab) // the allocator ends what does not end by itself
		stopTab()
		stopAlloc()
	}
	err = chromedp.Do(tab, chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS(there)))
	if err == nil {
		_, err = chromedp.Run(tab, chromedp.Evaluate[bool](watch))
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return tab, stop, nil
}

// follow signs in as a page does.
func follow(ctx context.Context, s *site) (*websocket.Conn, error) {
	auth, err := hitl.Marshal(wire.Client{Type: wire.TypeAuth, Token: s.hello.Token})
	if err != nil {
		return nil, err
	}
	conn, _, err := websocket.Dial(ctx, "ws://"+s.hello.Addr+"/api/ws", nil)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(64 << 20)
	if err := conn.Write(ctx, websocket.MessageText, auth); err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	return conn, nil
}

// frameOf is the message that tells a page of an interaction.
func frameOf(ctx context.Context, conn *websocket.Conn, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil || bytes.Contains(raw, []byte(`"request_id":"`+id+`"`)) {
			return raw, err
		}
	}
}
