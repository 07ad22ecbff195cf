package door

import (
	"net/http"

	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// pushing adds the routes of browsers that want pushes.
func (d *Door) pushing(serve func(string, http.HandlerFunc), person func(string, signedIn)) {
	d.Pushes.Routes(serve, func(pattern string, h func(http.ResponseWriter, *http.Request, *auth.Session)) { person(pattern, h) })
}

// unpush has all browsers of a person told nothing more. Their sign-ins have ended
// already, which does the same as long as they would have lasted.
func (d *Door) unpush(r *http.Request, person string) {
	if err := d.Pushes.Forget(r.Context(), person); err != nil {
		d.log.Warn("the browsers of a person could not be forgotten", "person", person, "error", err)
	}
}
