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
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/permit"
	"github.com/banksman/banksman/services/gateway/internal/presence"
	"github.com/banksman/banksman/services/gateway/internal/sight"
)

// Desk takes what people want to the engine. Engine, Auth, Presence and Logger are
// required.
type Desk struct {
	Engine   api.Engine
	Auth     *auth.Store
	Presence *presence.Desk
	Logger   *slog.Logger
	// DefaultCwd is where a new session runs that names no directory.
	DefaultCwd string
	// AskCommand is how one asks from a shell here; empty: unknown.
	AskCommand string
	// Tenant and Pool are where sessions start that name none.
	Tenant, Pool string
}

// Decide makes an attempt to decide in the name of a signed-in person. Who it
// is comes from the session, never from the message.
func (d *Desk) Decide(ctx context.Context, sess *auth.Session, a api.Attempt) wire.Receipt {
	Sign(&a, sess, d.Auth)
	rec := d.Engine.Decide(ctx, a)
	wayToProof(&rec.Receipt)
	rec.Type, rec.Ref = wire.TypeReceipt, a.Ref
	return rec
}

// mode says why a signed-in person may not put a session of an owner, by its token, into
// a mode.
func (d *Desk) mode(ctx context.Context, sess *auth.Session, mode, owner string) *hitl.Receipt {
	var a api.Attempt
	Sign(&a, sess, d.Auth)
	refused := permit.Mode(ctx, &a, mode, owner, time.Now())
	if refused != nil {
		wayToProof(refused)
	}
	return refused
}

// wayToProof names the page where a person proves to be there, if that is what is missing.
func wayToProof(rec *hitl.Receipt) {
	if f := rec.Fields; rec.Status == hitl.Forbidden && len(f) == 1 && strings.HasPrefix(f[0].Problem, "step_up") {
		rec.Error += " (" + auth.SignInPage + "#proof)"
	}
}

// Sign puts on an attempt who makes it, as the session says.
func Sign(a *api.Attempt, sess *auth.Session, store *auth.Store) {
	a.Principal, a.Rights, a.Channel, a.Assurance = sess.Person, sess.Rights, sess.Channel, sess.Assurance
	a.From, a.AskedFor = sess.From, sess.AskedFor
	a.Presence = func(ctx context.Context) (bool, time.Time, error) {
		// A session may have got a passkey, or have used one, since it was read.
		now, err := store.CheckHash(ctx, sess.Hash)
		if err != nil {
			return false, time.Time{}, err
		}
		return now.HasPasskey, now.ProvedAt, nil
	}
}

// place is where a session that a person sees belongs, with its key. The place of
// a session that is only known in the record is not known: those who have all
// projects of all tenants may read it.
func (d *Desk) place(sess *auth.Session, idOrKey string) (key string, at sight.Place, err error) {
	if key, err = d.Engine.ResolveSession(idOrKey); err != nil || sess.Rights.All() {
		return key, at, err
	}
	st, _ := d.Engine.Session(key)
	if _, ok := sight.State(sess.Rights, st); !ok {
		return "", at, api.ErrNotFound
	}
	return key, sight.Place{Tenant: st.Tenant, Project: st.ProjectID}, nil
}

// Session finds a session that a person sees, by id or key.
func (d *Desk) Session(sess *auth.Session, idOrKey string) (key string, err error) {
	key, _, err = d.place(sess, idOrKey)
	return key, err
}

// Place is where a session belongs, by its key.
func (d *Desk) Place(key string) sight.Place {
	st, _ := d.Engine.Session(key)
	return sight.Place{Tenant: st.Tenant, Project: st.ProjectID}
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
