package door

import (
	"net/http"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// alertsOf tells whoever may decide an interaction who was alerted of it.
func (d *Door) alertsOf(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	ix, err := d.Engine.Interaction(r.Context(), r.PathValue("id"))
	if err == nil && !sess.Rights.Sees(ix.Tenant, ix.ProjectID) {
		err = api.ErrNotFound
	}
	if err != nil {
		d.engineError(w, err, "interaction")
		return
	}
	if _, ok := sess.Rights.Decides(ix.Kind, ix.Tenant, ix.ProjectID); !ok {
		fail(w, http.StatusForbidden, string(hitl.Forbidden), "who was alerted is told to those who may decide")
		return
	}
	out, err := d.AlertsOf(r.Context(), ix.Key)
	if err != nil {
		d.log.Warn("alerts not told", "interaction", ix.Key, "error", err)
		fail(w, http.StatusServiceUnavailable, string(hitl.Unavailable), "what became of the alerts cannot be told now")
		return
	}
	reply(w, http.StatusOK, out)
}
