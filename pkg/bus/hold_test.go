package bus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

func generation(n int, worker, s string) *hitl.SessionState {
	st := state("s", worker, s)
	st.Generation = n
	return st
}

func said(i int) hitl.Event {
	return hitl.Event{Type: hitl.EventText, Data: json.RawMessage(fmt.Sprintf(`{"text":"<%d>"}`, i))}
}

// told are the stored steps of a session in their order: the worker of a state,
// the text of an event.
func (n *node) told(t *testing.T, s subject.Session) []string {
	t.Helper()
	stream, err := n.js.Stream(t.Context(), "HITL_TRANSCRIPTS")
	require.NoError(t, err)
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	var out []string
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			continue // taken out by the test
		}
		var st hitl.SessionState
		var ev struct{ Data struct{ Text string } }
		switch m.Subject {
		case subject.State(s):
			require.NoError(t, json.Unmarshal(m.Data, &st))
			out = append(out, fmt.Sprintf("%s %d", st.Worker, st.Generation))
		case subject.Transcript(s):
			require.NoError(t, json.Unmarshal(m.Data, &ev))
			out = append(out, ev.Data.Text)
		}
	}
	return out
}

func TestOneWorkerWinsAClaim(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	const workers = 8
	for gen := range 3 {
		holds := make([]*bus.Hold, workers)
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				var err error
				holds[i], err = c.Claim(t.Context(), generation(1+gen, numbered("w", i), hitl.StateStarting))
				if err != nil {
					require.ErrorIs(t, err, bus.ErrStale)
				}
			})
		}
		wg.Wait()
		winner := -1
		for i, h := range holds {
			if h != nil {
				require.Equal(t, -1, winner, "two workers won")
				winner = i
			}
		}
		require.NotEqual(t, -1, winner, "nobody won")
		st, _, err := c.LastState(t.Context(), c.Session("s"))
		require.NoError(t, err)
		require.Equal(t, numbered("w", winner), st.Worker)
		require.Equal(t, 1+gen, st.Generation)
		require.Equal(t, "agents", st.Owner)
		require.Equal(t, "default", st.Tenant)
		require.NoError(t, holds[winner].Check(t.Context()))
	}
	require.Equal(t, 3, n.count(t, "HITL_TRANSCRIPTS", "hitl.ses.>"))
	_, _, err := c.LastState(t.Context(), c.Session("nobody's"))
	require.ErrorIs(t, err, bus.ErrNotFound)
	var invalid *hitl.InvalidError
	_, err = c.Claim(t.Context(), generation(0, "w", hitl.StateStarting))
	require.ErrorAs(t, err, &invalid)
}

// The claim lands, its acknowledgement is lost: it is still a claim won. The same
// with a state that follows.
func TestALostClaimIsReadBack(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := &deafDialer{}
	c := n.owner(t, nats.SetCustomDialer(d))
	var hold *bus.Hold
	for i, step := range []func() error{
		func() (err error) {
			hold, err = c.Claim(context.Background(), generation(1, "w", hitl.StateStarting))
			return err
		},
		func() error { return hold.State(context.Background(), generation(1, "w", hitl.StateUserTurn)) },
	} {
		d.arm("hitl.ses.")
		result := make(chan error, 1)
		go func() { result <- step() }()
		require.Eventually(t, func() bool { return n.count(t, "HITL_TRANSCRIPTS", "hitl.ses.>") == i+1 }, patience, 5*time.Millisecond)
		d.cut()
		require.NoError(t, <-result)
		require.Equal(t, i+1, n.count(t, "HITL_TRANSCRIPTS", "hitl.ses.>"))
	}
}

// A first claim may be repeated by a successor that does not know whether it
// landed. A later one may not: it could be a copy's.
func TestAClaimIsRepeatedByItsContent(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := n.owner(t)
	first, second := generation(1, "w", hitl.StateStarting), generation(2, "w", hitl.StateUserTurn)
	for range 2 {
		_, err := c.Claim(t.Context(), first)
		require.NoError(t, err)
	}
	_, err := c.Claim(t.Context(), second)
	require.NoError(t, err)
	_, err = c.Claim(t.Context(), second)
	require.ErrorIs(t, err, bus.ErrStale)
	_, err = c.Claim(t.Context(), first)
	require.ErrorIs(t, err, bus.ErrStale)
	require.Equal(t, []string{"w 1", "w 2"}, n.told(t, c.Session("s")))
}

