package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/run"
)

const (
	// probe is a key below which nothing is kept.
	probe = "probe"
	// probeEvery is how often the ledger is tried, and probeAgain that where it fails.
	probeEvery = 3 * time.Second
	probeAgain = time.Second
	// probeFor is how long it may be away, as at a change of leader, before that counts.
	probeFor = 3 * time.Second
)

// Probe knows whether the ledger can be read and written. The zero value believes it; its
// methods are safe for concurrent use.
type Probe struct {
	mu  sync.Mutex
	err error
}

// Err is nil while the ledger works; else it says what does not.
func (p *Probe) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Probe) set(err error) (was error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, p.err = p.err, err
	return was
}

// Run tries l until ctx ends.
func (p *Probe) Run(ctx context.Context, l *Ledger, log *slog.Logger) {
	for {
		limit, cancel := context.WithTimeout(ctx, probeFor)
		err := l.works(limit)
		cancel()
		if ctx.Err() != nil {
			return
		}
		pause := probeEvery
		if err != nil {
			err, pause = fmt.Errorf("nobody can be told: the ledger's bucket %s %w", Bucket, err), probeAgain
		}
		if was := p.set(err); was == nil && err != nil {
			log.Error("the ledger fails", "error", err)
		} else if was != nil && err == nil {
			log.Info("the ledger works again")
		}
		if !run.Pause(ctx, pause) {
			return
		}
	}
}

// works tries until the ledger works or ctx ends.
func (l *Ledger) works(ctx context.Context) error {
	var b pause
	for {
		err := l.try(ctx)
		if err == nil || !b.wait(ctx) {
			return err
		}
	}
}

func (l *Ledger) try(ctx context.Context) error {
	_, err := l.kv.Get(ctx, probe)
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return errors.New("is gone; a notifier that starts makes an empty one")
	case err != nil && !errors.Is(err, jetstream.ErrKeyNotFound):
		return fmt.Errorf("cannot be read: %w", err)
	}
	// No entry that anything follows from, so it needs no compare-and-swap.
	if _, err := l.kv.PutString(ctx, probe, time.Now().UTC().Format(time.RFC3339)); err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	return nil
}
