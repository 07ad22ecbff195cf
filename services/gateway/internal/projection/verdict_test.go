package projection

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// A start reads the newest word of each worker and then the newest verdicts: the later
// of the two counts, whichever is read last.
func TestTheLaterOfWordAndVerdictCountsAtAStart_B37(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after time.Duration // of the verdict, than the worker's word
		want  string
	}{
		"the worker spoke again": {-time.Second, hitl.StateUserTurn},
		"it was gone then":       {time.Second, hitl.StateDead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, at := plain(5), time.Now()
			key := subject.NewSession("t", "o", "s")
			st := hitl.SessionState{V: 1, SessionID: "s", Tenant: "t", Owner: "o", Worker: "w", Runtime: "demo", State: hitl.StateUserTurn}
			st.Generation = 1
			raw, err := hitl.Marshal(st)
			require.NoError(t, err)
			p.LoadSession(journal.Message{Subject: subject.State(key), Data: raw, Time: at})
			raw, err = hitl.Marshal(wire.SessionVerdict{V: 1, State: hitl.StateDead, Worker: "w", Generation: 1})
			require.NoError(t, err)
			p.LoadSession(journal.Message{Subject: "hitl.sgw." + key.String(), Data: raw, Time: at.Add(tc.after)})
			got, ok := p.State(key)
			require.True(t, ok)
			require.Equal(t, tc.want, got.State)
		})
	}
}

// A heartbeat brings back the judged sessions that it names, of its own worker, and
// however many it names.
func TestAHeartbeatNamesWhatItBringsBack_B37(t *testing.T) {
	t.Parallel()
	p := plain(5)
	var names []string
	for i := range 3 {
		id := fmt.Sprint("s", i)
		key := tell(t, p, "o", id, "w", hitl.StateUserTurn, 1)
		raw, err := hitl.Marshal(wire.SessionVerdict{V: 1, State: hitl.StateDead, Worker: "w", Generation: 1})
		require.NoError(t, err)
		p.ApplyEvent(journal.Message{Subject: "hitl.sgw." + key.String(), Seq: uint64(p.pos.Events + 1), Data: raw})
	}
	for i := range 100_000 {
		names = append(names, fmt.Sprint("x", i))
	}
	state := func(id string) string {
		st, _ := p.State(subject.NewSession("t", "o", id))
		return st.State
	}
	p.Beat("t", "o", hitl.Beat{Worker: "other", Sessions: []string{"s0", "s1", "s2"}})
	p.Beat("t", "o", hitl.Beat{Worker: "w", Sessions: append(names, "s1")})
	require.Equal(t, []string{hitl.StateDead, hitl.StateUserTurn, hitl.StateDead}, []string{state("s0"), state("s1"), state("s2")})
}