func TestEventsAreStoredOnceAndInOrder(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := &deafDialer{}
	c := n.owner(t, nats.SetCustomDialer(d))
	s := c.Session("a session with blanks")
	hold, err := c.Claim(t.Context(), state("a session with blanks", "w", hitl.StateStarting))
	require.NoError(t, err)
	for i := range 2 {
		d.arm("hitl.evt.")
		lost := make(chan error, 1)
		go func() { lost <- hold.Event(context.Background(), said(i)) }()
		require.Eventually(t, func() bool { return n.count(t, "HITL_TRANSCRIPTS", subject.Transcript(s)) == i+1 }, patience, 5*time.Millisecond)
		d.cut()
		require.NoError(t, <-lost)
	}
	for i := 2; i < 5; i++ {
		require.NoError(t, hold.Event(t.Context(), said(i)))
	}
	// A state behind an event whose acknowledgement was lost says whose it is.
	require.Equal(t, []string{"w 1", "<0>", "w 1", "<1>", "w 1", "<2>", "<3>", "<4>"}, n.told(t, s))
	require.JSONEq(t, `{"v":1,"type":"text","data":{"text":"<4>"}}`, string(n.stored(t, "HITL_TRANSCRIPTS", subject.Transcript(s)).Data))

	var invalid *hitl.InvalidError
	err = hold.Event(t.Context(), hitl.Event{Type: hitl.EventInteractionPending, Data: json.RawMessage(`{}`)})
	require.ErrorAs(t, err, &invalid, "what is pending is said by gateways alone")
}

// Nothing of a worker is stored behind the claim of the one that took its
// session over: no event, no state, no claim, also when it learns only then that
// something was not acknowledged.
func TestAnOvertakenWorkerStoresNothing_D4_05(t *testing.T) {
	t.Parallel()
	t.Run("while it is connected", func(t *testing.T) {
		t.Parallel()
		n := newNode(t)
		c := n.owner(t)
		for name, step := range map[string]func(*bus.Hold) error{
			"event": func(h *bus.Hold) error { return h.Event(t.Context(), said(2)) },
			"state": func(h *bus.Hold) error { return h.State(t.Context(), state("state", "old", hitl.StateDead)) },
			"look":  func(h *bus.Hold) error { return h.Check(t.Context()) },
		} {
			t.Run(name, func(t *testing.T) {
				at := func(gen int, worker string) *hitl.SessionState {
					st := state(name, worker, hitl.StateUserTurn)
					st.Generation = gen
					return st
				}
				old, err := c.Claim(t.Context(), at(1, "old"))
				require.NoError(t, err)
				require.NoError(t, old.Event(t.Context(), said(1)))
				require.NoError(t, old.Check(t.Context()))
				_, err = c.Claim(t.Context(), at(2, "new"))
				require.NoError(t, err)
				err = step(old)
				require.ErrorIs(t, err, bus.ErrStale)
				require.ErrorContains(t, err, "worker new took it with generation 2, this was 1")
				require.ErrorIs(t, old.Event(t.Context(), said(3)), bus.ErrStale)
				require.ErrorIs(t, old.State(t.Context(), at(1, "old")), bus.ErrStale)
				require.ErrorIs(t, old.Live(said(3)), bus.ErrStale)
				require.Equal(t, []string{"old 1", "<1>", "new 2"}, n.told(t, c.Session(name)))
			})
		}
	})
	for name, marker := range map[string]string{"an event without acknowledgement": "hitl.evt.", "a state without acknowledgement": "hitl.ses."} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			d := &deafDialer{}
			c, other := n.owner(t, nats.SetCustomDialer(d)), n.owner(t)
			s := c.Session("s")
			old, err := c.Claim(t.Context(), generation(1, "old", hitl.StateUserTurn))
			require.NoError(t, err)
			d.arm(marker)
			lost := make(chan error, 1)
			go func() {
				if marker == "hitl.evt." {
					lost <- old.Event(context.Background(), said(1))
				} else {
					lost <- old.State(context.Background(), generation(1, "old", hitl.StateAssistantTurn))
				}
			}()
			require.Eventually(t, func() bool { return len(n.told(t, s)) == 2 }, patience, 5*time.Millisecond)
			before := n.told(t, s)
			_, err = other.Claim(t.Context(), generation(2, "new", hitl.StateUserTurn))
			require.NoError(t, err)
			d.cut()
			require.ErrorIs(t, <-lost, bus.ErrStale)
			require.Equal(t, append(before, "new 2"), n.told(t, s))
		})
	}
}

// The server's data were put back to an older copy, or are older than the stream
// keeps them: the worker still has its session, and says all that comes.
func TestAHoldOutlivesWhatTheStreamForgot_D4_05(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]int{"older": 2, "nothing": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			c := n.owner(t)
			s := c.Session("s")
			hold, err := c.Claim(t.Context(), generation(1, "w", hitl.StateStarting))
			require.NoError(t, err)
			require.NoError(t, hold.Event(t.Context(), said(1)))
			require.NoError(t, hold.State(t.Context(), generation(1, "w", hitl.StateUserTurn)))
			require.NoError(t, hold.Event(t.Context(), said(2)))
			stream, err := n.js.Stream(t.Context(), "HITL_TRANSCRIPTS")
			require.NoError(t, err)
			for seq := keep + 1; seq <= 4; seq++ {
				require.NoError(t, stream.DeleteMsg(t.Context(), uint64(seq)))
			}
			require.NoError(t, hold.Check(t.Context()))
			require.NoError(t, hold.Event(t.Context(), said(3)))
			require.NoError(t, hold.State(t.Context(), generation(1, "w", hitl.StateDead)))
			require.Equal(t, append([]string{"w 1", "<1>"}[:keep], "w 1", "<3>", "w 1"), n.told(t, s))
		})
	}
}
