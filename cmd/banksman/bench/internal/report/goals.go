package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/natsd"
)

// Goal is a figure held against what it should be.
type Goal struct {
	Row   string `json:"row"`
	Text  string `json:"text"`
	Value string `json:"value"`
	Met   bool   `json:"met"`
}

// The goals. Times are of one in flight.
const (
	maxAlways  = 2.0 // times (floor + 2 fsync)
	maxRelaxed = 2.5 // times floor
	maxShow    = 10 * time.Millisecond
	maxAnswer  = 5 * time.Millisecond

	maxToRedis      = 1.0 // p50 of the bus to that of the peer, 1 and 64 in flight
	maxToPostgres   = 0.6
	minRateRedis    = 1.0 // asks/s of the bus to those of the peer, 64 in flight
	minRatePostgres = 2.0

	maxCrowd = time.Second // until everybody is told
)

// peerFlights are the numbers in flight that are held against the peers.
const onePeer, manyPeer = 1, 64

func (r *Report) goals() []Goal {
	var out []Goal
	for _, x := range r.Rows {
		if x.What == WholeRoad && x.InFlight == 1 {
			out = append(out, roadGoals(x)...)
		}
	}
	for _, p := range r.Peers {
		out = append(out, peerGoals(p)...)
	}
	for _, c := range r.Crowds {
		out = append(out, Goal{
			fmt.Sprintf("%d people, %d gateways", c.People, c.Gateways), fmt.Sprintf("all told < %v", maxCrowd),
			ms(c.Settled) + " ms, slowest " + ms(c.Slowest), c.Slowest < maxCrowd,
		})
	}
	return out
}

// roadGoals: the ratios are for one server, the times for all.
func roadGoals(r Row) []Goal {
	name := r.Servers + ", " + r.Durability
	var out []Goal
	switch {
	case r.Servers == Cluster:
	case r.Durability == string(natsd.DurabilityAlways):
		out = append(out, Goal{
			name, fmt.Sprintf("ask -> resumed p50 <= %.1f x (floor + 2 fsync)", maxAlways),
			ratio(r.ToFloorAndDisk), r.ToFloorAndDisk <= maxAlways,
		})
	default:
		out = append(out, Goal{
			name, fmt.Sprintf("ask -> resumed p50 <= %.1f x floor", maxRelaxed), ratio(r.ToFloor), r.ToFloor <= maxRelaxed,
		})
	}
	return append(
		out,
		Goal{name, fmt.Sprintf("ask -> reader p99 < %v", maxShow), ms(r.Show.P99) + " ms", r.Show.P99 < maxShow},
		Goal{name, fmt.Sprintf("answer -> agent p99 < %v", maxAnswer), ms(r.Answer.P99) + " ms", r.Answer.P99 < maxAnswer},
	)
}

func peerGoals(p PeerRow) []Goal {
	if p.InFlight != onePeer && p.InFlight != manyPeer {
		return nil
	}
	name := fmt.Sprintf("bus only, %s, %d in flight", p.Durability, p.InFlight)
	limit, floor := maxToRedis, minRateRedis
	if strings.HasPrefix(p.Peer, "PostgreSQL") {
		limit, floor = maxToPostgres, minRatePostgres
	}
	peer := p.Peer + ", " + theirs(p.Peer, p.Durability)
	out := []Goal{{name, fmt.Sprintf("p50 <= %.1f x %s", limit, peer), share(p.P50), p.P50 <= limit}}
	if p.InFlight == manyPeer {
		out = append(out, Goal{name, fmt.Sprintf("asks/s >= %.0f x %s", floor, peer), share(p.Rate), p.Rate >= floor})
	}
	return out
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}
