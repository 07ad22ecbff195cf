package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

const (
	// sendLimit bounds one attempt of a channel, recordLimit the writing down
	// before and after it. Together they are shorter than a lease, and than
	// what a stopping process is given.
	sendLimit   = 11 * time.Second
	recordLimit = 4 * time.Second
	// maxRetryAfter bounds what a receiver may ask for.
	maxRetryAfter = 15 * time.Minute
)

// result is what came of an attempt: the next state of a delivery we claimed.
type result struct {
	mine *ledger.Record
	next ledger.Entry
}

// attempt claims the delivery, makes one attempt and records what came of it.
// It returns the newest version it has seen, nil where the entry is gone, and
// the result where that could not be recorded. With such a result of an earlier
// attempt it makes none, and records that.
func (l *lane) attempt(ctx context.Context, r *ledger.Record, owed *result) (*ledger.Record, *result, error) {
	if owed != nil {
		return l.recordAsked(ctx, owed.mine, owed.next)
	}
	e, now := l.e, l.e.Clock.Now()
	next := r.Entry
	// Whoever held the claim before may have sent it just before the end.
	next.Uncertain = r.Uncertain || r.State == ledger.Claimed
	if other, err := l.before(ctx, r, now); err != nil || other != nil {
		if err != nil {
			return r, nil, err
		}
		other.Uncertain = next.Uncertain
		if other.State == ledger.Planned && plan.Mutes(other.Held) {
			e.Metrics.Muted()
			e.Logger.Warn("held back beyond its deadline, so it is never told", "channel", l.Name, "interaction", r.Key.Ref.String(), "reason", other.Held)
		}
		return l.recordAsked(ctx, r, *other)
	}
	until := now.Add(e.Lease).UTC()
	next.State, next.By, next.Until = ledger.Claimed, e.Replica, &until
	next.Tries, next.Prompt = next.Tries+1, true
	mine, won, err := l.write(ctx, r, next)
	if err != nil || !won {
		return mine, nil, err // another replica has it
	}
	if stop := l.over(ctx, mine); stop != nil {
		return l.record(ctx, mine, *stop)
	}
	next = mine.Entry
	send, cancel := context.WithTimeout(trace.Parse(r.Trace, "").In(ctx), sendLimit)
	send, span := e.Tracer.Join(send, trace.Notify, r.Key.Ref)
	receipt, failure := l.send(send, *r.Alert, r.Earlier)
	span.Sent(l.Type, failure)
	cancel()
	l.judge(trace.Of(send).In(ctx), r.Key, &next, receipt, failure)
	return l.recordAsked(trace.Of(send).In(ctx), mine, next)
}

// wantsNone is why nothing is sent to a target that is gone.
const wantsNone = "the endpoint wants no more messages; banksman notify test tries it again, and so does a new start of the notifier"

// overFirst is why a retracted delivery was not sent.
const overFirst = "it was over first"

// over returns what becomes of a claimed delivery whose interaction is over, or of which
// that is not known; nil: it may be sent. What opened just now is sent without asking.
func (l *lane) over(ctx context.Context, mine *ledger.Record) *ledger.Entry {
	if mine.Key.Step.Ends() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	next, now := mine.Entry, l.e.Clock.Now()
	next.Into, next.Many = "", false
	over, err := l.e.Ledger.IsOver(ctx, mine.Key.Ref)
	ask := err == nil && !over && (mine.Alert.Type != channel.Opened || now.Sub(mine.Alert.Time) > settle)
	switch {
	case over, ask && l.e.Ended(ctx, mine.Key.Ref):
		next.State, next.Problem = ledger.Retracted, overFirst
	case err == nil:
		return nil
	default: // the ledger does not say: nothing is sent
		next.State, next.DueAt = ledger.Planned, now.Add(again).UTC()
		next.Tries--
	}
	return &next
}

