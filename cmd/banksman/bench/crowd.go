package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/crowd"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/report"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/road"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/stat"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
)

// crowdTurn is what one turn of a crowd gave.
type crowdTurn struct {
	settled []time.Duration
	told    []stat.Dist
}

// crowds lets so many people decide so many interactions, one after the other,
// at the gateways of a fresh stack.
func crowds(ctx context.Context, dir string, gateways, people, times int) (t crowdTurn, err error) {
	s, err := startStack(ctx, dir, setup{report.WholeRoad, report.Process, natsd.DurabilityAlways, gateways})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	who, err := crowd.Sign(ctx, s.conn, people)
	if err != nil {
		return t, fmt.Errorf("sessions: %w", err)
	}
	var addrs []string
	for _, f := range s.fronts {
		addrs = append(addrs, f.hello.Addr)
	}
	c, err := crowd.Gather(ctx, addrs, who)
	if err != nil {
		return t, err
	}
	defer c.Close()
	for i := range times {
		verdicts, took, err := s.decideAtOnce(ctx, c, addrs, who[0].Token, fmt.Sprintf("crowd-%d", i))
		if err != nil {
			return t, fmt.Errorf("%d people at %d gateways: %w", people, gateways, err)
		}
		var told []time.Duration
		for _, v := range verdicts {
			told = append(told, v.Took)
		}
		t.settled = append(t.settled, took)
		t.told = append(t.told, stat.DistOf(told))
	}
	return t, nil
}

// decideAtOnce asks once, has everybody answer, and checks what each was told
// against what the asker got and the record holds.
func (s *stack) decideAtOnce(ctx context.Context, c *crowd.Crowd, addrs []string, token, key string) ([]crowd.Verdict, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, road.SettleLimit)
	defer cancel()
	type end struct {
		ans *bus.Answer
		err error
	}
	opened := make(chan bus.Opened, 1)
	ended := make(chan end, 1)
	go func() {
		ans, err := s.asker.Ask(ctx, road.Request("crowd", key), bus.OnOpen(func(o bus.Opened) { opened <- o }))
		ended <- end{ans, err}
	}()
	s.asked++
	var o bus.Opened
	select {
	case o = <-opened:
	case e := <-ended:
		return nil, 0, fmt.Errorf("ask: %w", errors.Join(e.err, errors.New("it ended before anybody answered")))
	}
	id := o.Ref.String()
	err := crowd.Shown(ctx, addrs, token, id)
	if err != nil {
		cancel()
		<-ended
		return nil, 0, err
	}
	verdicts, took := c.Decide(ctx, id, o.Ref.Tenant+"."+o.Ref.Owner+".crowd", hitl.Digest(o.Request))
	e := <-ended
	if e.err != nil {
		return nil, 0, fmt.Errorf("ask: %w", e.err)
	}
	if err := crowd.Check(verdicts, e.ans.Decision); err != nil {
		return nil, 0, err
	}
	return verdicts, took, s.idle(ctx)
}

func crowdRow(gateways, people int, turns []crowdTurn) report.CrowdRow {
	var settled []time.Duration
	var told []stat.Dist
	for _, t := range turns {
		settled = append(settled, t.settled...)
		told = append(told, t.told...)
	}
	return report.CrowdRow{
		Gateways: gateways, People: people, Times: len(settled),
		Settled: stat.Median(settled), Slowest: stat.Quantile(settled, 1), Told: stat.OverRounds(told),
	}
}
