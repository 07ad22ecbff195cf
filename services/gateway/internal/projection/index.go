package projection

import (
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/quota"
	"github.com/banksman/banksman/services/gateway/internal/roster"
)

// comingFor is how long a new session that was let pass counts before its word is
// applied here.
const comingFor = time.Minute

// index finds sessions by what is asked for them, so that nobody has to look through
// all of them with the lock held.
type index struct {
	byID   map[string]map[*session]bool     // by plain id
	byWork map[roster.Key]map[*session]bool // those that live, by their worker
	judged map[roster.Key]map[*session]bool // those whose worker is gone by a gateway's word
	live   map[quota.Owner]int
	coming map[quota.Owner]map[subject.Session]time.Time // let pass, by when
}

func newIndex() index {
	return index{
		byID: map[string]map[*session]bool{}, byWork: map[roster.Key]map[*session]bool{},
		judged: map[roster.Key]map[*session]bool{},
		live:   map[quota.Owner]int{}, coming: map[quota.Owner]map[subject.Session]time.Time{},
	}
}

// lives reports whether a worker runs the session, as far as is known.
func (s *session) lives() bool { return s.known && s.state.State != hitl.StateDead }

// put takes note of what has changed of s.
func (x *index) put(s *session) {
	if s.id != s.state.SessionID {
		leave(x.byID, s.id, s)
		s.id = s.state.SessionID
		enter(x.byID, s.id, s)
	}
	owner := quota.Owner{Tenant: s.key.Tenant, Name: s.key.Owner}
	if s.known {
		if delete(x.coming[owner], s.key); len(x.coming[owner]) == 0 {
			delete(x.coming, owner)
		}
	}
	if s.missed && s.judged == nil {
		leave(x.judged, s.worker, s)
		s.missed = false
	}
	if s.judged != nil && !s.missed {
		s.worker, s.missed = workerOf(s), true
		enter(x.judged, s.worker, s)
	}
	at, lives := workerOf(s), s.lives()
	if s.counted && (!lives || s.at != at) {
		leave(x.byWork, s.at, s)
		if x.live[owner]--; x.live[owner] == 0 {
			delete(x.live, owner)
		}
		s.counted = false
	}
	if lives && !s.counted {
		s.at, s.counted = at, true
		enter(x.byWork, at, s)
		x.live[owner]++
	}
}

// drop forgets s, which does not live.
func (x *index) drop(s *session) {
	leave(x.byID, s.id, s)
	if s.missed {
		leave(x.judged, s.worker, s)
	}
}

// admit reports whether a session may live beside the others of its owner, at most
// limit.
func (x *index) admit(key subject.Session, s *session, limit int, now time.Time) bool {
	if s != nil && s.lives() {
		return true
	}
	owner := quota.Owner{Tenant: key.Tenant, Name: key.Owner}
	coming := x.coming[owner]
	if _, ok := coming[key]; ok {
		return true
	}
	if x.live[owner]+len(coming) >= limit {
		for k, at := range coming { // at most limit
			if now.Sub(at) > comingFor {
				delete(coming, k)
			}
		}
		if x.live[owner]+len(coming) >= limit {
			return false
		}
	}
	if coming == nil {
		coming = map[subject.Session]time.Time{}
		x.coming[owner] = coming
	}
	coming[key] = now
	return true
}

func enter[K comparable](m map[K]map[*session]bool, k K, s *session) {
	if m[k] == nil {
		m[k] = map[*session]bool{}
	}
	m[k][s] = true
}

func leave[K comparable](m map[K]map[*session]bool, k K, s *session) {
	if delete(m[k], s); len(m[k]) == 0 {
		delete(m, k)
	}
}

// MayLive reports whether a worker's word on a session may be stored: of one that lives,
// or where its owner has fewer than limit of them.
func (p *Projection) MayLive(key subject.Session, limit int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.index.admit(key, p.sessions[key], limit, p.now())
}