// before returns what becomes of a due delivery in place of sending it; nil: it
// may be sent.
func (l *lane) before(ctx context.Context, r *ledger.Record, now time.Time) (*ledger.Entry, error) {
	next := r.Entry
	ended := r.Key.Step.Ends()
	if at := r.Alert.Data.ExpiresAt; !ended && at != nil && !at.After(now) {
		next.State, next.Problem = ledger.Retracted, "its time was over first"
		return &next, nil
	}
	if l.dropped.Load() {
		next.State, next.Problem = ledger.Dead, wantsNone
		return &next, nil
	}
	if r.Key.Step == ledger.StepResolved {
		return l.inOrder(ctx, r, now)
	}
	// What may have been heard already is repeated without delay.
	if r.State == ledger.Claimed || r.Uncertain || ended && l.updates(r) {
		return nil, nil
	}
	d := &plan.Due{
		Recipient: l.Recipient, Risk: r.Alert.Data.Risk, Ended: ended,
		First:   r.Key.Step == ledger.StepOpen || r.Key.Step == plan.StepFirst,
		Created: r.Alert.Time, Expires: r.Alert.Data.ExpiresAt, Seen: l.e.looks.Last(r.Key.Ref),
	}
	if l.Recipient != nil && !d.First && !ended {
		look, cancel := context.WithTimeout(ctx, recordLimit)
		defer cancel()
		var err error
		if d.Claim, err = l.e.Ledger.ClaimOf(look, r.Key.Ref); err != nil {
			return nil, err
		}
	}
	at, why := plan.Gate(d, now)
	if l.Recipient != nil && !at.After(now) && !r.Prompt && r.Tries == 0 {
		// A digest that leaves after the deadline tells nobody in time.
		if digest := l.Recipient.DigestAt(r.DueAt, d.Risk); digest.After(now) && (d.Expires == nil || ended || digest.Before(*d.Expires)) {
			at, why = digest, "goes out with the next digest"
		}
	}
	if !at.After(now) {
		return nil, nil
	}
	next.State, next.DueAt, next.Held = ledger.Planned, at.UTC(), why
	return &next, nil
}

// updates reports whether an ending changes what was sent in place of sending
// more.
func (l *lane) updates(r *ledger.Record) bool {
	_, ok := l.Channel.(channel.Updater)
	return ok && len(channel.Changeable(r.Earlier)) > 0
}

// send makes one attempt. Where an ending can correct what was sent, it does.
func (l *lane) send(ctx context.Context, a channel.Alert, earlier []channel.Receipt) (channel.Receipt, error) {
	began := time.Now()
	a.To = l.To
	l.ticket(ctx, &a)
	r, err := channel.Tell(ctx, l.Channel, a, earlier)
	l.e.Metrics.Attempt(l.Type, time.Since(began), err)
	return r, err
}

// ticketLimit bounds the making of a link by which somebody decides.
const ticketLimit = 3 * time.Second

// ticket makes what the recipient decides by, a link or what buttons need: the same at
// every attempt of the message, and kept nowhere. Where there is none the message has the
// usual link.
func (l *lane) ticket(ctx context.Context, a *channel.Alert) {
	if l.Via == "" || a.Type != channel.Opened && a.Type != channel.Reminder {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ticketLimit)
	defer cancel()
	name, ch, _ := strings.Cut(l.Name, "/")
	t, err := l.e.Ticket(ctx, a.ID, wire.TicketCall{Key: a.Key, People: l.People, Recipient: name, Channel: ch, Via: l.Via})
	switch {
	case err != nil:
		l.e.Logger.WarnContext(ctx, "a message goes out without what one decides by", "channel", l.Name, "interaction", a.Key, "error", err)
	case t == nil || len(t.Decisions) == 0:
	case t.URL != "":
		a.Data.Link = t.URL
	default:
		a.Act = &channel.Act{Token: t.Token, Allow: t.Text != "" && slices.Contains(t.Decisions, hitl.VerbAllow), Text: t.Text}
	}
}

// judge turns the result of an attempt into the delivery's next state.
func (l *lane) judge(ctx context.Context, k ledger.Key, next *ledger.Entry, receipt channel.Receipt, failure error) {
	if failure == nil {
		l.well(ctx)
		l.sent(next, receipt, l.e.Clock.Now())
		l.e.Logger.DebugContext(ctx, "sent", "channel", l.Name, "interaction", k.Ref.String(), "step", k.Step, "tries", next.Tries)
		return
	}
	l.outcome(ctx, next, k, l.ill(ctx, failure), failure)
}

