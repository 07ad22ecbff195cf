package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrWatchEnded: the connection is closed.
var ErrWatchEnded = errors.New("ledger: watch ended")

// Watcher takes what a watch sees, one call at a time.
type Watcher struct {
	// Delivery is called for the newest version of every delivery, then for
	// each change.
	Delivery func(*Record)
	// Gone is called for every target that is or was gone.
	Gone func(Gone)
	// Ready is called once, when all that was stored has been seen.
	Ready func()
	// Broken is called for an entry that cannot be read.
	Broken func(key string, err error)
}

// Watch follows the ledger until ctx ends, and returns ctx's error then. After a
// reconnect it begins anew: what was shown before is shown again.
func (l *Ledger) Watch(ctx context.Context, w Watcher) error {
	w.Ready = sync.OnceFunc(w.Ready)
	status := l.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer l.nc.RemoveStatusListener(status)
	var b pause
	for {
		again, err := l.watch(ctx, w, status)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case l.nc.IsClosed():
			return ErrWatchEnded
		case again:
			b = pause{}
			continue
		}
		// Not reachable at the moment.
		if !b.wait(ctx) {
			return fmt.Errorf("%w (last: %w)", ctx.Err(), err)
		}
	}
}

// watch follows until the connection has been away, which is again, or fails.
func (l *Ledger) watch(ctx context.Context, w Watcher, status <-chan nats.Status) (again bool, err error) {
	// The client library keeps something running until this context ends.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kw, err := l.kv.WatchFiltered(ctx, []string{deliveries + ".>", gones + ".>"}, jetstream.IgnoreDeletes())
	if err != nil {
		return false, fmt.Errorf("ledger: watch: %w", err)
	}
	defer func() {
		_ = kw.Stop() // fails on a closed connection only
		// The watcher closes the channel once nothing can come any more.
		for range kw.Updates() {
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-status:
			return true, nil
		case e, ok := <-kw.Updates():
			switch {
			case !ok:
				return false, ErrWatchEnded
			case e == nil:
				w.Ready()
			default:
				w.see(e)
			}
		}
	}
}

func (w *Watcher) see(e jetstream.KeyValueEntry) {
	if len(e.Key()) > len(gones) && e.Key()[:len(gones)+1] == gones+"." {
		g, err := decodeGone(e.Key(), e.Value())
		if err != nil {
			w.Broken(e.Key(), err)
			return
		}
		w.Gone(g)
		return
	}
	r, err := decode(e.Key(), e.Value(), e.Revision())
	if err != nil {
		w.Broken(e.Key(), err)
		return
	}
	w.Delivery(r)
}
