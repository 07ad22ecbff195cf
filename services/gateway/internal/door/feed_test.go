package door_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
)

// frame reads the next frame of a feed into v and returns the id it came with.
func (s *sse) frame(typ string, v any) (id string) {
	s.t.Helper()
	e := s.must()
	var h head
	require.NoError(s.t, json.Unmarshal([]byte(e.data), &h))
	require.Equal(s.t, typ, h.Type)
	require.Equal(s.t, typ, e.typ)
	require.NoError(s.t, json.Unmarshal([]byte(e.data), v))
	return e.id
}

func TestFeedHasTheFramesOfASocket_D0_30_invariant8(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.fake.open("s1")
	a := h.fake.ask(bash("s1", "c1"))
	s := h.stream("/api/events", "")
	var hello wire.Hello
	require.Empty(t, s.frame(wire.TypeHello, &hello), "half a snapshot cannot be resumed")
	require.False(t, hello.Recovered)
	require.Equal(t, wire.Protocol, hello.Protocol)
	var all wire.ActiveProcesses
	id := s.frame(wire.TypeActiveProcesses, &all)
	require.Equal(t, hello.Cursor, id)
	require.False(t, all.More)
	require.Len(t, all.Sessions, 1)
	require.Equal(t, a.summary.Key, all.Sessions[0].PendingRequests[0].Key)

	h.fake.say(a.session, "of the conversation: not in here")
	status, raw := h.post("/api/interactions/"+a.summary.Key+"/decision", `{"decision":"deny","digest":"`+a.summary.Digest+`"}`)
	require.Equal(t, 200, status, string(raw))
	var p wire.ProcessState
	for len(p.Closed) == 0 {
		p = wire.ProcessState{}
		s.frame(wire.TypeProcessState, &p)
	}
	require.Equal(t, hitl.Denied, p.Closed[0].Outcome)

	// The same on coming back: what was missed, and no snapshot.
	back := h.stream("/api/events", id)
	back.frame(wire.TypeHello, &hello)
	require.True(t, hello.Recovered)
	for p.Closed = nil; len(p.Closed) == 0; {
		p = wire.ProcessState{}
		back.frame(wire.TypeProcessState, &p)
	}
	lost := h.stream("/api/events", "unreadable")
	lost.frame(wire.TypeHello, &hello)
	require.False(t, hello.Recovered)

	// What everybody is told who is signed in.
	h.door.Notice(auth.Notice{Settled: "CODE"})
	for _, reader := range []*sse{s, back} {
		for !strings.Contains(reader.must().data, `"cli_login_settled"`) {
			continue
		}
	}
}

func TestFeedNeedsASessionAndIsCounted(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick(socket.Limits{Sockets: 1, Ping: 5 * time.Millisecond}))
	good := h.token
	h.token = "wrong"
	status, _ := h.get("/api/events")
	require.Equal(t, 401, status)
	h.token = good
	s := h.stream("/api/events", "")
	status, raw := h.get("/api/events")
	require.Equal(t, 429, status)
	require.Equal(t, "too_many", httpError(t, raw).Code)
	var ping wire.Ping
	s.must()
	s.must()
	s.frame(wire.TypePing, &ping)
	require.False(t, ping.ServerTime.IsZero())
}

func TestFeedEndsForASlowReader(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.stream("/api/events", "")
	for i := range 200 {
		r := bash("s1", fmt.Sprintf("c%d", i))
		r.Title = strings.Repeat("x", 400)
		h.fake.ask(r)
	}
	s.drain()
}
