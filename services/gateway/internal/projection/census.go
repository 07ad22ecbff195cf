package projection

import (
	"github.com/banksman/banksman/services/gateway/internal/metrics"
)

// Open tells of each interaction in the open set. each must not block, nor call the
// projection.
func (p *Projection) Open(each func(metrics.Open)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref, en := range p.open {
		state := metrics.Waiting
		if p.isDecided(ref) {
			state = metrics.Ending
		} else if s := p.sessions[en.session]; s != nil && s.known && p.unreachable(s) {
			state = metrics.Unreachable
		}
		each(metrics.Open{Kind: en.summary.Kind, Risk: en.summary.Risk, State: state, Asked: en.RequestedAt})
	}
}

// SessionStates tells the state of each session that is held.
func (p *Projection) SessionStates(each func(state string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		if s.known {
			each(s.state.State)
		}
	}
}

// Workers is how many workers' heartbeats come, and how many are missed.
func (p *Projection) Workers() (reachable, unreachable int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers.Count()
}
