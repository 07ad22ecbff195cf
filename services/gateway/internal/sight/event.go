package sight

import (
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// Place is where a session or an interaction belongs.
type Place struct{ Tenant, Project string }

// Events are what s may see of a session's stream; at is the session's place.
// What is about an interaction goes by that one's project and kind.
func Events(s role.Set, at Place, list []wire.Event) []wire.Event {
	if s.All() {
		return list
	}
	out := make([]wire.Event, 0, len(list))
	for _, ev := range list {
		if ev, ok := event(s, at, ev); ok {
			out = append(out, ev)
		}
	}
	return out
}

func event(s role.Set, at Place, ev wire.Event) (wire.Event, bool) {
	switch ev.Type {
	case hitl.EventSessionStatus:
		return ev, s.Reads(at.Tenant, at.Project)
	case hitl.EventDone:
		return ev, s.Sees(at.Tenant, at.Project)
	case hitl.EventText, hitl.EventTextDelta, hitl.EventToolCallStart, hitl.EventError:
		return ev, s.Reads(at.Tenant, at.Project)
	case hitl.EventToolCallDelta, hitl.EventToolCallEnd, hitl.EventToolResult:
		return ev, s.Approves(at.Tenant, at.Project)
	case hitl.EventInteractionPending:
		var about struct {
			ProjectID string `json:"project_id"`
		}
		return ev, json.Unmarshal(ev.Data, &about) == nil && s.Sees(at.Tenant, about.ProjectID)
	case hitl.EventApprovalRequired, hitl.EventQuestionPrompt:
		var about struct {
			ProjectID string `json:"project_id"`
		}
		kind := hitl.KindApproval
		if ev.Type == hitl.EventQuestionPrompt {
			kind = hitl.KindQuestion
		}
		return ev, json.Unmarshal(ev.Data, &about) == nil && detail(s, kind, at.Tenant, about.ProjectID)
	case hitl.EventInteractionRequest:
		var sum wire.Summary
		if json.Unmarshal(ev.Data, &sum) != nil || !s.Sees(sum.Tenant, sum.ProjectID) {
			return ev, false
		}
		return encode(ev, summary(s, sum))
	case hitl.EventInteractionResponse:
		var c wire.Closed
		if json.Unmarshal(ev.Data, &c) != nil || !s.Sees(c.Tenant, c.ProjectID) {
			return ev, false
		}
		return encode(ev, closed(s, c))
	}
	return ev, false
}

func encode(ev wire.Event, v any) (wire.Event, bool) {
	raw, err := hitl.Marshal(v)
	ev.Data = raw
	return ev, err == nil
}
