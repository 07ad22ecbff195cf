package rig

import (
	"math/rand/v2"
	"time"
)

// fault is one thing that goes wrong and is put right after a while.
type fault struct {
	After time.Duration // since the one before was put right
	What  string
	Nodes []int // killed or paused
	Gates []int // killed or paused
	Pause bool
	For   time.Duration
}

// Faults are the endless sequence of a seed.
type Faults struct {
	r     *rand.Rand
	every time.Duration // the mean time between two
	pause bool
}

// NewFaults makes them: every is the mean time between two; with pause some
// pause a process instead of killing it.
func NewFaults(seed uint64, every time.Duration, pause bool) *Faults {
	return &Faults{r: rand.New(rand.NewPCG(seed, ^uint64(0))), every: every, pause: pause}
}

func (f *Faults) next() fault {
	n := f.r.IntN(Nodes)
	g := f.r.IntN(Gateways)
	out := fault{
		After: f.every/2 + time.Duration(f.r.Int64N(int64(f.every))),
		For:   100*time.Millisecond + time.Duration(f.r.Int64N(int64(2*time.Second))),
	}
	k := f.r.IntN(100)
	switch {
	case k < 40:
		out.What, out.Nodes = "node killed", []int{n}
	case k < 70:
		out.What, out.Gates = "gateway killed", []int{g}
	case k < 78:
		out.What, out.Nodes, out.Gates = "node and gateway killed", []int{n}, []int{g}
	case k < 86:
		out.What, out.Nodes = "two nodes killed", []int{n, (n + 1) % Nodes}
	case k < 90:
		out.What, out.Gates = "all gateways killed", []int{0, 1, 2}
	case k < 96:
		out.What, out.Nodes, out.Pause = "node paused", []int{n}, true
	default:
		out.What, out.Gates, out.Pause = "gateway paused", []int{g}, true
	}
	if out.Pause && !f.pause {
		out.What, out.Pause = "node killed", false
		out.Nodes, out.Gates = []int{n}, nil
	}
	return out
}
