package door

import (
	"net/http"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/audience"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// audience tells whoever may decide an interaction who else may.
func (d *Door) audience(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	ix, err := d.Engine.Interaction(r.Context(), r.PathValue("id"))
	if err == nil && !sess.Rights.Sees(ix.Tenant, ix.ProjectID) {
		err = api.ErrNotFound
	}
	if err != nil {
		d.engineError(w, err, "interaction")
		return
	}
	if _, ok := sess.Rights.Decides(ix.Kind, ix.Tenant, ix.ProjectID); !ok {
		fail(w, http.StatusForbidden, string(hitl.Forbidden), "who else may decide is told to those who may")
		return
	}
	out, err := audience.Of(r.Context(), d.Auth, ix, sess)
	if err != nil {
		d.authError(w, err, "listing people")
		return
	}
	reply(w, http.StatusOK, out)
}
