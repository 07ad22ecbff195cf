package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/proof"
	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// settleLimit bounds how long the gateways take, once everything is right
// again, to finish what is decided and to expire the rest.
const settleLimit = 3 * time.Minute

// settled waits until only what is to be kept is open and the sweeper has seen
// every decision.
func settled(ctx context.Context, j *journal.JetStream, kept map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		left, err := unsettled(ctx, j, kept)
		if err == nil && len(left) == 0 {
			return nil
		}
		if !run.Pause(ctx, 200*time.Millisecond) {
			return fmt.Errorf("the gateways have not finished %d messages, for example %q: %w", len(left), left[:min(3, len(left))], errors.Join(ctx.Err(), err))
		}
	}
}

func unsettled(ctx context.Context, j *journal.JetStream, kept map[string]bool) ([]string, error) {
	var left []string
	err := j.Read(ctx, journal.Requests, 1, nil, func(m journal.Message) error {
		p, err := subject.Parse(m.Subject)
		if err != nil || p.Kind != "req" || !kept[p.Ref().String()] {
			left = append(left, m.Subject)
		}
		return nil
	})
	if err != nil {
		return left, err
	}
	box, err := j.Position(ctx, journal.Mailbox)
	if err != nil {
		return left, err
	}
	if box.First > 0 && box.First <= box.Last { // 0: nothing was ever left in it
		left = append(left, fmt.Sprintf("%d messages in the mailbox", box.Last-box.First+1))
	}
	pos, err := j.Position(ctx, journal.Decisions)
	if err != nil {
		return left, err
	}
	_, swept, err := j.Floors(ctx)
	if err == nil && swept < pos.Last {
		left = append(left, fmt.Sprintf("decisions after %d", swept))
	}
	return left, err
}

// audit reads the streams from their first message to their last and holds them
// against each other: one decision, one open and one closed event each.
func audit(ctx context.Context, j *journal.JetStream, keys map[string]ed25519.PublicKey) (map[string]proof.Stored, []error, error) {
	all := map[string]proof.Stored{}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	err := j.Read(ctx, journal.Decisions, 1, nil, func(m journal.Message) error {
		p, err := subject.Parse(m.Subject)
		if err != nil {
			wrong("a decision at %d: %w", m.Seq, err)
			return nil
		}
		key := p.Ref().String()
		d, err := journal.Verify(keys, &m)
		if err != nil {
			wrong("%s: %w", key, err)
			return nil
		}
		if old := all[key]; old.Decision != nil {
			wrong("%s has two decisions: %s and %s", key, old.Decision.DecisionID, d.DecisionID)
			return nil
		}
		all[key] = proof.Stored{Decision: d.Decision}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the decisions: %w", err)
	}
	err = j.Read(ctx, journal.Requests, 1, []string{"hitl.req.>"}, func(m journal.Message) error {
		p, err := subject.Parse(m.Subject)
		if err != nil {
			wrong("a request at %d: %w", m.Seq, err)
			return nil
		}
		s := all[p.Ref().String()]
		s.Request = true
		all[p.Ref().String()] = s
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the requests: %w", err)
	}
	opened, closed := map[string]int{}, map[string][]string{}
	err = j.Read(ctx, journal.Events, 1, []string{"hitl.ixe.>"}, func(m journal.Message) error {
		p, err := subject.Parse(m.Subject)
		if err != nil {
			wrong("an event at %d: %w", m.Seq, err)
			return nil
		}
		key := p.Ref().String()
		if p.Tail == subject.Open {
			opened[key]++
			return nil
		}
		var e wire.Ended
		if err := json.Unmarshal(m.Data, &e); err != nil || e.Decision == nil {
			wrong("%s: its closed event has no decision (%w)", key, err)
			return nil
		}
		closed[key] = append(closed[key], e.Decision.DecisionID)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the events: %w", err)
	}
	for key, s := range all {
		if opened[key] != 1 {
			wrong("%s has %d open events", key, opened[key])
		}
		var want []string
		if s.Decision != nil {
			want = []string{s.Decision.DecisionID}
		}
		if !slices.Equal(closed[key], want) {
			wrong("%s has the closed events %q, want %q", key, closed[key], want)
		}
	}
	return all, errs, nil
}

// catchUp bounds how long a gateway may be behind the streams once everything
// is right again.
const catchUp = 30 * time.Second

// shown waits until every gateway lists as waiting what the record says, and
// nothing else.
func (p *product) shown(ctx context.Context, all map[string]proof.Stored) error {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for {
		err := p.compare(ctx, all)
		if err == nil || !run.Pause(ctx, 200*time.Millisecond) {
			return err
		}
	}
}

func (p *product) compare(ctx context.Context, all map[string]proof.Stored) error {
	var errs []error
	for g := range rig.Gateways {
		list, err := p.list(ctx, g, 0, wire.StatePending)
		if err != nil {
			errs = append(errs, fmt.Errorf("gateway %d: %w", g, err))
			continue
		}
		open := map[string]bool{}
		for _, ix := range list {
			open[ix.Key] = true
			if s := all[ix.Key]; s.Decision != nil || !s.Request {
				errs = append(errs, fmt.Errorf("gateway %d shows %s, which does not wait", g, ix.Key))
			}
		}
		for key, s := range all {
			if s.Decision == nil && s.Request && !open[key] {
				errs = append(errs, fmt.Errorf("gateway %d does not show %s, which waits", g, key))
			}
		}
	}
	return errors.Join(errs...)
}
