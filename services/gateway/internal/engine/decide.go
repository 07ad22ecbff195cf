package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/shown"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/permit"
	"github.com/banksman/banksman/services/gateway/internal/policy"
	"github.com/banksman/banksman/services/gateway/internal/record"
)

// system is the principal of outcomes that nobody chose.
var system = hitl.Principal{Kind: "system", ID: "gateway", Name: "Banksman"}

// decideLimit bounds one attempt: after it the outcome is unknown and a retry
// with the same content is safe.
const decideLimit = 10 * time.Second

// Decide implements api.Engine. It is the only path by which anybody decides.
func (e *Engine) Decide(ctx context.Context, a api.Attempt) wire.Receipt {
	ctx, cancel := context.WithTimeout(ctx, decideLimit)
	defer cancel()
	rec := e.decide(ctx, &a)
	e.opts.Metrics.Receipt(rec.Status)
	if rec.Decision != nil {
		rec.Decision = rec.Decision.WithoutRequest()
	}
	return wire.Receipt{
		Type: wire.TypeReceipt, Ref: a.Ref, RequestID: a.RequestID, SessionID: a.SessionID, Receipt: rec,
	}
}

func (e *Engine) decide(ctx context.Context, a *api.Attempt) hitl.Receipt {
	if a.RequestID == "" && a.ToolCallID == "" {
		return api.Invalid(hitl.Invalid("request_id", "is missing"))
	}
	ref, err := e.resolve(ctx, a)
	if err != nil {
		return api.Failure(err)
	}
	if w := e.winners.Get(ref); w != nil {
		return permit.Late(a, w)
	}
	t, winner, err := e.find(ctx, ref)
	switch {
	case err != nil:
		return api.Failure(err)
	case winner != nil:
		return permit.Late(a, e.winners.Add(ref, winner))
	}
	by, refused := permit.Role(a, t.Request)
	if refused != nil {
		return *refused
	}
	if refused := permit.Meant(a, t.Request); refused != nil {
		return *refused
	}
	content, err := hitl.Evaluate(t.Request, &a.Response)
	if err != nil {
		return api.Invalid(err)
	}
	switch {
	case a.Digest == "" && !a.WaiveDigest:
		return api.Invalid(hitl.Invalid("digest", "is missing: name the request that was shown"))
	case a.Digest != "" && a.Digest != t.Digest:
		return hitl.Receipt{Status: hitl.DigestMismatch, Error: "this is not the request that was shown; nothing was decided"}
	}
	said := *card.Said(t.Request, t.Admission)
	looks := shown.Digest(t.Request, &said)
	if said.Named = a.Shown != ""; said.Named && a.Shown != looks {
		return hitl.Receipt{Status: hitl.DigestMismatch, Error: "what is said of this request is not what was shown; nothing was decided"}
	}
	edited := e.edited(t, content)
	assurance, refused := permit.Presence(ctx, a, cmp.Or(edited, t.Policy.Risk), content, e.now())
	if refused != nil {
		return *refused
	}
	if refused := permit.Suggested(ctx, a, t.Request, content, e.now()); refused != nil {
		return *refused
	}
	w, written, err := e.winners.Turn(ctx, ref, e.wait)
	switch {
	case err != nil:
		return api.Failure(err)
	case w != nil:
		return permit.Late(a, w)
	}
	defer written()
	// The wait may have lasted beyond the deadline.
	over, err := e.clock.Over(ctx, e.opts.Journal, card.Deadline(t.Request, t.RequestedAt))
	if err != nil {
		return api.Failure(err)
	}
	if over {
		winner, err := e.settle(ctx, ref, e.clock.Server(), hitl.Content{Outcome: hitl.Expired}, system, "deadline")
		if err != nil {
			return api.Failure(err)
		}
		return permit.Late(a, e.winners.Add(ref, winner))
	}
	content.Rule = a.Rule
	d := t.Decision(*content, a.Principal, a.Channel, assurance, e.clock.Server())
	d.From, d.Shown, d.Card, d.Policy.Role = a.From, looks, &said, by
	d.Policy.Edited = edited
	winner, won, err := e.store(t.Trace.In(ctx), ref, d)
	if errors.Is(err, journal.ErrTooLarge) {
		return api.Invalid(hitl.Invalid("response", "is too large for this server together with its request"))
	}
	if err != nil {
		return api.Failure(err)
	}
	if won {
		e.log.InfoContext(winner.Trace.In(ctx), "decided", "interaction", ref.String(), "outcome", d.Outcome, "by", d.Principal.ID, "channel", d.Channel)
		return hitl.Receipt{Status: hitl.Accepted, Decision: winner.Decision}
	}
	return permit.Late(a, e.winners.Add(ref, winner))
}

// edited is the risk of what a person makes of a tool's input, where that is worse
// than what was asked.
func (e *Engine) edited(t *record.Target, c *hitl.Content) string {
	if len(c.UpdatedInput) == 0 || t.Request.Tool == nil {
		return ""
	}
	r, tool := *t.Request, *t.Request.Tool
	tool.Input = c.UpdatedInput
	r.Tool = &tool
	if now, _, _ := e.policy.Assess(&r); policy.Worse(now.Risk, t.Policy.Risk) {
		return now.Risk
	}
	return ""
}

