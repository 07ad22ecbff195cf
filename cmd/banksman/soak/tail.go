package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/run"
)

// tail follows the events for a whole run, as gateways do, through every loss of
// connections, leaders and nodes.
type tail struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when err is final
	err    error

	mu   sync.Mutex
	seqs []uint64
}

func follow(ctx context.Context, j *journal.JetStream) *tail {
	t := &tail{done: make(chan struct{})}
	ctx, t.cancel = context.WithCancel(ctx)
	go func() {
		defer close(t.done)
		t.err = j.Follow(ctx, journal.Events, 1, nil, func(m journal.Message) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.seqs = append(t.seqs, m.Seq)
			return nil
		})
	}()
	return t
}

// stop ends following and waits for it.
func (t *tail) stop() {
	t.cancel()
	<-t.done
}

// check ends following and holds what came against what is stored: all of it,
// in order, once.
func (t *tail) check(ctx context.Context, j *journal.JetStream) error {
	var want []uint64
	err := j.Read(ctx, journal.Events, 1, nil, func(m journal.Message) error {
		want = append(want, m.Seq)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the events: %w", err)
	}
	limit, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for {
		t.mu.Lock()
		got := slices.Clone(t.seqs)
		t.mu.Unlock()
		if len(got) >= len(want) || !run.Pause(limit, listEvery) {
			t.stop()
			if !errors.Is(t.err, context.Canceled) {
				return fmt.Errorf("following the events ended: %w", t.err)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("a follower got %d events, and %d are stored, or not in this order", len(got), len(want))
			}
			return nil
		}
	}
}
