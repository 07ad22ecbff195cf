package svc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/ask"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/door/act"
	"github.com/banksman/banksman/services/gateway/internal/role"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
)

// maxList is the most that one list returns.
const maxList = 1000

// channel is what decisions that came this way are recorded with: whose terminal it
// was, a service that a notifier had asked, or the caller.
func (s *Service) channel(c caller) string {
	switch {
	case s.terminal(c):
		return "cli"
	case c.name == notifier:
		return "decider"
	}
	return "service:" + c.name
}

// terminal reports whether a caller may begin logins.
func (s *Service) terminal(c caller) bool {
	return c.tenant == subject.Token(s.Tenant) && slices.Contains(s.LoginCallers, c.name)
}

// call does one call. The reply, or what the caller is told instead.
func (s *Service) call(ctx context.Context, c caller, verb string, body []byte) (any, *wire.Error) {
	switch verb {
	case wire.VerbList, wire.VerbGet, wire.VerbDecide, wire.VerbExport, wire.VerbTicket:
		select {
		case <-s.Engine.Ready():
		default: // half a list would say that nothing else is open
			return nil, &wire.Error{Code: string(hitl.Unavailable), Error: "the gateway is still loading what is open; try again"}
		}
	}
	switch verb {
	case wire.VerbList:
		return s.list(ctx, c, body)
	case wire.VerbGet:
		return s.get(ctx, c, body)
	case wire.VerbDecide:
		return s.decide(ctx, c, body)
	case wire.VerbExport:
		return s.export(ctx, c, body)
	case wire.VerbTicket:
		return s.ticket(ctx, c, body)
	case wire.VerbPush:
		return s.push(ctx, c, body)
	case wire.VerbLogin:
		return s.login(ctx, c, body)
	case wire.VerbAsk:
		return s.ask(ctx, c, body)
	case wire.VerbCancel:
		return nil, &wire.Error{
			Code:  "unsupported",
			Error: verb + " is not offered yet by the service API: an owner withdraws on its own subjects",
		}
	}
	return nil, &wire.Error{Code: string(hitl.NotFound), Error: "the service API has no verb " + act.Clip(verb)}
}

// ask puts a caller's request before people. Who asks is the caller, whatever
// the body says.
func (s *Service) ask(ctx context.Context, c caller, body []byte) (any, *wire.Error) {
	out, refused := s.Asker.Ask(ctx, c.tenant, hitl.Principal{Kind: "service", ID: c.name}, body, ask.MaxWait)
	if refused != nil {
		return nil, refused
	}
	return out, nil
}

func bad(inv *hitl.InvalidError) *wire.Error {
	return &wire.Error{Code: string(hitl.BadInput), Error: inv.Error(), Fields: inv.Fields}
}

func (s *Service) list(ctx context.Context, c caller, body []byte) (any, *wire.Error) {
	var in wire.ListCall
	if len(body) > 0 {
		if inv := act.Decode(body, "call", &in); inv != nil {
			return nil, bad(inv)
		}
	}
	switch in.State {
	case "":
		in.State = wire.StatePending
	case wire.StatePending, wire.StateClosed:
	default:
		return nil, bad(hitl.Invalid("state", "must be pending or closed"))
	}
	if in.Limit < 0 {
		return nil, bad(hitl.Invalid("limit", "must not be negative"))
	}
	if in.Limit == 0 || in.Limit > maxList {
		in.Limit = maxList
	}
	after, ok := cursor.ParseRow(in.After)
	if in.After != "" && !ok {
		return nil, bad(hitl.Invalid("after", "is not the next of a list"))
	}
	all, more, err := s.Engine.List(ctx, api.List{State: in.State, Limit: in.Limit, After: after, Tenant: c.tenant})
	if err != nil {
		return nil, s.word("list", err)
	}
	// What fits: summaries without their bodies are at most 2 KiB, but a
	// closed one has its answer. One that never fits is found by its id.
	out := wire.ListReply{Interactions: []wire.Interaction{}}
	size := 0
	for i := range all {
		all[i].Body = nil
		raw, err := hitl.Marshal(&all[i])
		if err != nil {
			return nil, s.word("list", err)
		}
		if size += len(raw) + 1; size > s.room()-2<<10 {
			if len(out.Interactions) > 0 {
				more = true
				break
			}
			size = 0
		} else {
			out.Interactions = append(out.Interactions, all[i])
		}
		out.Next = cursor.RowOf(&all[i]).String()
	}
	if !more {
		out.Next = ""
	}
	return out, nil
}

// sees reports whether an interaction is of the caller's tenant.
func (c caller) sees(ix *wire.Interaction) bool { return subject.Token(ix.Tenant) == c.tenant }

func (s *Service) get(ctx context.Context, c caller, body []byte) (any, *wire.Error) {
	var in wire.GetCall
	if inv := act.Decode(body, "call", &in); inv != nil {
		return nil, bad(inv)
	}
	return s.find(ctx, c, in.ID)
}

