package projection

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/quota"
	"github.com/banksman/banksman/services/gateway/internal/roster"
)

// tell applies a worker's word on a session.
func tell(t *testing.T, p *Projection, owner, id, worker, state string, generation int) subject.Session {
	t.Helper()
	st := hitl.SessionState{V: 1, SessionID: id, Tenant: "t", Owner: owner, Worker: worker, Runtime: "demo", State: state}
	st.Generation = generation
	raw, err := hitl.Marshal(st)
	require.NoError(t, err)
	key := subject.NewSession("t", owner, id)
	p.ApplyTranscript(journal.Message{Subject: subject.State(key), Seq: uint64(p.pos.Transcripts + 1), Data: raw, Time: time.Now()})
	return key
}

// Whatever is said of sessions, they are found as if all had been looked through.
func TestSessionsAreFoundWithoutLookingThroughAll(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	p := plain(5)
	check := func() {
		t.Helper()
		byID, byWork, live := map[string]int{}, map[roster.Key]int{}, map[quota.Owner]int{}
		for _, s := range p.sessions {
			byID[s.state.SessionID]++
			require.True(t, p.index.byID[s.state.SessionID][s])
			if s.known && s.state.State != hitl.StateDead {
				byWork[workerOf(s)]++
				require.True(t, p.index.byWork[workerOf(s)][s])
				live[quota.Owner{Tenant: "t", Name: s.key.Owner}]++
			}
		}
		require.Equal(t, live, p.index.live)
		require.Len(t, p.index.byID, len(byID))
		require.Len(t, p.index.byWork, len(byWork))
		for id, n := range byID {
			require.Len(t, p.index.byID[id], n)
		}
		for k, n := range byWork {
			require.Len(t, p.index.byWork[k], n)
		}
	}
	for range 1500 {
		owner, id, worker := fmt.Sprint("o", rnd.IntN(3)), fmt.Sprint("s", rnd.IntN(12)), fmt.Sprint("w", rnd.IntN(4))
		key := subject.NewSession("t", owner, id)
		switch rnd.IntN(5) {
		case 0, 1:
			tell(t, p, owner, id, worker, hitl.StateUserTurn, 1)
		case 2:
			tell(t, p, owner, id, worker, hitl.StateDead, 1)
		case 3:
			raw, err := hitl.Marshal(wire.SessionVerdict{V: 1, State: hitl.StateDead, Worker: worker, Generation: 1})
			require.NoError(t, err)
			p.ApplyEvent(journal.Message{Subject: "hitl.sgw." + key.String(), Seq: uint64(p.pos.Events + 1), Data: raw})
		default:
			p.Beat("t", owner, hitl.Beat{Worker: worker, Sessions: []string{id}})
		}
		p.mu.Lock()
		for key := range p.dirty {
			p.rest(p.sessions[key])
		}
		clear(p.dirty)
		check()
		p.mu.Unlock()
	}
}

// An owner has so many sessions that live, others of its own that are let pass
// meanwhile among them; what ends makes room, and nobody else has less.
func TestSessionsThatLiveAreCounted(t *testing.T) {
	t.Parallel()
	p := plain(5)
	now := time.Now()
	p.now = func() time.Time { return now }
	one := tell(t, p, "loud", "s1", "w", hitl.StateUserTurn, 1)
	two, three := subject.NewSession("t", "loud", "s2"), subject.NewSession("t", "loud", "s3")
	require.True(t, p.MayLive(two, 2))
	require.True(t, p.MayLive(two, 2), "the same again")
	require.False(t, p.MayLive(three, 2), "one is on its way")
	require.True(t, p.MayLive(one, 1), "what lives may go on, and end")
	require.True(t, p.MayLive(subject.NewSession("t", "quiet", "s1"), 2))
	tell(t, p, "loud", "s2", "w", hitl.StateUserTurn, 1)
	require.False(t, p.MayLive(three, 2))
	tell(t, p, "loud", "s1", "w", hitl.StateDead, 1)
	require.True(t, p.MayLive(three, 2), "one has ended")
	require.False(t, p.MayLive(one, 2), "and comes back only where there is room")
	now = now.Add(comingFor + time.Second)
	require.True(t, p.MayLive(one, 2), "what never came counts no more")
}
