package door

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/services/gateway/internal/ask"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// ask puts a request before people and waits for what they say. Whoever is
// signed in may ask; deciding it is somebody else's.
func (d *Door) ask(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	wait := ask.MaxWait
	if text := r.URL.Query().Get("wait"); text != "" {
		v, err := time.ParseDuration(text)
		if err != nil || v < 0 || v > ask.MaxWait {
			failInvalid(w, hitl.Invalid("wait", "must be a duration of at most %s, for example 10s", ask.MaxWait))
			return
		}
		wait = v
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		unread(w, err, maxBody)
		return
	}
	var about struct {
		ProjectID string `json:"project_id"`
	}
	_ = json.Unmarshal(raw, &about) // what is wrong with it is said below
	if !sess.Rights.Sees(d.Tenant, about.ProjectID) {
		fail(w, http.StatusForbidden, string(hitl.Forbidden), "you have no role in this project")
		return
	}
	if out, refused := d.Asker.Ask(trace.Read(r.Header).In(r.Context()), d.Tenant, sess.Person, raw, wait); refused != nil {
		reply(w, statusOfCode(refused.Code), refused)
	} else {
		reply(w, http.StatusOK, out)
	}
}

// statusOfCode is the HTTP status of an asking that failed.
func statusOfCode(code string) int {
	switch code {
	case "too_large":
		return http.StatusRequestEntityTooLarge
	case "conflict":
		return http.StatusConflict
	case "too_many":
		return http.StatusTooManyRequests
	}
	return statusOf(hitl.Status(code))
}
