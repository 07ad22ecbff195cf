package door

import (
	"net/http"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

func (d *Door) decision(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	var in hitl.Response
	if !read(w, r, maxBody, &in) {
		return
	}
	id := r.PathValue("id")
	if in.RequestID != "" && in.RequestID != id {
		failInvalid(w, hitl.Invalid("request_id", "contradicts the address"))
		return
	}
	in.RequestID = id
	rec := d.desk.Decide(r.Context(), sess, api.Attempt{Response: in})
	if rec.Status == hitl.NotFound {
		rec.Error = "No pending interaction"
	}
	answer(w, rec, rec)
}

// answer gives a receipt the form of HTTP: body where it is good news, else an
// error with the winner or the wrong fields.
func answer(w http.ResponseWriter, rec wire.Receipt, body any) {
	status := statusOf(rec.Status)
	if status == http.StatusOK {
		reply(w, status, body)
		return
	}
	reply(w, status, wire.Error{Code: string(rec.Status), Error: rec.Error, Fields: rec.Fields, Decision: rec.Decision})
}

// simple serves the routes that know one kind and one verb each. They have no
// digest to send: what is decided is what is stored.
func (d *Door) simple(kind, verb string) signedIn {
	return func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
		var in hitl.Response
		if !read(w, r, maxBody, &in) {
			return
		}
		if inv := simpleBody(&in, verb, r.PathValue("id")); inv != nil {
			failInvalid(w, inv)
			return
		}
		in.SessionID = r.PathValue("id")
		if verb != hitl.VerbAnswer {
			in.Decision = verb
		}
		rec := d.desk.Decide(r.Context(), sess, api.Attempt{Response: in, Kind: kind, WaiveDigest: in.Digest == ""})
		if rec.Status == hitl.NotFound {
			rec.Error = "No pending " + kind
		}
		answer(w, rec, wire.OK{OK: true})
	}
}

// simpleBody checks what the simple routes take, and refuses what they would
// otherwise have to drop: an edit that is lost would run what was not shown.
func simpleBody(in *hitl.Response, verb, session string) *hitl.InvalidError {
	inv := &hitl.InvalidError{}
	add := func(field, problem string) {
		inv.Fields = append(inv.Fields, hitl.Field{Field: field, Problem: problem})
	}
	if in.RequestID == "" && in.ToolCallID == "" {
		add("request_id", "is missing, and so is tool_call_id: one of them names what is meant")
	}
	if verb == hitl.VerbAnswer && len(in.Answers) == 0 {
		add("answers", "is missing")
	}
	if in.SessionID != "" && in.SessionID != session {
		add("session_id", "contradicts the address")
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"answers", len(in.Answers) > 0 && verb != hitl.VerbAnswer},
		{"decision", in.Decision != "" && in.Decision != verb},
		{"content", len(in.Content) > 0},
		{"updated_input", len(in.UpdatedInput) > 0},
		{"option_id", in.OptionID != ""},
		{"action", in.Action != ""},
		{"scope", in.Scope != ""},
		{"interrupt", in.Interrupt},
	} {
		if f.set {
			add(f.name, "does not belong here: use /api/interactions/{id}/decision")
		}
	}
	if len(inv.Fields) > 0 {
		return inv
	}
	return nil
}
