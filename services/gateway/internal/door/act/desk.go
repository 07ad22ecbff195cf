// Package act is what a signed-in person may do, whatever door the person came
// by: decide, start sessions, command them. Who it is comes from the session,
// never from the message.
package act

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// Desk takes what people want to the engine. Engine and Logger are required.
type Desk struct {
	Engine api.Engine
	Logger *slog.Logger
	// DefaultCwd is where a new session runs that names no directory.
	DefaultCwd string
	// Tenant and Pool are where sessions start that name none.
	Tenant, Pool string
}

// Decide makes an attempt to decide in the name of a signed-in person. Who it
// is comes from the session, never from the message.
func (d *Desk) Decide(ctx context.Context, sess *auth.Session, a api.Attempt) wire.Receipt {
	a.Principal, a.Channel, a.Assurance = sess.Person, sess.Channel, sess.Assurance
	rec := d.Engine.Decide(ctx, a)
	rec.Type, rec.Ref = wire.TypeReceipt, a.Ref
	return rec
}

// Describe words an error of the engine for people; details are logged only.
func (d *Desk) Describe(err error, what string) (hitl.Status, string) {
	var inv *hitl.InvalidError
	switch {
	case errors.Is(err, api.ErrNotFound):
		return hitl.NotFound, "no such " + what
	case errors.Is(err, api.ErrAmbiguous):
		return hitl.BadInput, "more than one " + what + " has this id: use its key"
	case errors.Is(err, api.ErrNoWorker):
		return hitl.Unavailable, "no agent worker is connected"
	case errors.As(err, &inv):
		return hitl.BadInput, inv.Error()
	}
	if !errors.Is(err, context.Canceled) {
		d.Logger.Warn("engine call failed", "what", what, "error", err)
	}
	return hitl.Unavailable, "this cannot be done now; try again"
}

// Invalid is the receipt that names the wrong fields.
func Invalid(inv *hitl.InvalidError) hitl.Receipt {
	return hitl.Receipt{Status: hitl.BadInput, Error: inv.Error(), Fields: inv.Fields}
}

// Decode is strict where two readers could read two things: duplicate keys,
// invalid UTF-8. The error names the field, or what as a whole.
func Decode(raw []byte, what string, v any) *hitl.InvalidError {
	if len(raw) == 0 {
		return hitl.Invalid(what, "is empty")
	}
	if err := hitl.CheckJSON(raw); err != nil {
		if quoted, ok := strings.CutPrefix(err.Error(), "duplicate key "); ok {
			if key, err := strconv.Unquote(quoted); err == nil {
				return hitl.Invalid(Clip(key), "stands twice")
			}
		}
		return hitl.Invalid(what, "is not valid JSON: %v", err)
	}
	err := json.Unmarshal(raw, v)
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) && typ.Field != "" {
		return hitl.Invalid(strings.TrimPrefix(typ.Field, "Response."), "must not be a JSON %s", typ.Value)
	}
	if err != nil {
		return hitl.Invalid(what, "must be a JSON object")
	}
	return nil
}

// Clip keeps what a client sent short where it is repeated to it.
func Clip(s string) string {
	s, _ = hitl.Visible(s)
	if r := []rune(s); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return s
}
