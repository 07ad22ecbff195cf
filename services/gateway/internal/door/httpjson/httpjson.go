// Package httpjson reads and writes the bodies of HTTP requests and answers: JSON,
// with one form for everything that is refused.
package httpjson

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door/act"
)

// Write answers with v as JSON.
func Write(w http.ResponseWriter, status int, v any) {
	raw, err := hitl.Marshal(v)
	if err != nil { // only a bug can cause it
		status, raw = http.StatusInternalServerError, []byte(`{"code":"internal","error":"the answer cannot be encoded"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(raw)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // the client may be gone
}

// Fail answers that it was not done: a stable code, and words for people.
func Fail(w http.ResponseWriter, status int, code, text string, fields ...hitl.Field) {
	Write(w, status, wire.Error{Code: code, Error: text, Fields: fields})
}

// Invalid answers 400 and names the fields.
func Invalid(w http.ResponseWriter, err *hitl.InvalidError) {
	Fail(w, http.StatusBadRequest, string(hitl.BadInput), err.Error(), err.Fields...)
}

// StatusOf is the HTTP status of a receipt.
func StatusOf(s hitl.Status) int {
	switch s {
	case hitl.Accepted, hitl.Duplicate:
		return http.StatusOK
	case hitl.AlreadyDecided:
		return http.StatusConflict
	case hitl.TooLate:
		return http.StatusGone
	case hitl.NotFound:
		return http.StatusNotFound
	case hitl.Forbidden:
		return http.StatusForbidden
	case hitl.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest // invalid, digest_mismatch
}

// Read decodes a body of at most limit bytes into v. If it cannot, it has
// answered and returns false.
func Read(w http.ResponseWriter, r *http.Request, limit int64, v any) bool {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		Unread(w, err, limit)
		return false
	}
	if inv := act.Decode(raw, "body", v); inv != nil {
		Invalid(w, inv)
		return false
	}
	return true
}

// Errors gives the multiplexer's own refusals (no such route, no such
// method) the form of all others.
func Errors(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		probe := &probe{header: http.Header{}}
		h.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", probe.header.Get("Allow"))
			Fail(w, probe.status, "method_not_allowed", r.Method+" is not allowed here; allowed: "+probe.header.Get("Allow"))
			return
		}
		Fail(w, http.StatusNotFound, string(hitl.NotFound), "no such address")
	})
}

// probe is a response that goes nowhere.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }

// unread answers for a body that could not be read.
func Unread(w http.ResponseWriter, err error, limit int64) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		Fail(w, http.StatusRequestEntityTooLarge, "too_large", "the body is larger than "+strconv.FormatInt(limit, 10)+" bytes")
		return
	}
	Fail(w, http.StatusBadRequest, string(hitl.BadInput), "the body could not be read")
}
