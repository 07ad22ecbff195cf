package door

import (
	"net/http"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

func (d *Door) services(w http.ResponseWriter, r *http.Request, _ *auth.Session) {
	reply(w, http.StatusOK, wire.Services{Runtimes: d.Engine.Runtimes(), Notifier: d.alerts.State(r.Context(), d.NotifierListens)})
}
