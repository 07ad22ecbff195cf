package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// DefaultStopTimeout bounds the stop of a step that names no bound.
const DefaultStopTimeout = 10 * time.Second

// ErrStopTimeout: a step was still stopping when its time was up. It was left
// behind; what it holds may be in use until the process ends.
var ErrStopTimeout = errors.New("did not stop in time")

// ErrUsed: a Lifecycle runs once.
var ErrUsed = errors.New("run: already started or stopped")

// Step is one part of a process. Start and Stop may be nil.
type Step struct {
	Name string
	// Start returns when the part is ready. ctx bounds the start only: a part
	// that goes on ends by Stop.
	Start func(ctx context.Context) error
	// Stop ends the part and waits for it. Its ctx ends when its time is up.
	Stop        func(ctx context.Context) error
	StopTimeout time.Duration // 0: DefaultStopTimeout
}

// StepError says which step failed, at what.
type StepError struct {
	Step, Phase string // Phase is "start" or "stop"
	Err         error
}

func (e *StepError) Error() string { return e.Phase + " " + e.Step + ": " + e.Err.Error() }

func (e *StepError) Unwrap() error { return e.Err }

// Lifecycle starts steps in the order given and stops them in the reverse
// order. It runs once; its methods may be called from any goroutine.
type Lifecycle struct {
	log   *slog.Logger
	steps []Step

	mu      sync.Mutex
	used    bool
	started int           // steps to stop; guarded by mu until stopped
	ready   chan struct{} // closed by Start when it is over
	halt    context.CancelFunc

	stop    sync.Once
	stopped chan struct{} // closed by Stop, after err is set
	err     error
}

// New makes a Lifecycle. A nil logger discards.
func New(log *slog.Logger, steps ...Step) *Lifecycle {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Lifecycle{log: log, steps: steps, stopped: make(chan struct{})}
}

// Start starts the steps one after the other. When one fails or ctx ends, it
// stops those that were started and returns all errors joined. A Stop in the
// meantime ends the start in the same way.
func (l *Lifecycle) Start(ctx context.Context) error {
	l.mu.Lock()
	if l.used {
		l.mu.Unlock()
		return ErrUsed
	}
	l.used = true
	ctx, l.halt = context.WithCancel(ctx)
	l.ready = make(chan struct{})
	l.mu.Unlock()
	defer l.halt()

	err := l.startAll(ctx)
	close(l.ready)
	if err != nil {
		return errors.Join(err, l.Stop())
	}
	return nil
}

func (l *Lifecycle) startAll(ctx context.Context) error {
	for i, s := range l.steps {
		if err := ctx.Err(); err != nil {
			return &StepError{Step: s.Name, Phase: "start", Err: err}
		}
		began := time.Now()
		if s.Start != nil {
			if err := s.Start(ctx); err != nil {
				return &StepError{Step: s.Name, Phase: "start", Err: err}
			}
		}
		l.mu.Lock()
		l.started = i + 1
		l.mu.Unlock()
		l.log.Debug("started", "step", s.Name, "took", time.Since(began))
	}
	return nil
}

// Stop stops the started steps, last in first out, each within its bound; one
// that fails or takes too long does not keep the others from being stopped. The
// errors are joined. Every call waits for the first and returns its result.
func (l *Lifecycle) Stop() error {
	l.stop.Do(func() {
		l.mu.Lock()
		l.used = true
		ready, halt := l.ready, l.halt
		l.mu.Unlock()
		if ready != nil {
			halt()
			<-ready
		}
		l.mu.Lock()
		n := l.started
		l.mu.Unlock()
		var errs []error
		for i := n - 1; i >= 0; i-- {
			errs = append(errs, l.stopStep(l.steps[i]))
		}
		l.err = errors.Join(errs...)
		close(l.stopped)
	})
	<-l.stopped
	return l.err
}

func (l *Lifecycle) stopStep(s Step) error {
	if s.Stop == nil {
		return nil
	}
	bound := s.StopTimeout
	if bound <= 0 {
		bound = DefaultStopTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	began := time.Now()
	// The goroutine is waited for unless the step overstays, which is reported.
	done := make(chan error, 1) // written once
	go func() { done <- s.Stop(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done: // it ended together with its time
		default:
			err = fmt.Errorf("%w (%s)", ErrStopTimeout, bound)
		}
	}
	if err != nil {
		err = &StepError{Step: s.Name, Phase: "stop", Err: err}
		l.log.Warn("stop failed", "step", s.Name, "error", err)
		return err
	}
	l.log.Debug("stopped", "step", s.Name, "took", time.Since(began))
	return nil
}
