// Package sight cuts what leaves the gateway down to what its reader may see:
// nothing of projects the reader has no role in, and of the rest the detail only
// where the reader may answer. Every door uses it, and what it does not know it
// withholds.
package sight

import (
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// detail reports whether s may see what an interaction is about.
func detail(s role.Set, kind, tenant, project string) bool {
	_, ok := s.Decides(kind, tenant, project)
	return ok
}

// summary is what s may see of an interaction of a project that s sees.
func summary(s role.Set, sum wire.Summary) wire.Summary {
	if detail(s, sum.Kind, sum.Tenant, sum.ProjectID) {
		return sum
	}
	// The agent's title repeats commands and paths, and so does the sentence
	// that is made from the request: this one is made from names alone.
	sum.Headline = plain(&sum)
	sum.Title = sum.Headline
	sum.ToolInput, sum.Cut, sum.Digest, sum.RiskReason, sum.Body = "", false, "", "", nil
	return sum
}

func plain(sum *wire.Summary) string {
	r := &hitl.Request{Kind: sum.Kind, AgentName: sum.AgentName, Owner: sum.Owner}
	if sum.ToolName != "" {
		r.Tool = &hitl.Tool{Name: sum.ToolName}
	}
	return hitl.Headline(r)
}

// decision is what s may see of an answer: who gave one, when, and which it is.
func decision(s role.Set, sum *wire.Summary, d *hitl.Decision) *hitl.Decision {
	if d == nil || detail(s, sum.Kind, sum.Tenant, sum.ProjectID) {
		return d
	}
	return &hitl.Decision{
		V: d.V, DecisionID: d.DecisionID, InteractionID: d.InteractionID, Content: hitl.Content{Outcome: d.Outcome},
		Principal: d.Principal, Channel: d.Channel, Policy: d.Policy, DecidedAt: d.DecidedAt, RequestedAt: d.RequestedAt,
	}
}

func trail(s role.Set, sum *wire.Summary, acks []hitl.Ack) []hitl.Ack {
	if detail(s, sum.Kind, sum.Tenant, sum.ProjectID) {
		return acks
	}
	var out []hitl.Ack
	for _, a := range acks {
		a.Detail = ""
		out = append(out, a)
	}
	return out
}

// Interaction is what s may see of ix; false: not even that it exists.
func Interaction(s role.Set, ix wire.Interaction) (wire.Interaction, bool) {
	if s.All() {
		return ix, true
	}
	if !s.Sees(ix.Tenant, ix.ProjectID) {
		return wire.Interaction{}, false
	}
	body := ix.Body
	ix.Decision, ix.Trail = decision(s, &ix.Summary, ix.Decision), trail(s, &ix.Summary, ix.Trail)
	ix.Summary = summary(s, ix.Summary)
	if body != nil && ix.Body == nil { // there is one, and it is empty for s
		ix.Body = &wire.Body{Verbs: []string{}, Scopes: []string{}}
	}
	return ix, true
}

func closed(s role.Set, c wire.Closed) wire.Closed {
	c.Decision, c.Trail = decision(s, &c.Summary, c.Decision), trail(s, &c.Summary, c.Trail)
	c.Summary = summary(s, c.Summary)
	return c
}

// State is what s may see of a session; false: nothing. A session of a project
// that s does not see shows for what waits in it.
func State(s role.Set, st wire.ProcessState) (wire.ProcessState, bool) {
	if s.All() {
		return st, true
	}
	listed := len(st.PendingRequests)
	cut := st.PendingCount > listed
	pending := make([]wire.Summary, 0, listed)
	for _, sum := range st.PendingRequests {
		if s.Sees(sum.Tenant, sum.ProjectID) {
			pending = append(pending, summary(s, sum))
		}
	}
	var ended []wire.Closed
	for _, c := range st.Closed {
		if s.Sees(c.Tenant, c.ProjectID) {
			ended = append(ended, closed(s, c))
		}
	}
	sees := s.Sees(st.Tenant, st.ProjectID)
	st.PendingRequests, st.PendingRequest, st.Closed = pending, nil, ended
	if len(pending) < listed || !sees {
		// How many more s may see nobody has counted; that there may be some has to be
		// said, or what is not listed would count as over.
		if st.PendingCount = len(pending); cut {
			st.PendingCount++
		}
	}
	if len(pending) > 0 {
		first := pending[0]
		first.Body = nil
		st.PendingRequest = &first
	}
	if !s.Reads(st.Tenant, st.ProjectID) {
		st.SessionState = bare(st.SessionState, sees)
	}
	return st, sees || len(pending) > 0 || len(ended) > 0
}

// bare is a session's state without what is said and done in it.
func bare(st hitl.SessionState, sees bool) hitl.SessionState {
	out := hitl.SessionState{
		V: st.V, SessionID: st.SessionID, Tenant: st.Tenant, Owner: st.Owner, Generation: st.Generation,
		Runtime: st.Runtime, State: st.State, StartedAt: st.StartedAt, StateChangedAt: st.StateChangedAt,
	}
	if sees {
		out.ProjectID = st.ProjectID
	}
	return out
}

// States are what s may see of sessions.
func States(s role.Set, list []wire.ProcessState) []wire.ProcessState {
	if s.All() {
		return list
	}
	out := []wire.ProcessState{}
	for _, st := range list {
		if st, ok := State(s, st); ok {
			out = append(out, st)
		}
	}
	return out
}

// Lists says what is listed for s; nil where everything is.
func Lists(s role.Set) func(*wire.Summary) bool {
	if s.All() {
		return nil
	}
	return func(sum *wire.Summary) bool { return s.Sees(sum.Tenant, sum.ProjectID) }
}

// Interactions are what s may see of a list.
func Interactions(s role.Set, list []wire.Interaction) []wire.Interaction {
	out := []wire.Interaction{}
	for _, ix := range list {
		if ix, ok := Interaction(s, ix); ok {
			out = append(out, ix)
		}
	}
	return out
}
