package act

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
)

// DemoRuntime is the scripted runtime that needs no model.
const DemoRuntime = "demo"

// Start asks for a new session. The same command id asks for the same session,
// so that a client that heard nothing may ask again.
func (d *Desk) Start(ctx context.Context, sess *auth.Session, in wire.Client) wire.Receipt {
	rec := wire.Receipt{Type: wire.TypeReceipt, Ref: in.Ref}
	st := &hitl.Start{
		V: 1, Tenant: cmp.Or(in.Tenant, d.Tenant), Pool: cmp.Or(in.Pool, d.Pool), ProjectID: in.ProjectID,
		Runtime: in.Runtime, Prompt: in.Prompt, Attachments: in.Attachments,
		Cwd: cmp.Or(in.Cwd, d.DefaultCwd), Mode: in.Mode, Model: in.Model, StartedBy: sess.Person,
	}
	have := d.Engine.Runtimes()
	inv := &hitl.InvalidError{}
	if st.Runtime == "" {
		inv.Fields = append(inv.Fields, hitl.Field{Field: "runtime", Problem: "is missing"})
	} else if len(have) > 0 && !slices.Contains(have, st.Runtime) {
		inv.Fields = append(inv.Fields, hitl.Field{
			Field: "runtime", Problem: "is none that a connected worker runs: " + strings.Join(have, ", "),
		})
	}
	if strings.TrimSpace(st.Prompt) == "" && len(st.Attachments) == 0 && st.Runtime != DemoRuntime {
		inv.Fields = append(inv.Fields, hitl.Field{Field: "prompt", Problem: "is missing"})
	}
	if len(inv.Fields) > 0 {
		rec.Receipt = Invalid(inv)
		return rec
	}
	if !sess.Rights.Approves(st.Tenant, st.ProjectID) {
		rec.Status, rec.Error = hitl.Forbidden, "none of your roles starts sessions in this project"
		return rec
	}
	if refused := d.mode(ctx, sess, st.Mode, subject.Token(st.Pool)); refused != nil {
		rec.Receipt = *refused
		return rec
	}
	st.SessionID = uuid.NewString()
	if in.CommandID != "" {
		st.SessionID = hitl.ID(st.Tenant, st.Pool, "start "+sess.Person.ID+" "+in.CommandID, 1)
	}
	key, err := d.Engine.Start(ctx, st)
	if err != nil {
		rec.Status, rec.Error = d.Describe(err, "worker")
		return rec
	}
	d.Logger.Info("session asked for", "session", key, "runtime", st.Runtime, "by", sess.Person.ID)
	rec.Status, rec.SessionID = hitl.Accepted, key
	return rec
}

// Send takes a command to the worker of a session and its word back.
func (d *Desk) Send(ctx context.Context, sess *auth.Session, kind string, in wire.Client) wire.Receipt {
	rec := wire.Receipt{Type: wire.TypeReceipt, Ref: in.Ref, SessionID: in.SessionID}
	inv := &hitl.InvalidError{}
	missing := func(field string) { inv.Fields = append(inv.Fields, hitl.Field{Field: field, Problem: "is missing"}) }
	if in.SessionID == "" {
		missing("session_id")
	}
	if kind == hitl.CommandMessage && strings.TrimSpace(in.Text) == "" && len(in.Attachments) == 0 {
		missing("text")
	}
	if kind == hitl.CommandSetMode && in.Mode == "" {
		missing("mode")
	}
	if len(inv.Fields) > 0 {
		rec.Receipt = Invalid(inv)
		return rec
	}
	if kind == hitl.CommandSetMode || !sess.Rights.All() {
		key, at, err := d.place(sess, in.SessionID)
		if err != nil {
			rec.Status, rec.Error = d.Describe(err, "session")
			return rec
		}
		// A mode can approve everything in advance.
		if may := sess.Rights.Reads(at.Tenant, at.Project); !sess.Rights.All() && (!may || kind == hitl.CommandSetMode && !sess.Rights.Approves(at.Tenant, at.Project)) {
			rec.Status, rec.Error = hitl.Forbidden, "none of your roles does this in this project"
			return rec
		}
		in.SessionID = key
		if kind == hitl.CommandSetMode {
			ref, _ := subject.ParseRef(key) // has the form of a session's key
			if refused := d.mode(ctx, sess, in.Mode, ref.Owner); refused != nil {
				rec.Receipt = *refused
				return rec
			}
		}
	}
	res, err := d.Engine.Command(ctx, in.SessionID, hitl.Command{
		V: 1, CommandID: cmp.Or(in.CommandID, uuid.NewString()), Type: kind,
		Text: in.Text, Attachments: in.Attachments, Mode: in.Mode,
	})
	if err != nil {
		rec.Status, rec.Error = d.Describe(err, "session")
		return rec
	}
	rec.Error = res.Error
	switch res.Status {
	case "ok":
		rec.Status = hitl.Accepted
	case "duplicate":
		rec.Status = hitl.Duplicate
	case "invalid":
		rec.Status = hitl.BadInput
	case "not_found":
		rec.Status = hitl.NotFound
	default:
		rec.Status = hitl.Unavailable
	}
	if rec.Error == "" && rec.Status != hitl.Accepted && rec.Status != hitl.Duplicate {
		rec.Error = "the worker could not do it"
	}
	return rec
}
