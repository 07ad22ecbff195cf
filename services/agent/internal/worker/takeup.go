package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// take makes sure that the session is this worker's before anything happens in
// it. A session that was claimed just now comes with its hold; one that is taken
// up again is claimed with its new generation, as often as it takes: what refuses
// it, a quota, may have room later.
func (s *session) take(hold *bus.Hold) bool {
	var p pauses
	for hold == nil {
		var err error
		hold, err = s.w.client.Claim(s.ctx, &s.rec.State) // nobody changes it before
		switch {
		case errors.Is(err, bus.ErrStale):
			s.yield(err)
			return false
		case err == nil:
			s.refuse(false)
		case s.ctx.Err() != nil:
			return false
		default:
			s.refuse(true)
			s.log.Warn("session not taken up; it is tried again", "error", err)
			if !run.Pause(s.ctx, p.next()) {
				return false
			}
		}
	}
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	var ctx context.Context
	ctx, s.pubEnd = context.WithCancel(context.Background())
	s.pubWG.Go(func() { s.pub.run(ctx, hold) })
	return true
}

func (s *session) refuse(refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = refused
}

// lives reports whether a heartbeat may name the session. A gateway takes one that
// it does for alive.
func (s *session) lives() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.refused && s.over == nil
}

// begin starts the run. A session that an earlier process left is tried again
// for a while if its start may succeed later; people are told what it waits for.
func (s *session) begin(from origin) {
	limit := time.Now().Add(s.w.takeUp)
	var p pauses
	told := ""
	for s.ctx.Err() == nil {
		err := s.start(from.midTurn)
		if err == nil {
			s.kick()
			return
		}
		var later *runtime.LaterError
		left := time.Until(limit)
		if from.fresh || !errors.As(err, &later) || left <= 0 {
			s.finish(ending{message: err.Error()})
			return
		}
		if err.Error() != told {
			told = err.Error()
			s.log.Warn("session cannot start again yet", "until", limit.UTC())
			s.Emit(runtime.Note{Message: fmt.Sprintf("The session cannot go on yet: %s. The worker tries again until %s.", told, limit.UTC().Format("15:04 MST"))})
		}
		run.Pause(s.ctx, min(p.next(), left))
	}
}

func (s *session) start(midTurn bool) error {
	s.mu.Lock()
	st, open := s.rec.State, append([]gate.Kept(nil), s.rec.Asks...)
	spec := runtime.Spec{
		SessionID: s.id, Cwd: st.Cwd, Mode: st.Mode, Model: st.Model,
		Memory: s.rec.Memory, Open: open, MidTurn: midTurn, Logger: s.log,
	}
	s.mu.Unlock()
	rt := s.w.runtimes[st.Runtime]
	if rt == nil {
		return fmt.Errorf("runtime: %q is none of %s", st.Runtime, strings.Join(s.w.names, ", "))
	}
	r, err := rt.Start(s.ctx, spec, s)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.run = r
	s.mu.Unlock()
	return nil
}

const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
)

// pauses grow from one try to the next.
type pauses time.Duration

func (p *pauses) next() time.Duration {
	d := max(time.Duration(*p), firstPause)
	*p = pauses(min(2*d, mostPause))
	return d
}
