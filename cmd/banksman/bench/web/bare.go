package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// barePage paints what waits as plain text, with nothing around it: the floor of
// the row of painted cards.
const barePage = `<!doctype html><meta charset="utf-8"><body data-testid="inbox">waiting<script>
const ws = new WebSocket("ws://" + location.host + "/ws");
ws.onmessage = (e) => {
	const cards = [];
	for (const f of [JSON.parse(e.data)].flat()) for (const r of f.pending_requests ?? []) {
		const a = document.createElement("article");
		a.dataset.testid = "card-" + r.request_id;
		a.textContent = JSON.stringify(r);
		cards.push(a);
	}
	document.body.replaceChildren(...cards);
};
ws.onopen = () => { document.body.dataset.open = "yes"; };
</script>`

// bare serves the page to one browser, and sends it messages.
type bare struct {
	addr string
	srv  *http.Server
	wg   sync.WaitGroup
	to   chan *websocket.Conn
	conn *websocket.Conn // once the page is there
}

func startBare() (*bare, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &bare{addr: "http://" + l.Addr().String(), to: make(chan *websocket.Conn, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(barePage)) // a browser that is gone needs none
	})
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(w, r, nil); err == nil {
			b.to <- c
		}
	})
	b.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	b.wg.Go(func() { _ = b.srv.Serve(l) }) // until close
	return b, nil
}

// send writes a message to the page.
func (b *bare) send(ctx context.Context, raw []byte) error {
	if b.conn == nil {
		select {
		case b.conn = <-b.to:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return b.conn.Write(ctx, websocket.MessageText, raw)
}

func (b *bare) close() error {
	if b.conn != nil {
		_ = b.conn.CloseNow()
	}
	err := b.srv.Close()
	b.wg.Wait()
	return err
}
