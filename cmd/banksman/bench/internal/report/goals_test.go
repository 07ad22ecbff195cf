package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/stat"
)

func TestGoals(t *testing.T) {
	t.Parallel()
	met := func(goals []Goal) (got []bool) {
		for _, g := range goals {
			got = append(got, g.Met)
		}
		return got
	}
	row := Row{
		What: WholeRoad, Servers: Embedded, Durability: "always", InFlight: 1, ToFloor: 9, ToFloorAndDisk: 2,
		Show: stat.Dist{P99: 10 * time.Millisecond}, Answer: stat.Dist{P99: 5*time.Millisecond - 1},
	}
	require.Equal(t, []bool{true, false, true}, met(roadGoals(row)), "a flush is part of the floor; limits of times are exclusive")
	row.Durability = "relaxed"
	require.Equal(t, []bool{false, false, true}, met(roadGoals(row)), "nothing is flushed")
	row.Servers = Cluster
	require.Equal(t, []bool{false, true}, met(roadGoals(row)), "the ratios are for one server")

	redis := PeerRow{Peer: "Redis 7", Durability: "always", InFlight: 64, P50: 1, Rate: 0.9}
	require.Equal(t, []bool{true, false}, met(peerGoals(redis)))
	postgres := PeerRow{Peer: "PostgreSQL 15", Durability: "always", InFlight: 64, P50: 0.61, Rate: 2}
	require.Equal(t, []bool{false, true}, met(peerGoals(postgres)))
	postgres.InFlight = 1
	require.Equal(t, []bool{false}, met(peerGoals(postgres)), "one asker has no rate to speak of")
	postgres.InFlight = 1024
	require.Empty(t, peerGoals(postgres))

	r := Report{
		Rows:   []Row{row, {What: BusOnly, Servers: Embedded, InFlight: 1}, {What: WholeRoad, Servers: Embedded, InFlight: 64}},
		Crowds: []CrowdRow{{Settled: time.Second / 2, Slowest: time.Second}},
	}
	require.Equal(t, []bool{false, true, false}, met(r.goals()), "the slowest crowd counts")
}
