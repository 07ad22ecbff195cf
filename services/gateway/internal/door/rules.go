package door

import (
	"context"
	"errors"
	"net/http"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/rulebook"
)

// ruling adds the routes of the rules.
func (d *Door) ruling(with func(string, signedIn)) {
	with("GET /api/rules", func(w http.ResponseWriter, _ *http.Request, sess *auth.Session) {
		reply(w, http.StatusOK, wire.RuleList{Rules: d.Rules.List(sess)})
	})
	with("POST /api/rules/preview", ruled(d, d.Rules.Preview))
	with("POST /api/rules", ruled(d, d.Rules.Make))
	with("POST /api/rules/{id}", func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
		var in wire.ChangeRule
		if !read(w, r, maxManage, &in) {
			return
		}
		out, err := d.Rules.Change(r.Context(), sess, r.PathValue("id"), in)
		if err != nil {
			d.ruleError(w, err)
			return
		}
		reply(w, http.StatusOK, out)
	})
	with("DELETE /api/rules/{id}", func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
		if err := d.Rules.Revoke(r.Context(), sess, r.PathValue("id")); err != nil {
			d.ruleError(w, err)
			return
		}
		reply(w, http.StatusOK, wire.OK{OK: true})
	})
}

// ruled serves what takes the wish for a rule.
func ruled[T any](d *Door, do func(context.Context, *auth.Session, wire.NewRule) (T, error)) signedIn {
	return func(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
		var in wire.NewRule
		if !read(w, r, maxManage, &in) {
			return
		}
		out, err := do(r.Context(), sess, in)
		if err != nil {
			d.ruleError(w, err)
			return
		}
		reply(w, http.StatusOK, out)
	}
}

func (d *Door) ruleError(w http.ResponseWriter, err error) {
	var inv *hitl.InvalidError
	switch {
	case errors.As(err, &inv):
		failInvalid(w, inv)
	case errors.Is(err, rulebook.ErrUnknown):
		fail(w, http.StatusNotFound, string(hitl.NotFound), err.Error())
	case errors.Is(err, rulebook.ErrChanged):
		fail(w, http.StatusConflict, "conflict", err.Error())
	case errors.Is(err, rulebook.ErrForbidden):
		fail(w, http.StatusForbidden, string(hitl.Forbidden), "a rule takes a person at a browser who may decide such requests; it is ended by that person or an admin")
	default:
		d.engineError(w, err, "interaction")
	}
}

// RulesChanged tells everybody who is signed in that rules have changed.
func (d *Door) RulesChanged() { d.hub.RulesChanged() }