func (s *Service) find(ctx context.Context, c caller, id string) (*wire.Interaction, *wire.Error) {
	if id == "" {
		return nil, bad(hitl.Invalid("id", "is missing"))
	}
	ix, err := s.Engine.Interaction(ctx, id)
	if err == nil && !c.sees(ix) {
		err = api.ErrNotFound
	}
	if err != nil {
		return nil, s.word("get", err)
	}
	return ix, nil
}

// decide is for people at a caller. Every attempt gets a receipt.
func (s *Service) decide(ctx context.Context, c caller, body []byte) (any, *wire.Error) {
	var in wire.DecideCall
	if inv := act.Decode(body, "call", &in); inv != nil {
		return nil, bad(inv)
	}
	receipt := func(r hitl.Receipt) (any, *wire.Error) {
		return wire.Receipt{Type: wire.TypeReceipt, Ref: in.Ref, RequestID: in.ID, SessionID: in.SessionID, Receipt: r}, nil
	}
	if strings.HasPrefix(in.Token, wire.TicketPrefix) {
		if c.name != notifier {
			return receipt(hitl.Receipt{Status: hitl.Forbidden, Error: "this caller brings no tickets"})
		}
		return s.Tickets.Decide(ctx, ticket.Use{
			Token: in.Token, Via: wire.TicketChat, Person: in.Person, Key: in.ID, AsTold: in.AsTold, Tenant: c.tenant, From: "caller " + c.name, Response: in.Response,
		}), nil
	}
	sess, refused := s.person(ctx, in.Token)
	if refused != nil {
		return receipt(hitl.Receipt{Status: hitl.Status(refused.Code), Error: refused.Error})
	}
	if in.ID == "" || in.RequestID != "" && in.RequestID != in.ID {
		return receipt(act.Invalid(hitl.Invalid("id", "is missing, or contradicts request_id")))
	}
	ix, refused := s.find(ctx, c, in.ID)
	if refused != nil {
		return receipt(hitl.Receipt{Status: hitl.Status(refused.Code), Error: refused.Error, Fields: refused.Fields})
	}
	in.RequestID = ix.Key
	a := api.Attempt{Response: in.Response}
	sess.From = "caller " + c.name
	act.Sign(&a, sess, s.Auth)
	a.Channel = s.channel(c)
	rec := s.Engine.Decide(ctx, a)
	rec.Type, rec.Ref, rec.RequestID = wire.TypeReceipt, in.Ref, in.ID
	return rec, nil
}

// notifier is the caller that every tenant's notifier is.
const notifier = "notifier"

// ticket makes a ticket for a notifier. No other caller knows people by anything
// but their own tokens.
func (s *Service) ticket(ctx context.Context, c caller, body []byte) (any, *wire.Error) {
	var in wire.TicketCall
	if c.name != notifier {
		return nil, &wire.Error{Code: string(hitl.Forbidden), Error: "this caller may not have tickets made"}
	}
	if inv := act.Decode(body, "call", &in); inv != nil {
		return nil, bad(inv)
	}
	out, refused := s.Tickets.Mint(ctx, c.tenant, in)
	if refused != nil {
		return nil, refused
	}
	return out, nil
}

// push tells a notifier the browsers of a person.
func (s *Service) push(ctx context.Context, c caller, body []byte) (any, *wire.Error) {
	var in wire.PushCall
	if c.name != notifier {
		return nil, &wire.Error{Code: string(hitl.Forbidden), Error: "this caller may not push"}
	}
	if inv := act.Decode(body, "call", &in); inv != nil {
		return nil, bad(inv)
	}
	if in.User == wire.Everybody {
		return s.pushToAll(ctx, c, &in)
	}
	list, err := s.Pushes.Targets(ctx, c.tenant, in.User, in.Gone)
	if err != nil {
		return nil, s.word("push", err)
	}
	return wire.PushReply{Browsers: list}, nil
}

// pushToAll are the browsers of everybody who may decide the interaction of a call.
func (s *Service) pushToAll(ctx context.Context, c caller, in *wire.PushCall) (any, *wire.Error) {
	may := func(r role.Set) bool { return r.In(c.tenant) }
	if in.Key != "" {
		ix, refused := s.find(ctx, c, in.Key)
		if refused != nil {
			return nil, refused
		}
		may = func(r role.Set) bool {
			_, ok := r.Decides(ix.Kind, ix.Tenant, ix.ProjectID)
			return ok
		}
	}
	list, err := s.Pushes.Everybody(ctx, in.Gone, may)
	if err != nil {
		return nil, s.word("push", err)
	}
	return wire.PushReply{Browsers: list}, nil
}

