package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed: the group has been stopped, or one of its goroutines failed.
var ErrClosed = errors.New("run: group is closed")

// Group owns goroutines: it gives them a context, remembers the first failure
// and waits for all of them. Whoever makes a Group stops it.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	err    error // first failure
	wg     sync.WaitGroup
}

// NewGroup makes a group whose goroutines end with ctx.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Go runs fn with the group's context. The first error other than the
// context's own ends all the others and is what Wait and Stop return, with the
// name. It reports false, and does not run fn, once the group is closed.
func (g *Group) Go(name string, fn func(ctx context.Context) error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.err != nil {
		return false
	}
	g.wg.Go(func() {
		err := fn(g.ctx)
		if err == nil || g.ctx.Err() != nil && errors.Is(err, g.ctx.Err()) {
			return
		}
		g.fail(fmt.Errorf("%s: %w", name, err))
	})
	return true
}

func (g *Group) fail(err error) {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
	}
	g.mu.Unlock()
	g.cancel(err)
}

// Done is closed when the goroutines are to end: a failure, Stop, or the end
// of the parent context.
func (g *Group) Done() <-chan struct{} { return g.ctx.Done() }

// Wait takes no more goroutines, waits until all have ended by themselves and
// returns the first failure.
func (g *Group) Wait() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
	g.cancel(ErrClosed)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Stop ends the group's context and waits. More calls return the same.
func (g *Group) Stop() error {
	g.cancel(ErrClosed)
	return g.Wait()
}
