package door_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
)

// A client that comes from a gateway that was ahead has seen more than this one
// knows: it is let in when this one has come that far, is shown nothing that it
// knows to be over, and gets nothing twice.
func TestACursorFromAGatewayThatWasAhead_D1_29_invariant8(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, behind time.Duration) (*house, string, *asked) {
		h := newHouse(t, quick(socket.Limits{Behind: behind}))
		h.fake.say(h.fake.open("s1"), "1")
		return h, "default.agents.s1", h.fake.ask(bash("s1", "c")) // at 2
	}
	catchUp := func(h *house, a *asked) { // the other gateway's client had seen up to 4
		select {
		case <-h.fake.behind:
		case <-time.After(patience):
			h.t.Error("nobody waits for what the client has seen")
		}
		h.fake.say(a.session, "3")
		h.fake.set(func(f *fake) {
			f.close(a, hitl.Content{Outcome: hitl.Denied}, hitl.Principal{Kind: "person", ID: "bea"}, "web")
		})
		h.fake.say(a.session, "5")
	}
	t.Run("the snapshot waits for what the client has seen", func(t *testing.T) {
		t.Parallel()
		h, _, a := setup(t, patience)
		tb, _, err := h.dial()
		require.NoError(t, err)
		tb.send(map[string]string{"type": "auth", "token": h.token, "cursor": cursorAt(4)})
		catchUp(h, a)
		var hello wire.Hello
		require.NoError(t, json.Unmarshal(tb.next(wire.TypeHello), &hello))
		require.True(t, hello.Recovered)
		var st wire.ProcessState
		require.NoError(t, json.Unmarshal(tb.next(wire.TypeProcessState), &st))
		require.Empty(t, st.PendingRequests, "what the client knows to be decided is not open again")
		require.Equal(t, cursorAt(5), st.Cursor)
	})
	t.Run("a gateway that stays behind shows what it has", func(t *testing.T) {
		t.Parallel()
		h, _, _ := setup(t, 10*time.Millisecond)
		_, hello, snapshot := h.tab(cursorAt(4))
		require.False(t, hello.Recovered)
		require.Len(t, snapshot, 1)
	})
	t.Run("WebSocket", func(t *testing.T) {
		t.Parallel()
		h, key, a := setup(t, patience)
		tb, _, _ := h.tab("")
		tb.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": key, "from": cursorAt(4)})
		catchUp(h, a)
		require.Equal(t, []string{`{"role":"assistant","text":"5"}`}, datas(tb.events(key, func(all []wire.Event, _ wire.Events) bool { return len(all) > 0 })))
	})
	t.Run("WebSocket, a gateway that stays behind", func(t *testing.T) {
		t.Parallel()
		h, key, _ := setup(t, 10*time.Millisecond)
		tb, _, _ := h.tab("")
		tb.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": key, "from": cursorAt(4)})
		var first wire.Events
		require.NoError(t, json.Unmarshal(tb.next(wire.TypeEvent), &first))
		require.True(t, first.Reset)
		require.Len(t, first.Events, 4)
	})
	t.Run("HTTP and SSE", func(t *testing.T) {
		t.Parallel()
		h, key, a := setup(t, patience)
		opened := make(chan *sse, 1)
		go func() { opened <- h.sse(key, cursorAt(4)) }()
		catchUp(h, a)
		s := <-opened
		for _, want := range []string{"5"} {
			e := s.must()
			for e.typ == ":live" {
				e = s.must()
			}
			require.JSONEq(t, fmt.Sprintf(`{"role":"assistant","text":%q}`, want), e.data)
		}
	})
}

func datas(events []wire.Event) (out []string) {
	for _, e := range events {
		out = append(out, string(e.Data))
	}
	return out
}
