package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
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
		return l.record(ctx, owed.mine, owed.next)
	}
	e, now := l.e, l.e.Clock.Now()
	next := r.Entry
	// Whoever held the claim before may have sent it just before the end.
	next.Uncertain = r.Uncertain || r.State == ledger.Claimed
	if why := l.pointless(r, now); why != "" {
		next.State, next.Problem = ledger.Retracted, why
		return l.record(ctx, r, next)
	}
	if l.dropped.Load() {
		next.State, next.Problem = ledger.Dead, "the endpoint wants no more messages"
		return l.record(ctx, r, next)
	}
	until := now.Add(e.Lease).UTC()
	next.State, next.By, next.Until = ledger.Claimed, e.Replica, &until
	next.Tries++
	mine, won, err := l.write(ctx, r, next)
	if err != nil || !won {
		return mine, nil, err // another replica has it
	}
	next = mine.Entry
	if r.Key.Step != ledger.StepClosed {
		look, cancel := context.WithTimeout(ctx, recordLimit)
		_, err := e.Ledger.Over(look, r.Key.Ref)
		cancel()
		switch {
		case err == nil:
			next.State, next.Problem = ledger.Retracted, overFirst
			return l.record(ctx, mine, next)
		case !errors.Is(err, ledger.ErrNotFound):
			// Unknown whether it is over: nothing is sent.
			next.State, next.DueAt = ledger.Planned, now.Add(again).UTC()
			next.Tries--
			return l.record(ctx, mine, next)
		}
	}
	send, cancel := context.WithTimeout(ctx, sendLimit)
	retry, failure := l.Channel.Notify(send, *r.Alert)
	cancel()
	l.judge(ctx, r.Key, &next, retry, failure)
	return l.record(ctx, mine, next)
}

// overFirst is why a retracted delivery was not sent.
const overFirst = "it was over first"

// pointless says why an alert would come too late.
func (l *lane) pointless(r *ledger.Record, now time.Time) string {
	if r.Key.Step == ledger.StepClosed {
		return ""
	}
	if at := r.Alert.Data.ExpiresAt; at != nil && !at.After(now) {
		return "its time was over first"
	}
	return ""
}

// judge turns the result of an attempt into the delivery's next state.
func (l *lane) judge(ctx context.Context, k ledger.Key, next *ledger.Entry, retry bool, failure error) {
	log, now := l.e.Logger.With("channel", l.Name, "interaction", k.Ref.String(), "step", k.Step), l.e.Clock.Now()
	if failure == nil {
		at := now.UTC()
		next.State, next.SentAt, next.Problem = ledger.Sent, &at, ""
		log.Debug("sent", "tries", next.Tries)
		if l.health.good() {
			l.e.Logger.Info("the channel works again", "channel", l.Name)
		}
		return
	}
	next.Problem = failure.Error()
	var p *channel.Problem
	if !errors.As(failure, &p) {
		p = &channel.Problem{}
	}
	next.Uncertain = next.Uncertain || p.Unknown
	if n, alarm := l.health.bad(); alarm {
		l.e.Logger.Error("ALARM: the channel has not worked for a while", "channel", l.Name, "failures", n, "error", failure)
	}
	switch {
	case p.Gone:
		next.State = ledger.Dead
		l.drop(ctx)
		return
	case !retry:
		next.State = ledger.Failed
		log.Warn("refused; it is not sent again", "error", failure)
		return
	case next.Tries > len(Schedule):
		next.State = ledger.Dead
		log.Warn("given up: every attempt failed", "tries", next.Tries, "error", failure)
		return
	}
	pause := max(Schedule[next.Tries-1], min(p.RetryAfter, maxRetryAfter))
	due := now.Add(pause)
	if at := next.Alert.Data.ExpiresAt; k.Step != ledger.StepClosed && at != nil && !due.Before(*at) {
		next.State = ledger.Dead
		log.Warn("given up: no time left for another attempt", "tries", next.Tries, "error", failure)
		return
	}
	next.State, next.DueAt = ledger.Planned, due.UTC()
	log.Info("not sent yet, trying again", "tries", next.Tries, "due_at", next.DueAt, "error", failure)
}

// drop remembers that the endpoint wants nothing any more.
func (l *lane) drop(ctx context.Context) {
	if !l.dropped.Swap(true) {
		l.e.Logger.Error("the endpoint wants no more messages (status 410) and gets none; a channel of another name or address starts anew", "channel", l.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	if err := l.e.Ledger.MarkGone(ctx, ledger.Gone{Channel: l.Name, Target: l.Target, At: l.e.Clock.Now().UTC()}); err != nil {
		l.e.Logger.Warn("not recorded that the endpoint is gone", "channel", l.Name, "error", err)
	}
}

// record writes the next state of a delivery that is ours, or was nobody's.
func (l *lane) record(ctx context.Context, r *ledger.Record, next ledger.Entry) (*ledger.Record, *result, error) {
	if next.State != ledger.Claimed {
		next.Until = nil
	}
	if next.State.Final() {
		next.Alert = nil
	}
	stored, won, err := l.write(ctx, r, next)
	if err != nil {
		l.e.Logger.Error("the state of a delivery could not be recorded; it will be", "channel", l.Name,
			"interaction", r.Key.Ref.String(), "state", next.State, "error", err)
		return nil, &result{r, next}, err
	}
	if !won {
		l.e.Logger.Debug("another replica was faster", "channel", l.Name, "interaction", r.Key.Ref.String())
	}
	return stored, nil, nil
}

func (l *lane) write(ctx context.Context, r *ledger.Record, next ledger.Entry) (*ledger.Record, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	return l.e.Ledger.Update(ctx, r, next)
}

// alarmAfter is how many failed attempts in a row make an alarm.
const alarmAfter = 5

// health counts failures in a row.
type health struct {
	mu sync.Mutex
	n  int
}

// bad counts one more; alarm is true once in a row.
func (h *health) bad() (n int, alarm bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	return h.n, h.n == alarmAfter
}

// good ends the row and reports whether there had been an alarm.
func (h *health) good() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.n >= alarmAfter
	h.n = 0
	return was
}
