package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrWatchEnded: the connection is closed.
var ErrWatchEnded = errors.New("ledger: watch ended")

// Watcher takes what a watch sees, one call at a time.
type Watcher struct {
	// Delivery is called for the newest version of every delivery, then for
	// each change.
	Delivery func(*Record)
	// Gone is called for every target that is gone.
	Gone func(Gone)
	// Ready is called once, when all that was stored has been seen.
	Ready func()
	// Broken is called for an entry that cannot be read.
	Broken func(key string, err error)
}

// Watch follows the ledger until ctx ends, and returns ctx's error then.
func (l *Ledger) Watch(ctx context.Context, w Watcher) error {
	kw, err := l.kv.WatchFiltered(ctx, []string{deliveries + ".>", gones + ".>"}, jetstream.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("ledger: watch: %w", err)
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
			return ctx.Err()
		case e, ok := <-kw.Updates():
			switch {
			case !ok:
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return ErrWatchEnded
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
		var g Gone
		if err := json.Unmarshal(e.Value(), &g); err != nil {
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
