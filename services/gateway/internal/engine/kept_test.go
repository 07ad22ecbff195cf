package engine

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

// Who comes back to a session with a place of which the streams do not have all
// that followed is told to begin anew, not given a part as if it were the whole.
func TestAPlaceThatWasTrimmedAwayIsReset_B19(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	key := subject.NewSession("default", "agents", "s1")
	w.state(nc, hitl.SessionState{SessionID: "s1", Worker: "w1", Generation: 1, State: hitl.StateAssistantTurn})
	say := func(text string) {
		raw, err := hitl.Marshal(hitl.Event{V: 1, Type: hitl.EventText, Data: json.RawMessage(`{"role":"assistant","text":"` + text + `"}`)})
		require.NoError(t, err)
		w.store(nc, subject.Transcript(key), raw)
	}
	for _, text := range []string{"one", "two", "three", "four"} {
		say(text)
	}
	heard(t, e, 5)
	all, reset, err := e.Transcript(t.Context(), "s1", "", "")
	require.NoError(t, err)
	require.False(t, reset)
	require.Len(t, all, 5)

	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), journal.Transcripts)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(4))) // 1 to 3 are gone
	for i, want := range []struct {
		reset bool
		n     int
	}{{true, 2}, {true, 2}, {false, 2}, {false, 1}, {false, 0}} {
		rest, reset, err := e.Transcript(t.Context(), "s1", all[i].Cursor, "")
		require.NoError(t, err)
		require.Equal(t, want.reset, reset, "after message %d", i+1)
		require.Len(t, rest, want.n, "after message %d", i+1)
	}
	// What begins anew is good to go on from.
	rest, reset, err := e.Transcript(t.Context(), "s1", "", "")
	require.NoError(t, err)
	require.False(t, reset)
	_, reset, err = e.Transcript(t.Context(), "s1", rest[0].Cursor, "")
	require.NoError(t, err)
	require.False(t, reset)
}

// A list shows what became of a decision also where the gateway has started
// since.
func TestDeliveryIsListedAfterARestart_B49_B79(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, stop := w.gateway()
	nc := w.connect()
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	got := e.Decide(t.Context(), answer(r, raw, "ada", allow))
	require.Equal(t, hitl.Accepted, got.Status, got.Error)
	require.Eventually(t, func() bool { return at(e).Events == 2 }, patience, time.Millisecond)
	for stage, decision := range map[string]string{
		hitl.Delivered: got.Decision.DecisionID, hitl.Applied: got.Decision.DecisionID, hitl.Refused: "another",
	} {
		body, err := hitl.Marshal(hitl.Ack{V: 1, Stage: stage, DecisionID: decision})
		require.NoError(t, err)
		w.store(nc, subject.Ack(ref(r), stage), body)
	}
	heard(t, e, 3)
	stop()
	e, _ = w.gateway()
	list, err := e.Interactions(t.Context(), wire.StateClosed, 0)
	require.NoError(t, err)
	require.Len(t, list, 1)
	var stages []string
	for _, a := range list[0].Trail {
		stages = append(stages, a.Stage)
	}
	require.ElementsMatch(t, []string{hitl.Delivered, hitl.Applied}, stages, "those of this decision")
}

// Sessions that are over do not fill a gateway's memory: the newest are kept,
// and the record has the others.
func TestSessionsThatAreOverAreForgotten_B37_B38(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const keep = 5
	e, _ := w.gateway(func(o *Options) { o.recent = keep })
	nc := w.connect()
	var first string
	for i := range 4 * keep {
		name := fmt.Sprint("program", i)
		r := request(name, in(name))
		raw := w.ask(nc, r)
		pending(t, e, r.ID)
		require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
		pending(t, e)
		w.state(nc, hitl.SessionState{SessionID: fmt.Sprint("worker", i), Worker: "w", Generation: 1, State: hitl.StateDead})
		if i == 0 {
			first = "default.agents." + name
		}
	}
	w.state(nc, hitl.SessionState{SessionID: "alive", Worker: "w", Generation: 1, State: hitl.StateUserTurn})
	waits := request("waits", in("waits"))
	w.ask(nc, waits)
	pending(t, e, waits.ID)
	w.state(nc, hitl.SessionState{SessionID: "last", Worker: "w", Generation: 1, State: hitl.StateDead})
	// The newest ones, and those of which something is to come.
	require.Eventually(t, func() bool {
		_, err := e.view.Session("last")
		_, err2 := e.view.Session("default.agents.program0")
		return err == nil && err2 != nil && len(e.Sessions()) <= keep+2
	}, patience, time.Millisecond)
	for _, name := range []string{"alive", "waits"} {
		_, err := e.ResolveSession(name)
		require.NoError(t, err, name)
	}
	key, err := e.ResolveSession(first)
	require.NoError(t, err)
	require.Equal(t, first, key)
	events, reset, err := e.Transcript(t.Context(), first, "", "")
	require.NoError(t, err)
	require.False(t, reset)
	require.Len(t, events, 5, "its conversation is in the record")
	_, err = e.ResolveSession("default.agents.never")
	require.ErrorIs(t, err, api.ErrNotFound)
}
