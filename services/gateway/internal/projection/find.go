package projection

import (
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

// Resolve finds whom an attempt means. A session, where named, must be the
// interaction's own.
func (p *Projection) Resolve(a *api.Attempt) (subject.Ref, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.RequestID != "" {
		ref, err := p.lookup(a.RequestID)
		if err != nil {
			return ref, err
		}
		if a.SessionID != "" && !p.inSession(ref, a.SessionID) {
			return subject.Ref{}, api.ErrNotFound
		}
		return ref, nil
	}
	// Tool call ids are unique inside a turn only: they name the one open
	// interaction of a session that carries them.
	key, err := p.sessionByID(a.SessionID)
	if err != nil {
		return subject.Ref{}, err
	}
	var hits []subject.Ref
	var decided *subject.Ref // its closed event is still on its way
	if s := p.sessions[key]; s != nil {
		for _, en := range s.pending {
			switch {
			case en.summary.ToolCallID != a.ToolCallID:
			case p.isDecided(en.Ref):
				decided = &en.Ref
			default:
				hits = append(hits, en.Ref)
			}
		}
	}
	if len(hits) == 0 {
		if decided != nil {
			return *decided, nil
		}
		if ref, ok := p.closed.ByToolCall(key, a.ToolCallID); ok {
			return ref, nil
		}
		return subject.Ref{}, api.ErrNotFound
	}
	if len(hits) > 1 {
		return subject.Ref{}, hitl.Invalid("tool_call_id", "names more than one interaction: use request_id")
	}
	// What comes late for the decided one must not decide the next.
	if _, over := p.closed.ByToolCall(key, a.ToolCallID); (over || decided != nil) && a.Digest == "" {
		return subject.Ref{}, hitl.Invalid("tool_call_id", "names one that is decided as well: use request_id, or send digest with it")
	}
	return hits[0], nil
}

// Lookup turns an interaction's id or key into a ref; unknown keys pass,
// because the record may know more than this gateway holds.
func (p *Projection) Lookup(id string) (subject.Ref, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lookup(id)
}

func (p *Projection) lookup(id string) (subject.Ref, error) {
	if ref, ok := subject.ParseRef(id); ok {
		return ref, nil
	}
	refs := p.byID[id]
	if len(refs) == 0 {
		refs = p.closed.ByPlainID(id)
	}
	switch len(refs) {
	case 0:
		return subject.Ref{}, api.ErrNotFound
	case 1:
		return refs[0], nil
	}
	return subject.Ref{}, api.ErrAmbiguous
}

// Waiting finds what waits, by id or key.
func (p *Projection) Waiting(id string) (wire.Summary, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ref, err := p.lookup(id)
	en := p.open[ref]
	if err != nil || en == nil || p.isDecided(ref) {
		return wire.Summary{}, false
	}
	return en.Summary(), true
}

func (p *Projection) inSession(ref subject.Ref, session string) bool {
	var key subject.Session
	var id string
	if en := p.open[ref]; en != nil {
		key, id = en.session, en.summary.SessionID
	} else if c := p.closed.Get(ref); c != nil {
		key, id = subject.NewSession(c.Tenant, c.Owner, c.SessionID), c.SessionID
	} else {
		return true // not held here: the stored request settles it
	}
	return session == key.String() || session == id
}

// Session finds a session by its key or its plain id.
func (p *Projection) Session(id string) (subject.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessionByID(id)
}

func (p *Projection) sessionByID(id string) (subject.Session, error) {
	if ref, ok := subject.ParseRef(id); ok {
		key := subject.Session(ref)
		if p.sessions[key] != nil {
			return key, nil
		}
	}
	var hits []subject.Session
	for s := range p.index.byID[id] {
		hits = append(hits, s.key)
	}
	switch len(hits) {
	case 0:
		return subject.Session{}, api.ErrNotFound
	case 1:
		return hits[0], nil
	}
	return subject.Session{}, api.ErrAmbiguous
}
