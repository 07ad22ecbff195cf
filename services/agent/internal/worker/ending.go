package worker

import (
	"context"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

const (
	// leaveLimit bounds the last publishing of a worker that stops.
	leaveLimit = 3 * time.Second
	// maxWhy bounds what a receipt says of a session's end, in bytes.
	maxWhy = 500
)

// ending is why a session is over.
type ending struct {
	message string // shown as an error; empty for a session that was stopped
	reason  string // the kill reason
}

// why is for those who decided something of which nothing comes now.
func (e *ending) why() string {
	switch {
	case e.reason != "":
		return e.reason
	case e.message != "":
		return "the session has ended: " + strings.ToValidUTF8(e.message[:min(len(e.message), maxWhy)], "")
	}
	return "the session has ended"
}

// finish marks the session as over; live does the rest.
func (s *session) finish(e ending) {
	s.mu.Lock()
	if s.over == nil && !s.left && !s.lost {
		if err := s.conclude(e); err != nil {
			s.log.Error("session not stored", "error", err)
		}
	}
	s.mu.Unlock()
	s.cancel(gate.ErrClosed)
}

// conclude needs s.mu. The end is on disk before anything follows from it, so that
// a crash does not bring the session back to life.
func (s *session) conclude(e ending) error {
	s.over = &e
	st := &s.rec.State
	st.State, st.StateChangedAt = hitl.StateDead, now()
	st.Error, st.KillReason = bounded(e.message), e.reason
	return s.w.dir.Save(&s.rec)
}

// leave stops the session's work and keeps it for a successor.
func (s *session) leave() {
	s.mu.Lock()
	s.left = true
	s.mu.Unlock()
	s.gate.Leave() // first, so that nothing that follows withdraws an ask
	s.cancel(gate.ErrLeave)
}

func (s *session) killRun() {
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	if run != nil {
		run.Kill()
	}
}

// bury ends a session for good.
func (s *session) bury(e ending) {
	s.dropUnasked(e.why())
	s.gate.Cancel(e.why())
	s.killRun()
	s.gate.Wait()
	if e.message != "" {
		s.pub.push(item{event: encodeEvent(runtime.Problem{Message: e.message})})
	}
	done := "stopped"
	if e.message != "" {
		done = "error"
	}
	s.pub.push(item{event: encodeEvent(runtime.TurnDone{Reason: done})})
	s.publishState()
	// The message may quote the agent.
	s.log.Info("session is dead", "reason", e.reason, "failed", e.message != "")
	s.log.Debug("session is dead", "error", e.message)
	whole := s.endPublisher(0)
	s.w.remove(s)
	if s.repeatReceipts() && whole {
		s.forget()
	}
}

// dropUnasked ends the asks of an earlier process that no run asked again: what was
// decided is refused, what is open is taken away by the gate's Cancel.
func (s *session) dropUnasked(why string) {
	s.mu.Lock()
	var asks []gate.Kept
	if s.run == nil {
		asks = append(asks, s.rec.Asks...)
	}
	s.mu.Unlock()
	for _, k := range asks {
		s.Ask(gate.Ask{Kept: k, Settle: func(d *gate.Settled) { d.Refuse(why) }})
	}
}

// repeatReceipts sends those that were not sent yet until the worker stops. It
// reports whether nothing is left of the session for a successor.
func (s *session) repeatReceipts() bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.w.wg.Go(func() {
		select {
		case <-s.w.stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	s.mu.Lock()
	left := append([]gate.Receipt(nil), s.rec.Receipts...)
	s.mu.Unlock()
	for i := range left {
		s.gate.Repeat(ctx, &left[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rec.Receipts)+len(s.rec.Asks) == 0
}

func (s *session) forget() {
	if err := s.w.dir.Delete(s.id); err != nil {
		s.log.Error("session is still on disk", "error", err)
	}
}

// endPublisher waits until everything is published, for at most limit; 0 means
// until the worker stops. It reports whether all of it went out.
func (s *session) endPublisher(limit time.Duration) bool {
	s.pub.close()
	done := make(chan struct{})
	go func() {
		s.pubWG.Wait()
		close(done)
	}()
	stop := s.w.stopping
	var late <-chan time.Time
	if limit > 0 {
		stop, late = nil, time.After(limit)
	}
	whole := true
	select {
	case <-done:
	case <-late:
		whole = false
	case <-stop:
		select {
		case <-done:
		case <-time.After(leaveLimit):
			whole = false
		}
	}
	s.pubEnd()
	<-done
	return whole
}
