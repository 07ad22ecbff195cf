package engine

import (
	"flag"

	"github.com/banksman/banksman/pkg/hitl"
)

// asked is a plot about one good request.
func asked(name string, limit int, change ...func(*plot)) *plot {
	r := request("k1")
	raw, err := hitl.Marshal(r)
	if err != nil {
		panic(err)
	}
	p := &plot{name: name, limit: limit, raw: raw, ref: ref(r), gateways: 1, asks: 2, people: []string{"ada"}}
	for _, fn := range change {
		fn(p)
	}
	if p.expires {
		expiring(stageDeadline)(r)
		if p.raw, err = hitl.Marshal(r); err != nil {
			panic(err)
		}
	}
	return p
}

// allPlots tries the long ones, too: make interleave.
var allPlots = flag.Bool("all", false, "try the plots that take minutes, too")

// plots are what is tried.
func plots(all bool) []*plot {
	killed := func(p *plot) { p.crashes, p.asks = 1, 1 }
	two := func(p *plot) { p.gateways, p.asks = 2, 1 }
	twice := func(p *plot) { p.crashes, p.asks = 2, 1 }
	people := func(p *plot) { p.people = []string{"ada", "bob"} }
	expires := func(p *plot) { p.expires, p.asks = true, 1 }
	nobody := func(p *plot) { p.people = nil }
	left := func(p *plot) { p.leaves, p.asks = 1, 0 }
	both := func(p *plot) { p.leaves, p.asks = 1, 1 }
	back := func(p *plot) { p.backs, p.people = 1, nil }
	spent := func(p *plot) { p.spent = true }
	poor := func(p *plot) { p.poor, p.twice, p.people = true, 1, nil }
	short := []*plot{
		asked("nobody decides, killed anywhere", anyOrder, killed, nobody),
		asked("refused, killed anywhere", anyOrder, killed, func(p *plot) {
			p.people, p.refused, p.raw = nil, true, []byte(`{"v":1}`)
		}),
		asked("asked again", anyOrder),
		asked("killed anywhere", anyOrder, killed),
		asked("killed anywhere, asked again", 0, func(p *plot) { p.crashes = 1 }),
		asked("killed twice", 0, twice),
		asked("withdrawn", 0, func(p *plot) { p.withdraw, p.asks = 1, 1 }),
		asked("another gateway starts and looks on", 1, func(p *plot) { p.idle, p.quiet, p.asks = 1, true, 1 }),
		asked("two gateways", 0, two),
		asked("two gateways that count a quota differently", 1, two, poor),
		asked("expires", anyOrder, expires),
		asked("expires, killed anywhere", 0, expires, killed),
		asked("expires, nobody decides, two gateways", 0, expires, two, nobody),
		asked("left, killed anywhere", 0, left, func(p *plot) { p.crashes = 1 }),
		asked("left and asked", 0, both),
		asked("left and taken back there", 1, left, back),
		asked("left and withdrawn, a day is used up at once", 0, two, left, nobody, spent, func(p *plot) { p.withdraw = 1 }),
		asked("left and withdrawn", 0, left, nobody, func(p *plot) { p.withdraw = 1 }),
	}
	if !all {
		return short
	}
	return append(short,
		asked("another gateway starts and looks on, any order", anyOrder, func(p *plot) { p.idle, p.quiet, p.asks = 1, true, 1 }),
		asked("killed anywhere, asked again, interrupted", 1, func(p *plot) { p.crashes = 1 }),
		asked("killed anywhere, asked again, any order", anyOrder, func(p *plot) { p.crashes = 1 }),
		asked("two gateways, any order", anyOrder, two),
		asked("withdrawn, any order", anyOrder, func(p *plot) { p.withdraw, p.asks = 1, 1 }),
		asked("another gateway starts, any order", anyOrder, func(p *plot) { p.idle, p.asks = 1, 1 }),
		asked("two gateways, one killed, interrupted", 1, two, killed),
		asked("two gateways, interrupted", 1, two),
		asked("withdrawn, interrupted", 1, func(p *plot) { p.withdraw, p.asks = 1, 1 }),
		asked("another gateway starts, interrupted", 1, func(p *plot) { p.idle, p.asks = 1, 1 }),
		asked("two people", 0, two, people),
		asked("two gateways, delivered twice", 0, two, func(p *plot) { p.twice = 1 }),
		asked("two gateways, one killed", 0, two, killed),
		asked("two gateways, withdrawn", 0, two, func(p *plot) { p.withdraw = 1 }),
		asked("two gateways that count a quota differently, any order", anyOrder, two, poor),
		asked("expires, killed anywhere, any order", anyOrder, expires, killed),
		asked("expires, two gateways", 0, expires, two),
		asked("expires, asked again", anyOrder, expires, func(p *plot) { p.asks = 2 }),
		asked("expires or withdrawn", 1, expires, func(p *plot) { p.withdraw = 1 }),
		asked("expires, nobody decides, two gateways, interrupted", 1, expires, two, nobody),
		asked("expires, nobody decides, two gateways, one killed", 0, expires, two, killed, nobody),
		asked("expires, nobody decides, another gateway starts", 1, expires, nobody, func(p *plot) { p.idle = 1 }),
		asked("killed twice, any order", anyOrder, twice),
		asked("killed twice, asked again", 0, func(p *plot) { p.crashes = 2 }),
		asked("two gateways, killed twice", 0, two, twice),
		asked("left, killed anywhere, any order", anyOrder, left, func(p *plot) { p.crashes = 1 }),
		asked("left and asked, any order", anyOrder, both),
		asked("left and asked, killed anywhere", 0, both, func(p *plot) { p.crashes = 1 }),
		asked("left and asked, two gateways", 0, two, both),
		asked("left and taken back there, any order", anyOrder, left, back),
		asked("left and taken back there, killed anywhere", 0, left, back, func(p *plot) { p.crashes = 1 }),
		asked("left, asked and taken back there", anyOrder, both, back),
		asked("left, asked and taken back there, two gateways", 0, two, both, back),
		asked("left and withdrawn, any order", anyOrder, left, nobody, func(p *plot) { p.withdraw = 1 }),
		asked("left and withdrawn, two gateways", 0, two, left, nobody, func(p *plot) { p.withdraw = 1 }),
		asked("left and withdrawn, a day is used up", 1, two, left, nobody, spent, func(p *plot) { p.withdraw = 1 }),
		asked("left and taken back there, a day is used up", 1, two, left, back, spent),
		asked("left and withdrawn, somebody decides", 0, left, func(p *plot) { p.withdraw = 1 }),
		asked("left, expires", anyOrder, left, expires, func(p *plot) { p.asks = 0 }),
		asked("left, expires, killed anywhere", 0, left, expires, func(p *plot) { p.asks, p.crashes = 0, 1 }),
		asked("three gateways", 0, func(p *plot) { p.gateways, p.asks = 3, 1 }),
	)
}