// errUnread is for a stored request that cannot be read here: intake will soon
// have refused it, or shown it as the one reader that counts.
var errUnread = fmt.Errorf("%w yet", api.ErrNotFound)

// find loads what is to be decided: the open request, or the decision that
// exists already. A request that this gateway holds is taken as it is: who then
// stores a decision is told by the stream whether there is one.
func (e *Engine) find(ctx context.Context, ref subject.Ref) (*record.Target, *journal.StoredDecision, error) {
	p, ok := e.view.Pending(ref)
	if !ok || p.Decided || p.Raw == nil {
		return e.read(ctx, ref)
	}
	t := &record.Target{Admission: p.Admission, Raw: p.Raw, Digest: p.Summary.Digest}
	var err error
	t.Request, err = hitl.ParseRequest(t.Raw)
	return t, nil, err
}

// read is find by the streams alone: whoever only looks must not be told what
// this gateway has not heard of yet.
func (e *Engine) read(ctx context.Context, ref subject.Ref) (*record.Target, *journal.StoredDecision, error) {
	w, err := e.winner(ctx, ref)
	if w != nil || err != nil {
		return nil, w, err
	}
	m, err := e.opts.Journal.Request(ctx, ref)
	if errors.Is(err, journal.ErrNotFound) {
		// It may have been decided and swept since the look above.
		w, err := e.winner(ctx, ref)
		if w == nil && err == nil {
			err = api.ErrNotFound
		}
		return nil, w, err
	}
	if err != nil {
		return nil, nil, err
	}
	t := &record.Target{Raw: m.Data, Digest: hitl.Digest(m.Data)}
	if p, ok := e.view.Pending(ref); ok && p.Summary.Digest == t.Digest {
		// It is shown, so it can be settled: headers that two readers read in
		// two ways must not change that.
		t.Admission = p.Admission
		t.Request, err = hitl.ParseRequest(m.Data)
		return t, nil, err
	}
	if t.Request, t.Admission, err = record.Examine(&e.policy, ref, *m); err != nil {
		return nil, nil, errUnread
	}
	return t, nil, nil
}

// lately is how old a decision may be whose closed event this gateway may still
// have to hear of.
const lately = time.Minute

// winner is the stored decision, nil if there is none. Who is told of it here
// is not shown the interaction as open afterwards, even where this gateway has
// not heard of its end, or of its beginning.
func (e *Engine) winner(ctx context.Context, ref subject.Ref) (*journal.StoredDecision, error) {
	w, err := e.opts.Journal.Decision(ctx, ref)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, held := e.view.Pending(ref); !held && e.now().Sub(w.Time) >= lately {
		return w, nil
	}
	// Whoever tells the streams of it leaves when it is settled: after entering
	// one either meets it or sees that nothing is left to tell.
	e.enter(ref)
	if e.view.Settled(ref) != nil {
		e.leave(ref)
		return w, nil
	}
	e.view.Decided(ref)
	e.finishLater(ref, w)
	return w, nil
}

// settle stores an outcome that no person chose, for what happened at that
// time: at or after the deadline it is expired, whatever came later. Whoever
// was first counts.
func (e *Engine) settle(ctx context.Context, ref subject.Ref, at time.Time, c hitl.Content, p hitl.Principal, channel string) (*journal.StoredDecision, error) {
	t, winner, err := e.find(ctx, ref)
	if err != nil || winner != nil {
		return winner, err
	}
	return e.settleAs(ctx, ref, t, at, c, p, channel)
}

func (e *Engine) settleAs(ctx context.Context, ref subject.Ref, t *record.Target, at time.Time, c hitl.Content, p hitl.Principal, channel string) (*journal.StoredDecision, error) {
	if d := card.Deadline(t.Request, t.RequestedAt); !d.IsZero() && !at.Before(d) {
		c, p, channel = hitl.Content{Outcome: hitl.Expired}, system, "deadline"
	}
	d := t.Decision(c, p, channel, "", e.clock.Server())
	if t.Raw != nil { // nobody decided, and yet the record says what people had before them
		d.Card = card.Said(t.Request, t.Admission)
	}
	winner, _, err := e.store(t.Trace.In(ctx), ref, d)
	return winner, err
}

// store writes a decision, hides what is decided now and tells the streams.
func (e *Engine) store(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*journal.StoredDecision, bool, error) {
	e.enter(ref) // before the sweeper can hear of it
	w, won, err := e.opts.Journal.Decide(ctx, ref, d)
	if err != nil {
		e.leave(ref)
	} else {
		if won {
			e.opts.Metrics.Decided(d)
		}
		e.view.Decided(ref)
		e.winners.Add(ref, w)
		e.finishLater(ref, w)
	}
	if err != nil && !errors.Is(err, journal.ErrTooLarge) && !errors.Is(ctx.Err(), context.Canceled) {
		e.log.ErrorContext(ctx, "a decision could not be stored", "interaction", ref.String(), "error", err)
	}
	return w, won, err
}
