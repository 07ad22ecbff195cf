package door

import (
	"net/http"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/roster"
)

func (d *Door) services(w http.ResponseWriter, r *http.Request, _ *auth.Session) {
	s := wire.Services{Runtimes: d.Engine.Runtimes(), Notifier: d.alerts.State(r.Context(), d.NotifierListens)}
	if s.Notifier == roster.NotifierListening {
		s.Channels = d.alerts.Channels(r.Context(), d.Channels)
	}
	reply(w, http.StatusOK, s)
}
