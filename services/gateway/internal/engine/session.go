package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// session is a conversation, or merely the name under which programs asked.
type session struct {
	key     subject.Session
	state   hitl.SessionState
	known   bool // a worker has told of it
	pending []*entry
}

type workerKey struct{ tenant, owner, worker string }

// worker is what the heartbeats say.
type worker struct {
	last     time.Time
	runtimes []string
	lost     bool // unreachable was told
}

func (s *session) insert(en *entry) {
	i, _ := slices.BinarySearchFunc(s.pending, en, func(a, b *entry) int {
		return cmp.Or(a.requestedAt.Compare(b.requestedAt), cmp.Compare(a.seq, b.seq), strings.Compare(a.ref.ID, b.ref.ID))
	})
	s.pending = slices.Insert(s.pending, i, en)
}

func (s *session) remove(en *entry) {
	if i := slices.Index(s.pending, en); i >= 0 {
		s.pending = slices.Delete(s.pending, i, i+1)
	}
}

// sessionOf finds a session or begins to know it. Called with the lock held.
func (e *Engine) sessionOf(key subject.Session, id, tenant, owner string) *session {
	s := e.sessions[key]
	if s == nil {
		s = &session{key: key, state: hitl.SessionState{
			V: 1, SessionID: id, Tenant: tenant, Owner: owner, Runtime: "program", State: hitl.StateAssistantTurn,
		}}
		e.sessions[key] = s
	}
	return s
}

// state is what clients see of a session. Called with the lock held.
func (e *Engine) state(s *session) wire.ProcessState {
	st := wire.ProcessState{
		SessionKey: s.key.String(), SessionState: s.state, PendingRequests: []wire.Summary{},
		Unreachable: s.known && s.state.State != hitl.StateDead && e.unreachable(s),
	}
	st.Title = visible(st.Title)
	st.Error = visibleWhole(st.Error)
	now := e.now().UTC()
	for _, en := range s.pending {
		if en.decided {
			continue
		}
		st.PendingCount++
		if len(st.PendingRequests) == wire.MaxPending {
			continue
		}
		sum := en.summary
		sum.ServerTime, sum.Unreachable = now, st.Unreachable
		st.PendingRequests = append(st.PendingRequests, sum)
	}
	if len(st.PendingRequests) > 0 {
		p := st.PendingRequests[0]
		p.Body = nil // it stands in PendingRequests
		st.PendingRequest = &p
	}
	if s.state.StartedAt.IsZero() && len(s.pending) > 0 {
		st.StartedAt = s.pending[0].requestedAt
		st.StateChangedAt = s.pending[0].requestedAt
	}
	return st
}

// allStates is the snapshot, without bodies: sessions that live or wait.
func (e *Engine) allStates() []wire.ProcessState {
	out := []wire.ProcessState{}
	for _, s := range e.sessions {
		if !s.known && len(s.pending) == 0 {
			continue
		}
		st := e.state(s)
		for i := range st.PendingRequests {
			st.PendingRequests[i].Body = nil
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b wire.ProcessState) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.SessionKey, b.SessionKey))
	})
	return out
}

// Sessions implements API.
func (e *Engine) Sessions() []wire.ProcessState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.allStates()
}

func (e *Engine) workerOf(s *session) workerKey {
	return workerKey{s.key.Tenant, s.key.Owner, s.state.Worker}
}

// unreachable reports whether a session's worker misses its heartbeats.
func (e *Engine) unreachable(s *session) bool { return e.workers[e.workerOf(s)].lost }

// onSession takes a worker's word on its session. An older generation's word
// no longer counts.
func (e *Engine) onSession(key subject.Session, st hitl.SessionState, m journal.Message) {
	if subject.NewSession(st.Tenant, st.Owner, st.SessionID) != key {
		return // not its own subject
	}
	s := e.sessionOf(key, st.SessionID, st.Tenant, st.Owner)
	if s.known && st.Generation < s.state.Generation {
		return
	}
	s.state, s.known = st, true
	if w := e.workerOf(s); st.State != hitl.StateDead {
		if _, ok := e.workers[w]; !ok {
			e.workers[w] = worker{last: e.now()}
		}
	}
	if st.State == hitl.StateDead {
		e.orphan(s, "the session has ended")
	}
	e.touch(key)
	e.publish(Update{SessionKey: key.String(), Stored: true, Events: []wire.Event{statusEvent(&st, m)}})
}

func statusEvent(st *hitl.SessionState, m journal.Message) wire.Event {
	return wire.Event{Type: hitl.EventSessionStatus, At: m.Time, Data: data(map[string]any{
		"state": st.State, "error": visibleWhole(st.Error), "kill_reason": st.KillReason, "mode": st.Mode,
		"generation": st.Generation,
	})}
}

