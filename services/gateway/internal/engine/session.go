package engine

import (
	"cmp"
	"context"
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
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/roster"
)

// session is a conversation, or merely the name under which programs asked.
type session struct {
	key     subject.Session
	state   hitl.SessionState
	known   bool // a worker has told of it
	pending []*entry
}

func (s *session) insert(en *entry) {
	i, _ := slices.BinarySearchFunc(s.pending, en, func(a, b *entry) int {
		return cmp.Or(a.RequestedAt.Compare(b.RequestedAt), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.Ref.ID, b.Ref.ID))
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
		if !en.fresh {
			sum.Body = nil // told once; who missed it asks for it
		}
		st.PendingRequests = append(st.PendingRequests, sum)
	}
	if len(st.PendingRequests) > 0 {
		p := st.PendingRequests[0]
		p.Body = nil // it stands in PendingRequests
		st.PendingRequest = &p
	}
	if s.state.StartedAt.IsZero() && len(s.pending) > 0 {
		st.StartedAt = s.pending[0].RequestedAt
		st.StateChangedAt = s.pending[0].RequestedAt
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

// Sessions implements api.Engine.
func (e *Engine) Sessions() []wire.ProcessState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.allStates()
}

func (e *Engine) workerOf(s *session) roster.Key {
	return roster.Key{Tenant: s.key.Tenant, Owner: s.key.Owner, Worker: s.state.Worker}
}

// unreachable reports whether a session's worker misses its heartbeats.
func (e *Engine) unreachable(s *session) bool { return e.workers.Unreachable(e.workerOf(s)) }

// onSession takes a worker's word on its session. An older generation's word
// no longer counts. Called with the lock held.
func (e *Engine) onSession(key subject.Session, st hitl.SessionState, m journal.Message) {
	s := e.sessionOf(key, st.SessionID, st.Tenant, st.Owner)
	if s.known && st.Generation < s.state.Generation {
		return
	}
	s.state, s.known = st, true
	if st.State != hitl.StateDead {
		e.workers.Expect(e.workerOf(s), e.now())
	} else {
		e.orphan(s, "the session has ended")
	}
	e.touch(key)
	e.publish(api.Update{SessionKey: key.String(), Stored: true, Events: []wire.Event{card.Status(&st, m)}})
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
		ref := en.Ref
		e.later(time.Minute, func(ctx context.Context) {
			c := hitl.Content{Outcome: hitl.Orphaned, Comment: why}
			if _, err := e.settle(ctx, ref, e.now(), c, system, "liveness"); err != nil && !errors.Is(err, api.ErrNotFound) {
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
	ev, ok := card.FromAgent(journal.Message{Subject: m.Subject, Data: m.Data, Time: e.now().UTC()})
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.publish(api.Update{SessionKey: p.SessionRef().String(), Events: []wire.Event{ev}})
}

func (e *Engine) onBeat(m *nats.Msg) {
	p, err := subject.Parse(m.Subject)
	if err != nil {
		return
	}
	b, ok := card.ReadBeat(p.ID, m.Data)
	if !ok {
		return
	}
	key := roster.Key{Tenant: p.Tenant, Owner: p.Owner, Worker: b.Worker}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.workers.Beat(key, b.Runtimes, e.now()) {
		e.touchWorker(key)
	}
}

func (e *Engine) touchWorker(key roster.Key) {
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
		late, gone := e.workers.Sweep(now, connectedSince)
		for _, key := range late {
			e.touchWorker(key)
		}
		for _, key := range gone {
			e.bury(key, now)
		}
		e.mu.Unlock()
	}
}

// bury ends the sessions of a worker that is gone. Called with the lock held.
func (e *Engine) bury(key roster.Key, now time.Time) {
	for _, s := range e.sessions {
		if !s.known || e.workerOf(s) != key || s.state.State == hitl.StateDead {
			continue
		}
		v := wire.SessionVerdict{
			V: 1, State: hitl.StateDead, Worker: key.Worker, Generation: s.state.Generation, At: now.UTC(),
			Reason: fmt.Sprintf("its worker sent no heartbeat for %s", hitl.Budget(e.opts.OrphanAfter)),
		}
		e.orphan(s, v.Reason)
		session := s.key
		e.later(time.Minute, func(ctx context.Context) {
			if err := e.opts.Journal.WriteGatewayState(ctx, session, card.Encode(v)); err != nil {
				e.log.Warn("verdict on a session not stored", "session", session.String(), "error", err)
			}
		})
	}
}

// Runtimes implements api.Engine.
func (e *Engine) Runtimes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.workers.Runtimes()
}
