package engine

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
)

func decodeState(t *testing.T, frame []byte) wire.ProcessState {
	t.Helper()
	var st wire.ProcessState
	require.NoError(t, json.Unmarshal(frame, &st))
	return st
}

func at(e *Engine) cursor.Position {
	return e.view.Position()
}

func TestCursorIsValidOnEveryGateway_C07_B19_invariant8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.gateway()
	b, stopB := w.gateway()
	nc := w.connect()
	first := request("k1")
	w.ask(nc, first)
	pending(t, a, first.ID)
	pending(t, b, first.ID)
	watch := a.Watch("", func(api.Update) {})
	watch.Stop()
	require.Len(t, watch.Snapshot, 1)
	require.False(t, watch.Recovered)

	// Away for a moment: only what was missed comes, from the other gateway.
	second := request("k2")
	w.ask(nc, second)
	require.Eventually(t, func() bool {
		back := b.Watch(watch.Cursor, func(api.Update) {})
		back.Stop()
		if !back.Recovered || len(back.Missed) == 0 {
			return false
		}
		return decodeState(t, back.Missed[len(back.Missed)-1]).PendingCount == 2
	}, patience, time.Millisecond)

	// On the stream too, not only admitted: else nothing would be missed.
	require.Eventually(t, func() bool { return at(b).Events == 2 }, patience, time.Millisecond)

	// A restarted gateway holds no history: the whole state comes, not silence.
	stopB()
	c, _ := w.gateway()
	back := c.Watch(watch.Cursor, func(api.Update) {})
	back.Stop()
	require.False(t, back.Recovered)
	require.Equal(t, 2, back.Snapshot[0].PendingCount)

	future := at(c)
	future.Events += 1000
	epoch := at(c)
	epoch.EventsEpoch--
	for name, from := range map[string]string{
		"from a dead stream": epoch.String(), "beyond the log": future.String(), "nonsense": "%%%", "empty": "",
	} {
		back := c.Watch(from, func(api.Update) {})
		back.Stop()
		require.False(t, back.Recovered, name)
		require.Len(t, back.Snapshot, 1, name)
	}
	// Up to date is recovered with nothing missed.
	now := c.Watch(c.Cursor(), func(api.Update) {})
	now.Stop()
	require.True(t, now.Recovered)
	require.Empty(t, now.Missed)
}

func TestTranscriptReplaysInOneOrder_D3_02_D3_06(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	w.state(nc, hitl.SessionState{SessionID: "s1", Worker: "w1", Generation: 1, State: hitl.StateAssistantTurn})
	say := func(ev hitl.Event) {
		ev.V = 1
		raw, err := hitl.Marshal(ev)
		require.NoError(t, err)
		w.store(nc, subject.Transcript(subject.NewSession("default", "agents", "s1")), raw)
	}
	say(hitl.Event{Type: hitl.EventText, Data: json.RawMessage(`{"role":"user","text":"go"}`)})
	say(hitl.Event{Type: hitl.EventToolCallEnd, Data: json.RawMessage(`{"tool_call_id":"call-k1","tool_name":"Bash","input":{"command":"echo 9007199254740993"}}`)})
	// What only gateways may say is dropped when an agent says it.
	say(hitl.Event{Type: hitl.EventInteractionPending, Data: json.RawMessage(`{"pending":false}`)})
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	require.Eventually(t, func() bool { return at(e).Events == 2 }, patience, time.Millisecond)
	say(hitl.Event{Type: hitl.EventToolResult, Data: json.RawMessage(`{"tool_call_id":"call-k1","content":"ok"}`)})
	require.Eventually(t, func() bool { return at(e).Transcripts == 5 }, patience, time.Millisecond)

	all, reset, err := e.Transcript(t.Context(), "s1", "", "")
	require.NoError(t, err)
	require.False(t, reset)
	var types []string
	for _, ev := range all {
		types = append(types, ev.Type)
	}
	require.Equal(t, []string{
		"session_status", "text", "tool_call_end", "interaction_pending", "interaction_request",
		"approval_required", "interaction_response", "interaction_pending", "tool_result",
	}, types)
	var call struct{ Input string }
	require.NoError(t, json.Unmarshal(all[2].Data, &call))
	require.Contains(t, call.Input, "9007199254740993", "tool input is text, its numbers verbatim")

	// From every cursor exactly the rest comes, whatever stream it is from.
	for i, ev := range all {
		rest, reset, err := e.Transcript(t.Context(), "s1", ev.Cursor, "")
		require.NoError(t, err)
		require.False(t, reset)
		n := 0
		for _, later := range all[i:] {
			if later.Cursor != ev.Cursor {
				n++
			}
		}
		require.Len(t, rest, n, fmt.Sprint("after ", i, " ", ev.Type))
	}
	_, reset, err = e.Transcript(t.Context(), "s1", "stale", "")
	require.NoError(t, err)
	require.True(t, reset)
	_, _, err = e.Transcript(t.Context(), "nobody", "", "")
	require.ErrorIs(t, err, api.ErrNotFound)
}

func TestDeliveryTrail_B49_B79(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	var rec recorder
	watch := e.Watch("", rec.add)
	defer watch.Stop()
	r := request("k1")
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	got := e.Decide(t.Context(), answer(r, raw, "ada", allow))
	require.Equal(t, hitl.Accepted, got.Status)
	require.Empty(t, outcome(t, e, r).Trail, "accepted is not delivered")
	require.Eventually(t, func() bool { return rec.last(s1) != nil && len(rec.last(s1).Closed) == 1 }, patience, time.Millisecond)
	for _, stage := range []string{hitl.Delivered, hitl.Applied, hitl.Applied} {
		raw, err := hitl.Marshal(hitl.Ack{V: 1, Stage: stage, DecisionID: got.Decision.DecisionID})
		require.NoError(t, err)
		w.store(nc, subject.Ack(ref(r), stage), raw)
	}
	require.Eventually(t, func() bool {
		list, err := e.Interactions(t.Context(), wire.StateClosed, 0)
		return err == nil && len(list) == 1 && len(list[0].Trail) == 2 && list[0].Trail[1].Stage == hitl.Applied
	}, patience, time.Millisecond)
	require.Len(t, outcome(t, e, r).Trail, 2)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	deliveries := 0
	for _, u := range rec.updates {
		var d wire.Delivery
		if u.All != nil && json.Unmarshal(u.All, &d) == nil && d.Type == wire.TypeDelivery {
			deliveries++
			require.Equal(t, ref(r).String(), d.Key)
		}
	}
	require.GreaterOrEqual(t, deliveries, 2)
}

func TestEqualIdsOfTwoOwnersAreTwoThings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	mine := request("k1")
	raw := w.ask(nc, mine)
	pending(t, e, mine.ID)
	theirs := request("k1", func(r *hitl.Request) { r.Owner = "other" })
	w.ask(nc, theirs)
	pending(t, e, mine.ID, theirs.ID)
	require.Len(t, e.Sessions(), 2, "and equal session names are two sessions")
	// A plain session name that two owners use is refused, not guessed.
	_, err := e.ResolveSession("s1")
	require.ErrorIs(t, err, api.ErrAmbiguous)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(mine, raw, "ada", allow)).Status)
	pending(t, e, theirs.ID)
}