// person is whose session token came with a call.
func (s *Service) person(ctx context.Context, token string) (*auth.Session, *wire.Error) {
	if token == "" {
		return nil, &wire.Error{
			Code:  string(hitl.Forbidden),
			Error: "this caller may not do that: a person's session token must come with the call (banksman login --cli)",
		}
	}
	sess, err := s.Auth.Check(ctx, token)
	switch {
	case errors.Is(err, auth.ErrUnknown):
		return nil, &wire.Error{
			Code: string(hitl.Forbidden), Error: "the session token is unknown or has expired: run banksman login --cli",
		}
	case err != nil:
		s.log.Warn("session not checked", "error", err)
		return nil, &wire.Error{Code: string(hitl.Unavailable), Error: "the session cannot be checked now; nothing was done"}
	}
	return sess, nil
}

// export is for people at a caller: a decision with its signature.
func (s *Service) export(ctx context.Context, c caller, body []byte) (any, *wire.Error) {
	var in wire.ExportCall
	if inv := act.Decode(body, "call", &in); inv != nil {
		return nil, bad(inv)
	}
	sess, refused := s.person(ctx, in.Token)
	if refused != nil {
		return nil, refused
	}
	ix, refused := s.find(ctx, c, in.ID)
	if refused != nil {
		return nil, refused
	}
	if !sess.Rights.Sees(ix.Tenant, ix.ProjectID) {
		return nil, s.word("export", api.ErrNotFound)
	}
	if _, ok := sess.Rights.Decides(ix.Kind, ix.Tenant, ix.ProjectID); !ok {
		return nil, &wire.Error{Code: string(hitl.Forbidden), Error: "none of your roles shows what this is about"}
	}
	ref, ok := subject.ParseRef(ix.Key)
	if !ok || ix.State != wire.StateClosed {
		return nil, &wire.Error{Code: string(hitl.NotFound), Error: "this is not decided yet"}
	}
	at := subject.Decision(ref)
	m, err := s.Conn.RequestWithContext(ctx, subject.Direct(journal.Decisions, at), nil)
	if err == nil && len(m.Data) == 0 { // a replica that is behind
		err = errors.New("no decision under " + at)
	}
	if err != nil {
		return nil, s.word("export", err)
	}
	return &wire.Evidence{
		V: 1, Subject: at, Signer: m.Header.Get(hitl.HeaderSigner), Signature: m.Header.Get(hitl.HeaderSignature),
		Decision: m.Data, Seq: m.Header.Get("Nats-Sequence"), StoredAt: m.Header.Get("Nats-Time-Stamp"),
	}, nil
}

func (s *Service) login(ctx context.Context, c caller, body []byte) (any, *wire.Error) {
	var in wire.LoginCall
	if len(body) > 0 {
		if inv := act.Decode(body, "call", &in); inv != nil {
			return nil, bad(inv)
		}
	}
	if !s.terminal(c) {
		return nil, &wire.Error{Code: string(hitl.Forbidden), Error: "this caller may not begin a login"}
	}
	switch {
	case in.Poll != "":
		req, token, sess, err := s.Auth.PollCLI(ctx, in.Poll)
		if err != nil {
			return nil, s.word("login", err)
		}
		if sess == nil {
			return wire.LoginReply{Code: req.Code, Poll: in.Poll, ExpiresAt: stamp(req.ExpiresAt)}, nil
		}
		return wire.LoginReply{Token: token, ExpiresAt: stamp(sess.ExpiresAt)}, nil
	case in.CLI:
		req, poll, err := s.Auth.RequestCLI(ctx, in.Name, in.Manage)
		if err != nil {
			return nil, s.word("login", err)
		}
		return wire.LoginReply{Code: req.Code, Poll: poll, ExpiresAt: stamp(req.ExpiresAt)}, nil
	}
	token, expires, err := s.Auth.RequestLink(ctx)
	if err != nil {
		return nil, s.word("login", err)
	}
	s.log.Info("login link made", "caller", c.name)
	return wire.LoginReply{URL: auth.LinkURL(s.BaseURL, token), ExpiresAt: stamp(expires)}, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// word tells a caller of an error; details are logged only.
func (s *Service) word(verb string, err error) *wire.Error {
	var inv *hitl.InvalidError
	switch {
	case errors.As(err, &inv):
		return bad(inv)
	case errors.Is(err, api.ErrNotFound):
		return &wire.Error{Code: string(hitl.NotFound), Error: "no such interaction"}
	case errors.Is(err, api.ErrAmbiguous):
		return bad(hitl.Invalid("id", "%v", api.ErrAmbiguous))
	case errors.Is(err, auth.ErrUnknown):
		return &wire.Error{Code: string(hitl.NotFound), Error: "no such login request: it was used or has expired"}
	case errors.Is(err, auth.ErrDenied):
		return &wire.Error{Code: string(hitl.Forbidden), Error: "the login was refused in the browser"}
	case errors.Is(err, auth.ErrBusy):
		return &wire.Error{Code: string(hitl.Unavailable), Error: auth.ErrBusy.Error()}
	}
	if !errors.Is(err, context.Canceled) {
		s.log.Warn("call failed", "verb", verb, "error", err)
	}
	return &wire.Error{Code: string(hitl.Unavailable), Error: "this cannot be done now; try again"}
}