// outcome turns a failed attempt into the delivery's next state.
func (l *lane) outcome(ctx context.Context, next *ledger.Entry, k ledger.Key, p *channel.Problem, failure error) {
	log, now := l.e.Logger.With("channel", l.Name, "interaction", k.Ref.String(), "step", k.Step), l.e.Clock.Now()
	next.Problem = failure.Error()
	next.Uncertain = next.Uncertain || p.Unknown
	switch {
	case p.Class == channel.Gone:
		next.State = ledger.Dead
		return
	case p.Idle:
		next.State = ledger.Retracted
		log.InfoContext(ctx, "not sent: nobody is there to receive it", "error", failure)
		return
	case p.Class == channel.Refused:
		next.State = ledger.Failed
		log.WarnContext(ctx, "refused; it is not sent again", "error", failure)
		return
	case next.Tries > len(Schedule):
		next.State = ledger.Dead
		log.WarnContext(ctx, "given up: every attempt failed", "tries", next.Tries, "error", failure)
		return
	}
	due := now.Add(pauseAfter(next.Tries, p))
	if at := next.Alert.Data.ExpiresAt; !k.Step.Ends() && at != nil && !due.Before(*at) {
		next.State = ledger.Dead
		log.WarnContext(ctx, "given up: no time left for another attempt", "tries", next.Tries, "error", failure)
		return
	}
	next.State, next.DueAt = ledger.Planned, due.UTC()
	log.InfoContext(ctx, "not sent yet, trying again", "tries", next.Tries, "due_at", next.DueAt, "error", failure)
}

// pauseAfter is how long to wait after the given number of failed attempts.
func pauseAfter(tries int, p *channel.Problem) time.Duration {
	return max(Schedule[tries-1], min(p.RetryAfter, maxRetryAfter))
}

func (l *lane) sent(next *ledger.Entry, receipt channel.Receipt, at time.Time) {
	at = at.UTC()
	next.State, next.SentAt, next.Problem, next.Receipt = ledger.Sent, &at, "", &receipt
}

// well and ill keep the channel's health; ill also says what kind a failure is.
func (l *lane) well(ctx context.Context) {
	if l.health.Good(l.e.Clock.Now()) {
		l.e.Logger.InfoContext(ctx, "the channel works again", "channel", l.Name)
	}
}

func (l *lane) ill(ctx context.Context, failure error) *channel.Problem {
	var p *channel.Problem
	if !errors.As(failure, &p) {
		p = &channel.Problem{Unknown: true}
	}
	if p.Idle {
		return p
	}
	if n, alarm := l.health.Bad(); alarm {
		l.e.Logger.ErrorContext(ctx, "ALARM: the channel has not worked for a while", "channel", l.Name, "failures", n, "error", failure)
	}
	if p.Class == channel.Gone {
		l.drop(ctx, failure)
	}
	return p
}

// drop remembers that the endpoint wants nothing any more.
func (l *lane) drop(ctx context.Context, why error) {
	if !l.dropped.Swap(true) {
		l.e.Logger.ErrorContext(ctx, "the endpoint wants no more messages and gets none, until banksman notify test reaches it or a notifier starts anew", "channel", l.Name, "error", why)
	}
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	if _, err := l.e.Ledger.MarkGone(ctx, ledger.Gone{Channel: l.Name, Target: l.Target, At: l.e.Clock.Now().UTC()}); err != nil {
		l.e.Logger.WarnContext(ctx, "not recorded that the endpoint is gone", "channel", l.Name, "error", err)
	}
}

// record writes the next state of a delivery that is ours, or was nobody's.
func (l *lane) record(ctx context.Context, r *ledger.Record, next ledger.Entry) (*ledger.Record, *result, error) {
	if next.State != ledger.Claimed {
		next.Until = nil
	}
	if next.State.Final() && !next.Lost() {
		next.Alert = nil
	}
	stored, won, err := l.write(ctx, r, next)
	if err != nil {
		l.e.Logger.ErrorContext(ctx, "the state of a delivery could not be recorded; it will be", "channel", l.Name,
			"interaction", r.Key.Ref.String(), "state", next.State, "error", err)
		return nil, &result{r, next}, err
	}
	if !won {
		l.e.Logger.DebugContext(ctx, "another replica was faster", "channel", l.Name, "interaction", r.Key.Ref.String())
	}
	if won && stored.State.Final() && !stored.Told() && stored.Problem != overFirst && !r.Key.Step.Ends() {
		l.e.untold(ctx, stored)
	}
	return stored, nil, nil
}

func (l *lane) write(ctx context.Context, r *ledger.Record, next ledger.Entry) (*ledger.Record, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	return l.e.Ledger.Update(ctx, r, next)
}
