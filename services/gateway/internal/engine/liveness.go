package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/quota"
	"github.com/banksman/banksman/services/gateway/internal/roster"
)

// listen follows what is not stored: live deltas and heartbeats.
func (e *Engine) listen() ([]*nats.Subscription, error) {
	var subs []*nats.Subscription
	for subj, fn := range map[string]nats.MsgHandler{
		"hitl.live.*.*.*": e.onLive,
		"hitl.beat.*.*.*": e.onBeat,
	} {
		sub, err := e.opts.Conn.Subscribe(subj, fn)
		if err != nil {
			return subs, fmt.Errorf("listen on %s: %w", subj, err)
		}
		subs = append(subs, sub)
	}
	return subs, nil
}

func (e *Engine) onLive(m *nats.Msg) {
	if p, err := subject.Parse(m.Subject); err == nil {
		e.view.ApplyLive(p.SessionRef(), journal.Message{Subject: m.Subject, Data: m.Data, Time: e.now().UTC()})
	}
}

func (e *Engine) onBeat(m *nats.Msg) {
	p, err := subject.Parse(m.Subject)
	if err != nil {
		return
	}
	if b, ok := card.ReadBeat(p.ID, m.Data); ok && !e.view.Beat(p.Tenant, p.Owner, b) && e.ledger.Note(quota.Owner{Tenant: p.Tenant, Name: p.Owner}) {
		e.log.Warn("too many workers of one owner beat; the others are not seen", "tenant", p.Tenant, "owner", p.Owner, "limit", roster.MaxWorkers)
	}
}

// lookEvery is how often the workers' heartbeats are looked at.
const lookEvery = time.Second

// listening knows since when this gateway would have heard a heartbeat.
type listening struct {
	since time.Time // by the gateway's clock
	last  time.Time // when it looked last
}

// look returns since when silence counts. A gateway that did not get to look for
// a while was stopped, or its machine: then the heartbeats of that time wait to
// be read, and none of them is missing. now is the time of this process, clock
// the gateway's.
func (l *listening) look(now, clock time.Time, connected bool) time.Time {
	if !connected || now.Sub(l.last) > 5*lookEvery {
		l.since = clock
	}
	l.last = now
	return l.since
}

// watchWorkers notices workers that went silent. Silence counts only while
// this gateway itself listened.
func (e *Engine) watchWorkers(ctx context.Context, started time.Time) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	l := listening{since: started, last: time.Now()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		connected := e.opts.Conn.IsConnected()
		since := l.look(time.Now(), e.now(), connected)
		if !connected {
			continue
		}
		for _, g := range e.view.SweepWorkers(since) {
			e.later(time.Minute, func(ctx context.Context) {
				if err := e.opts.Journal.WriteGatewayState(ctx, g.Session, card.Encode(g.Verdict)); err != nil {
					e.log.Warn("verdict on a session not stored", "session", g.Session.String(), "error", err)
				}
			})
		}
	}
}

// orphan ends an interaction whose asker is gone.
func (e *Engine) orphan(ref subject.Ref, why string) {
	e.later(time.Minute, func(ctx context.Context) {
		c := hitl.Content{Outcome: hitl.Orphaned, Comment: why}
		if _, err := e.settle(ctx, ref, e.clock.Server(), c, system, "liveness"); err != nil && !errors.Is(err, api.ErrNotFound) {
			e.log.Warn("orphan not settled, trying again", "interaction", ref.String(), "error", err)
			e.view.Doubt(ref)
		}
	})
}

// reviveGrace is how long a dead session's request waits for the word that a successor
// has revived the session: that word comes by another stream. Where a gateway found it
// dead, it waits for the heartbeats that its worker would have sent.
const reviveGrace = 2 * time.Second

// doubtful ends what waits in a session that stays dead.
func (e *Engine) doubtful(s subject.Session, judged bool) {
	grace := e.opts.reviveGrace
	if judged {
		grace = e.opts.beatGrace
	}
	e.later(time.Minute, func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(grace):
			e.view.OrphanIfDead(s)
		}
	})
}