// onVerdict takes another gateway's word that a session's worker is gone.
func (e *Engine) onVerdict(key subject.Session, v wire.SessionVerdict) {
	s := e.sessions[key]
	if s == nil || !s.known || v.Generation < s.state.Generation || s.state.State == hitl.StateDead {
		return
	}
	s.state.State, s.state.KillReason, s.state.Error = hitl.StateDead, "orphaned", v.Reason
	s.state.StateChangedAt = v.At
	e.touch(key)
}

// orphan ends what a session waits for. Called with the lock held.
func (e *Engine) orphan(s *session, why string) {
	for _, en := range s.pending {
		if en.decided {
			continue
		}
		ref := en.ref
		e.later(time.Minute, func(ctx context.Context) {
			c := hitl.Content{Outcome: hitl.Orphaned, Comment: why}
			if _, err := e.settle(ctx, ref, c, system, "liveness"); err != nil && !errors.Is(err, ErrNotFound) {
				e.log.Warn("orphan not settled; its deadline will", "interaction", ref.String(), "error", err)
			}
		})
	}
}

// reviveGrace is how long a dead session's new request waits for the word that
// a successor has revived the session: that word comes by another stream.
const reviveGrace = 2 * time.Second

// orphanIfStillDead ends what waits in a session that stays dead.
func (e *Engine) orphanIfStillDead(s *session) {
	e.later(time.Minute, func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(reviveGrace):
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if s.state.State == hitl.StateDead {
			e.orphan(s, "the session has ended")
		}
	})
}

// listen follows what is not stored: live deltas and heartbeats.
func (e *Engine) listen() ([]*nats.Subscription, error) {
	var subs []*nats.Subscription
	for subj, fn := range map[string]nats.MsgHandler{
		"hitl.live.*.*.*": e.onLive,
		"hitl.beat.*.*.*": e.onBeat,
	} {
		sub, err := e.opts.Conn.Subscribe(subj, fn)
		if err != nil {
			return subs, fmt.Errorf("listen on %s: %w", subj, err)
		}
		subs = append(subs, sub)
	}
	return subs, nil
}

func (e *Engine) onLive(m *nats.Msg) {
	p, err := subject.Parse(m.Subject)
	if err != nil {
		return
	}
	ev, ok := agentEvent(journal.Message{Subject: m.Subject, Data: m.Data, Time: e.now().UTC()})
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.publish(Update{SessionKey: p.SessionRef().String(), Events: []wire.Event{ev}})
}

func (e *Engine) onBeat(m *nats.Msg) {
	p, err := subject.Parse(m.Subject)
	var b hitl.Beat
	if err != nil || json.Unmarshal(m.Data, &b) != nil || subject.Token(b.Worker) != p.ID {
		return
	}
	key := workerKey{p.Tenant, p.Owner, b.Worker}
	e.mu.Lock()
	defer e.mu.Unlock()
	lost := e.workers[key].lost
	e.workers[key] = worker{last: e.now(), runtimes: b.Runtimes}
	if lost {
		e.touchWorker(key)
	}
}

func (e *Engine) touchWorker(key workerKey) {
	for _, s := range e.sessions {
		if s.known && e.workerOf(s) == key && s.state.State != hitl.StateDead {
			e.touch(s.key)
		}
	}
}

// watchWorkers notices workers that went silent. Silence counts only while
// this gateway itself was connected.
func (e *Engine) watchWorkers(ctx context.Context, connectedSince time.Time) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := e.now()
		if !e.opts.Conn.IsConnected() {
			connectedSince = now
			continue
		}
		e.mu.Lock()
		for key, w := range e.workers {
			silent := now.Sub(newer(w.last, connectedSince))
			switch {
			case silent > e.opts.OrphanAfter:
				e.bury(key, now)
				delete(e.workers, key)
			case silent > unreachableAge && !w.lost:
				w.lost = true
				e.workers[key] = w
				e.touchWorker(key)
			}
		}
		e.mu.Unlock()
	}
}

func newer(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// bury ends the sessions of a worker that is gone. Called with the lock held.
func (e *Engine) bury(key workerKey, now time.Time) {
	for _, s := range e.sessions {
		if !s.known || e.workerOf(s) != key || s.state.State == hitl.StateDead {
			continue
		}
		v := wire.SessionVerdict{
			V: 1, State: hitl.StateDead, Worker: key.worker, Generation: s.state.Generation, At: now.UTC(),
			Reason: fmt.Sprintf("its worker sent no heartbeat for %s", hitl.Budget(e.opts.OrphanAfter)),
		}
		e.orphan(s, v.Reason)
		session := s.key
		e.later(time.Minute, func(ctx context.Context) {
			if err := e.opts.Journal.WriteGatewayState(ctx, session, data(v)); err != nil {
				e.log.Warn("verdict on a session not stored", "session", session.String(), "error", err)
			}
		})
	}
}

// Runtimes implements API.
func (e *Engine) Runtimes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []string{}
	for _, w := range e.workers {
		if !w.lost {
			for _, r := range w.runtimes {
				if !slices.Contains(out, r) {
					out = append(out, r)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}
