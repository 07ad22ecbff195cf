package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/hearing"
	"github.com/banksman/banksman/services/gateway/internal/projection"
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

// watchWorkers notices workers that went silent. Silence counts only while
// this gateway itself listened.
func (e *Engine) watchWorkers(ctx context.Context, started time.Time) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	l := hearing.Listen(started, lookEvery)
	for {
		e.doubts.Hear(l.Since)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		connected := e.opts.Conn.IsConnected()
		since := l.Look(time.Now(), e.now(), connected)
		if !connected {
			continue
		}
		for _, g := range e.view.SweepWorkers(since) {
			e.judge(g)
		}
	}
}

// judge stores the word that a session's worker is gone. The worker is forgotten by now:
// nobody would find it another time.
func (e *Engine) judge(g projection.Gone) {
	e.later(time.Minute, func(ctx context.Context) {
		err := e.opts.Journal.WriteGatewayState(ctx, g.Session, card.Encode(g.Verdict))
		if err == nil {
			return
		}
		e.log.Warn("verdict on a session not stored, trying again", "session", g.Session.String(), "error", err)
		if run.Pause(e.bgCtx, e.opts.reviveGrace) && e.view.Missed(g) {
			e.judge(g)
		}
	})
}

// orphan ends an interaction whose asker is gone. What takes long is doubted anew.
func (e *Engine) orphan(ref subject.Ref, why string) {
	if _, underWay := e.orphans.LoadOrStore(ref, true); underWay {
		return
	}
	e.later(decideLimit, func(ctx context.Context) {
		c := hitl.Content{Outcome: hitl.Orphaned, Comment: why}
		_, err := e.settle(ctx, ref, e.clock.Server(), c, system, "liveness")
		e.orphans.Delete(ref)
		if err != nil && !errors.Is(err, api.ErrNotFound) {
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
	if e.doubts.Begin(s, grace) {
		e.later(24*time.Hour, func(ctx context.Context) {
			if e.doubts.Wait(ctx, s, grace, judged) {
				e.view.OrphanIfDead(s)
			}
		})
	}
}
