package projection

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

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
	key   subject.Session
	state hitl.SessionState
	known bool // a worker has told of it
	// judged is what its worker said last, where a gateway has found that the worker is gone.
	judged  *hitl.SessionState
	pending []*Entry
	resting bool // it is among those that may be forgotten
	// Of the index.
	id      string
	at      roster.Key
	counted bool
	missed  bool       // it is among the judged of a worker
	worker  roster.Key // which is this one
	told    time.Time  // when its state was stored
}

// over reports whether nothing is to be expected of a session any more.
func (s *session) over() bool {
	return len(s.pending) == 0 && (!s.known || s.state.State == hitl.StateDead)
}

func (s *session) insert(en *Entry) {
	i, _ := slices.BinarySearchFunc(s.pending, en, func(a, b *Entry) int {
		return cmp.Or(a.RequestedAt.Compare(b.RequestedAt), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.Ref.ID, b.Ref.ID))
	})
	s.pending = slices.Insert(s.pending, i, en)
}

func (s *session) remove(en *Entry) {
	if i := slices.Index(s.pending, en); i >= 0 {
		s.pending = slices.Delete(s.pending, i, i+1)
	}
}

// sessionOf finds a session or begins to know it. Called with the lock held.
func (p *Projection) sessionOf(key subject.Session, id, tenant, owner string) *session {
	s := p.sessions[key]
	if s == nil {
		s = &session{key: key, state: hitl.SessionState{
			V: 1, SessionID: id, Tenant: tenant, Owner: owner, Runtime: "program", State: hitl.StateAssistantTurn,
		}}
		p.sessions[key] = s
		p.index.put(s)
	}
	return s
}

// rest forgets the sessions that have been over for the longest, beyond what is
// kept; the record has them still. Called with the lock held, when s was told
// to the watchers.
func (p *Projection) rest(s *session) {
	if s.resting || !s.over() {
		return
	}
	s.resting = true
	p.resting = append(p.resting, s)
	for len(p.resting) > max(p.opts.Recent, 1) {
		old := p.resting[0]
		p.resting = p.resting[1:]
		old.resting = false
		if old.over() {
			delete(p.sessions, old.key)
			p.index.drop(old)
		}
	}
}

// state is what clients see of a session. Called with the lock held.
func (p *Projection) state(s *session) wire.ProcessState {
	st := wire.ProcessState{
		SessionKey: s.key.String(), SessionState: s.state, PendingRequests: []wire.Summary{},
		Unreachable: s.known && s.state.State != hitl.StateDead && p.unreachable(s),
	}
	now := p.now().UTC()
	for _, en := range s.pending {
		if !p.isDecided(en.Ref) {
			st.PendingCount++
		}
	}
	n := 0
	for _, en := range s.pending {
		if p.isDecided(en.Ref) {
			continue
		}
		n++
		if n > wire.MaxPending-wire.NewestPending && n <= st.PendingCount-wire.NewestPending {
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
		first := st.PendingRequests[0]
		first.Body = nil // it stands in PendingRequests
		st.PendingRequest = &first
	}
	switch {
	case len(s.pending) > 0 && s.state.StartedAt.IsZero():
		st.StartedAt = s.pending[0].RequestedAt
		st.StateChangedAt = s.pending[0].RequestedAt
	case len(s.pending) == 0 && !s.known: // it was what waited in it
		st.State, st.StartedAt, st.StateChangedAt = hitl.StateDead, now, now
	}
	return st
}

// allStates is the snapshot, without bodies and in no order: sessions that live or wait.
func (p *Projection) allStates() []wire.ProcessState {
	out := []wire.ProcessState{}
	for _, s := range p.sessions {
		if !s.known && len(s.pending) == 0 {
			continue
		}
		st := p.state(s)
		for i := range st.PendingRequests {
			st.PendingRequests[i].Body = nil
		}
		out = append(out, st)
	}
	return out
}

// inOrder sorts a snapshot, which needs no lock.
func inOrder(out []wire.ProcessState) []wire.ProcessState {
	slices.SortFunc(out, func(a, b wire.ProcessState) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.SessionKey, b.SessionKey))
	})
	return out
}

// Sessions is the state of all sessions that live or wait.
func (p *Projection) Sessions() []wire.ProcessState {
	p.mu.Lock()
	all := p.allStates()
	p.mu.Unlock()
	return inOrder(all)
}

// State is that of one session, without bodies.
func (p *Projection) State(key subject.Session) (wire.ProcessState, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[key]
	if s == nil {
		return wire.ProcessState{}, false
	}
	st := p.state(s)
	for i := range st.PendingRequests {
		st.PendingRequests[i].Body = nil
	}
	return st, true
}

func workerOf(s *session) roster.Key {
	return roster.Key{Tenant: s.key.Tenant, Owner: s.key.Owner, Worker: s.state.Worker}
}

// unreachable reports whether a session's worker misses its heartbeats.
func (p *Projection) unreachable(s *session) bool { return p.workers.Unreachable(workerOf(s)) }

