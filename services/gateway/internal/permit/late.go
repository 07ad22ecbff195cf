package permit

import (
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/recent"
)

// Meant refuses an attempt that names another session or another kind than r's.
func Meant(a *api.Attempt, r *hitl.Request) *hitl.Receipt {
	if id := a.SessionID; id != "" && id != r.SessionID && id != subject.NewSession(r.Tenant, r.Owner, r.SessionID).String() {
		rec := api.Failure(api.ErrNotFound)
		return &rec
	}
	if a.Kind != "" && r.Kind != a.Kind {
		return &hitl.Receipt{Status: hitl.NotFound, Error: "nothing of the kind " + a.Kind + " is pending here"}
	}
	return nil
}

// Late is the receipt for an attempt on what is decided already.
func Late(a *api.Attempt, w *recent.Winner) hitl.Receipt {
	r := w.Asked()
	about := r
	if about == nil {
		about = &hitl.Request{} // only its digest was kept: nobody knows its project
	}
	if _, refused := Role(a, about); refused != nil {
		return *refused
	}
	if r != nil {
		if refused := Meant(a, r); refused != nil {
			return *refused
		}
		if saidAgain(a, w, r) {
			return hitl.Receipt{Status: hitl.Duplicate, Decision: w.Decision}
		}
	}
	if w.Outcome == hitl.Expired {
		return hitl.Receipt{Status: hitl.TooLate, Error: "nobody decided in time", Decision: w.Decision}
	}
	return hitl.Receipt{Status: hitl.AlreadyDecided, Error: "decided already", Decision: w.Decision}
}

// saidAgain reports whether an attempt says what its principal decided already.
func saidAgain(a *api.Attempt, w *recent.Winner, r *hitl.Request) bool {
	if a.Principal.Kind != w.Principal.Kind || a.Principal.ID != w.Principal.ID {
		return false // for most of a crowd; spares them the rest
	}
	if a.Digest != w.Digest && (a.Digest != "" || !a.WaiveDigest) {
		return false
	}
	c, err := hitl.Evaluate(r, &a.Response)
	if err != nil {
		return false
	}
	mine := hitl.Decision{Content: *c, Digest: w.Digest, Principal: a.Principal}
	return mine.SameAnswer(w.Decision)
}
