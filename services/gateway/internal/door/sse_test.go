package door_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
)

// sse is an open event stream.
type sse struct {
	t   *testing.T
	res *http.Response
	r   *bufio.Reader
}

type event struct{ id, typ, at, data string }

func (h *house) sse(session, last string) *sse {
	h.t.Helper()
	return h.stream("/api/sessions/"+session+"/events", last)
}

func (h *house) stream(path, last string) *sse {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	h.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+path, nil)
	require.NoError(h.t, err)
	req.Header.Set("Authorization", "Bearer "+h.token)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	client := &http.Client{Transport: h.checked(&http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, network, addr)
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(4 << 10)
			}
			return c, err
		},
	})}
	res, err := client.Do(req)
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		_ = res.Body.Close()
		client.CloseIdleConnections()
	})
	return &sse{h.t, res, bufio.NewReader(res.Body)}
}

// next returns the next event or comment; ok is false at the end.
func (s *sse) next() (e event, ok bool) {
	s.t.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		switch key, value, _ := strings.Cut(line, ": "); {
		case line == "":
			return e, true
		case key == "":
			e.typ = ":" + value
		case key == "id":
			e.id = value
		case key == "event":
			e.typ = value
		case key == "at":
			e.at = value
		case key == "data":
			e.data += value
		default:
			s.t.Fatalf("line %q", line)
		}
	}
}

func (s *sse) must() event {
	s.t.Helper()
	e, ok := s.next()
	require.True(s.t, ok)
	return e
}

// drain reads until the gateway ends the stream.
func (s *sse) drain() {
	s.t.Helper()
	for {
		if _, ok := s.next(); !ok {
			require.NoError(s.t, s.res.Request.Context().Err(), "the reader gave up")
			return
		}
	}
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.fake.open("s1")
	h.fake.say(key, "one")
	a := h.fake.ask(bash("s1", "c1"))
	h.fake.open("s2")
	s := h.sse("s1", "")
	require.Equal(t, "text/event-stream", s.res.Header.Get("Content-Type"))
	require.Equal(t, "no-store", s.res.Header.Get("Cache-Control"))
	require.Equal(t, event{typ: "reset", data: "{}"}, s.must())
	one := s.must()
	require.Equal(t, hitl.EventText, one.typ)
	require.JSONEq(t, `{"role":"assistant","text":"one"}`, one.data)
	require.NotEmpty(t, one.id)
	at, err := time.Parse(time.RFC3339Nano, one.at)
	require.NoError(t, err)
	require.False(t, at.IsZero())
	// The three of one cursor: whoever resumes after the first two gets them
	// again, so only the last has the id.
	require.Equal(t, []string{"", ""}, []string{s.must().id, s.must().id})
	last := s.must()
	require.Equal(t, hitl.EventApprovalRequired, last.typ)
	require.NotEmpty(t, last.id)
	require.Equal(t, ":live", s.must().typ)

	h.fake.say("default.agents.s2", "elsewhere")
	h.fake.delta(key, "typing\nmore")
	live := s.must()
	require.Equal(t, hitl.EventTextDelta, live.typ)
	require.Empty(t, live.id, "what is not stored cannot be resumed after")
	h.fake.say(key, "two")
	two := s.must()
	require.JSONEq(t, `{"role":"assistant","text":"two"}`, two.data)

	again := h.sse(key, last.id)
	require.Equal(t, two, again.must())
	require.Equal(t, ":live", again.must().typ)
	lost := h.sse(key, "unreadable")
	require.Equal(t, "reset", lost.must().typ)
	require.Equal(t, one, lost.must())
	require.True(t, h.fake.pending(a))

	status, _ := h.get("/api/sessions/none/events")
	require.Equal(t, 404, status)
}

func TestEventStreamEnds(t *testing.T) {
	t.Parallel()
	drain := (*sse).drain
	t.Run("when the reader is too slow", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		key := h.fake.open("s1")
		s := h.sse("s1", "")
		require.Equal(t, "reset", s.must().typ)
		require.Equal(t, ":live", s.must().typ)
		for i := range 2000 {
			h.fake.say(key, fmt.Sprintf("%d %s", i, strings.Repeat("x", 8<<10)))
		}
		drain(s)
	})
	t.Run("when the session is over, and it beats until then", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, quick(socket.Limits{Ping: 5 * time.Millisecond, Recheck: 50 * time.Millisecond}))
		h.fake.open("s1")
		s := h.sse("s1", "")
		for s.must().typ != ":beat" {
			continue
		}
		sess, err := h.auth.Check(t.Context(), h.token)
		require.NoError(t, err)
		require.NoError(t, h.auth.Revoke(t.Context(), sess.Hash))
		drain(s)
	})
	t.Run("at once when the person signs out or is disabled", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, quick(socket.Limits{Recheck: time.Hour}))
		h.fake.open("s1")
		revoked := h.as(h.user("ada", grant(wire.RoleAdmin, "*")))
		disabled := h.as(h.user("eve", grant(wire.RoleAdmin, "*")))
		var streams []*sse
		for _, who := range []*house{revoked, disabled} {
			s := who.sse("s1", "")
			for s.must().typ != ":live" {
				continue
			}
			f := who.stream("/api/events", "")
			for f.must().typ != wire.TypeActiveProcesses {
				continue
			}
			streams = append(streams, s, f)
		}
		stays := h.stream("/api/events", "")
		stays.must()
		sess, err := h.auth.Check(t.Context(), revoked.token)
		require.NoError(t, err)
		require.NoError(t, h.auth.Revoke(t.Context(), sess.Hash))
		yes := true
		_, err = h.auth.ChangeUser(t.Context(), "eve", wire.ChangeUser{Disabled: &yes}, hitl.Principal{Kind: "person", ID: "owner"})
		require.NoError(t, err)
		for _, s := range streams {
			drain(s)
		}
		h.fake.ask(bash("s3", "c3"))
		for !strings.Contains(stays.must().data, "default.agents.s3") {
			continue
		}
	})
	t.Run("when the server goes away", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.fake.open("s1")
		s := h.sse("s1", "")
		s.must()
		done := make(chan struct{})
		go func() {
			h.stop()
			close(done)
		}()
		drain(s)
		<-done
	})
}

// What is said at once is no sign of a slow reader, however much it is.
func TestABurstEndsNoEventStream(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick(socket.Limits{Patience: time.Minute}))
	key := h.fake.open("s1")
	s := h.sse("s1", "")
	for s.must().typ != ":live" {
		continue
	}
	h.fake.set(func(f *fake) {
		for i := range 3 {
			data := text(map[string]string{"role": "assistant", "text": fmt.Sprint(i, strings.Repeat("x", 140<<10))})
			f.publish(key, []wire.Event{{Type: hitl.EventText, Data: data}}, true, nil)
		}
	})
	for i := range 3 {
		require.Contains(t, s.must().data, fmt.Sprintf(`"text":"%dx`, i))
	}
}

func TestEventStreamsAreCounted(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick(socket.Limits{Sockets: 2}))
	h.fake.open("s1")
	h.sse("s1", "")
	s := h.sse("s1", "")
	status, raw := h.get("/api/sessions/s1/events")
	require.Equal(t, 429, status)
	require.Equal(t, "too_many", httpError(t, raw).Code)
	_ = s.res.Body.Close()
	require.Eventually(t, func() bool {
		s := h.sse("s1", "")
		defer func() { _ = s.res.Body.Close() }()
		return s.res.StatusCode == 200
	}, patience, 5*time.Millisecond)
}