// readState reads a worker's word on its session. An older generation's word
// no longer counts.
func (p *Projection) readState(key subject.Session, m journal.Message) func() {
	st, ok := card.ReadState(key, m.Data)
	if !ok {
		return nil
	}
	return func() {
		s := p.sessionOf(key, st.SessionID, st.Tenant, st.Owner)
		if s.known && st.Generation < s.state.Generation {
			return
		}
		s.state, s.known, s.judged, s.told = st, true, nil, m.Time
		p.index.put(s)
		if st.State != hitl.StateDead {
			p.workers.Expect(workerOf(s), p.now())
		} else {
			p.orphan(s, endedText)
		}
		p.touch(key)
		p.publish(api.Update{SessionKey: key.String(), Stored: true, Events: []wire.Event{card.Status(&st, m)}})
	}
}

// endedText is why what a dead session waits for is orphaned.
const endedText = "the session has ended"

// readVerdict reads a gateway's word that a session's worker is gone.
func (p *Projection) readVerdict(key subject.Session, m journal.Message) func() {
	var v wire.SessionVerdict
	if json.Unmarshal(m.Data, &v) != nil {
		return nil
	}
	return func() {
		s := p.sessions[key]
		if s == nil || !s.known || v.Generation < s.state.Generation || s.state.State == hitl.StateDead {
			return
		}
		if !m.Time.IsZero() && m.Time.Before(s.told) {
			return // its worker has been heard since
		}
		said := s.state
		s.judged = &said
		s.state.State, s.state.KillReason, s.state.Error = hitl.StateDead, "orphaned", v.Reason
		s.state.StateChangedAt = v.At
		p.index.put(s)
		p.touch(key)
		if len(s.pending) > 0 { // whoever found it ends them, if it still can
			p.opts.Doubtful(key, true)
		}
	}
}

// revive takes back a gateway's word that a session's worker is gone: it has been heard.
// Called with the lock held.
func (p *Projection) revive(worker roster.Key, sessions []string) {
	judged := p.index.judged[worker]
	if len(judged) == 0 {
		return
	}
	runs := make(map[string]bool, len(sessions))
	for _, id := range sessions {
		runs[id] = true
	}
	for s := range judged {
		if runs[s.state.SessionID] {
			s.state, s.judged = *s.judged, nil
			p.index.put(s)
			p.touch(s.key)
		}
	}
}

// Missed reports whether a session is still without its worker, and nobody has said so.
func (p *Projection) Missed(g Gone) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[g.Session]
	return s != nil && s.lives() && s.state.Generation == g.Verdict.Generation && !p.workers.Known(workerOf(s))
}

// Doubt looks again at an interaction that could not be orphaned.
func (p *Projection) Doubt(ref subject.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if en := p.open[ref]; en != nil {
		p.opts.Doubtful(en.session, p.sessions[en.session].judged != nil)
	}
}

// orphan tells what a session waits for. Called with the lock held.
func (p *Projection) orphan(s *session, why string) {
	for _, en := range s.pending {
		if !p.isDecided(en.Ref) {
			p.opts.Orphan(en.Ref, why)
		}
	}
}

// OrphanIfDead ends what waits in a session that is dead still.
func (p *Projection) OrphanIfDead(key subject.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s := p.sessions[key]; {
	case s == nil || s.state.State != hitl.StateDead:
	case s.judged != nil:
		p.orphan(s, s.state.Error)
	default:
		p.orphan(s, endedText)
	}
}

// Beat takes a heartbeat; false: its owner has too many workers.
func (p *Projection) Beat(tenant, owner string, b hitl.Beat) bool {
	key := roster.Key{Tenant: tenant, Owner: owner, Worker: b.Worker}
	p.mu.Lock()
	defer p.mu.Unlock()
	back, ok := p.workers.Beat(key, b.Runtimes, p.now())
	if back {
		p.touchWorker(key)
	}
	if ok {
		p.revive(key, b.Sessions)
	}
	return ok
}

func (p *Projection) touchWorker(key roster.Key) {
	for s := range p.index.byWork[key] {
		p.touch(s.key)
	}
}

// Gone is a session whose worker has been silent for too long.
type Gone struct {
	Session subject.Session
	Verdict wire.SessionVerdict
}

// SweepWorkers notices workers that went silent and returns the sessions of
// those that are gone; what these wait for is orphaned. Silence before since
// does not count.
func (p *Projection) SweepWorkers(since time.Time) []Gone {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	late, gone := p.workers.Sweep(now, since)
	for _, key := range late {
		p.touchWorker(key)
	}
	var out []Gone
	for _, key := range gone {
		for s := range p.index.byWork[key] {
			v := wire.SessionVerdict{
				V: 1, State: hitl.StateDead, Worker: key.Worker, Generation: s.state.Generation, At: now.UTC(),
				Reason: fmt.Sprintf("its worker sent no heartbeat for %s", hitl.Budget(p.opts.OrphanAfter)),
			}
			p.orphan(s, v.Reason)
			out = append(out, Gone{Session: s.key, Verdict: v})
		}
	}
	return out
}

// Serves reports whether a reachable worker of an owner can run a runtime.
func (p *Projection) Serves(tenant, owner, runtime string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers.Serves(tenant, owner, runtime)
}

// Runtimes are what the reachable workers can run, sorted.
func (p *Projection) Runtimes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers.Runtimes()
}
