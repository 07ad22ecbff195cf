package sight

import (
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// Frames cuts the encoded frames of one reader, in their order. It is for one
// goroutine at a time.
type Frames struct {
	set   role.Set
	place func(session string) Place
	told  map[string]bool // sessions that the reader has heard of
}

// NewFrames makes the cutter of a reader, nil for one from whom nothing is
// hidden. place tells where a session belongs, by its key.
func NewFrames(s role.Set, place func(session string) Place) *Frames {
	if s.All() {
		return nil
	}
	return &Frames{set: s, place: place, told: map[string]bool{}}
}

// Cut returns what the reader gets of a frame, nil for nothing.
func (f *Frames) Cut(raw []byte) []byte {
	var head struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return nil
	}
	var out any
	switch head.Type {
	case wire.TypeHello, wire.TypePing, wire.TypeReceipt, "signed_in", "cli_login", "cli_login_settled", wire.TypeRulesChanged:
		return raw // made for this reader, or for whoever may confirm a terminal, or says nothing
	case wire.TypeProcessState:
		out = f.state(raw)
	case wire.TypeActiveProcesses:
		var page wire.ActiveProcesses
		if json.Unmarshal(raw, &page) != nil {
			return nil
		}
		page.Sessions = States(f.set, page.Sessions)
		for _, st := range page.Sessions {
			f.told[st.SessionKey] = true
		}
		out = page
	case wire.TypeEvent:
		var ev wire.Events
		if json.Unmarshal(raw, &ev) != nil {
			return nil
		}
		ev.Events = Events(f.set, f.place(ev.SessionKey), ev.Events)
		out = ev
	case wire.TypeDelivery:
		out = f.delivery(raw)
	}
	if out == nil {
		return nil
	}
	cut, err := hitl.Marshal(out)
	if err != nil {
		return nil
	}
	return cut
}

// state tells of a session that the reader sees, and of one the reader saw a
// moment ago: that nothing waits there any more must be told as well.
func (f *Frames) state(raw []byte) any {
	var st wire.ProcessState
	if json.Unmarshal(raw, &st) != nil {
		return nil
	}
	st, ok := State(f.set, st)
	if !ok && !f.told[st.SessionKey] {
		return nil
	}
	f.told[st.SessionKey] = true
	if !ok {
		delete(f.told, st.SessionKey)
	}
	return st
}

func (f *Frames) delivery(raw []byte) any {
	var d wire.Delivery
	if json.Unmarshal(raw, &d) != nil || !f.set.Sees(of(d.Key), d.ProjectID) {
		return nil
	}
	if !detail(f.set, d.Kind, of(d.Key), d.ProjectID) {
		d.Detail = ""
	}
	return d
}

// of is the tenant of an interaction by its key.
func of(key string) string {
	ref, _ := subject.ParseRef(key)
	return ref.Tenant
}
