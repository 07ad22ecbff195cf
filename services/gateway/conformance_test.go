package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/contract/contracttest"
)

// transport is one way in. All must tell and take the same.
type transport interface {
	// seen waits until an interaction is shown as waiting.
	seen(id string) wire.Summary
	// decide answers as a signed-in person and returns the receipt.
	decide(in hitl.Response) hitl.Receipt
	// closed waits until an interaction is shown with its outcome.
	closed(id string) wire.Closed
	// stranger answers as nobody in particular and reports whether that was
	// refused for want of rights.
	stranger(in hitl.Response) bool
}

// wayIn opens a transport.
type wayIn struct {
	name string
	open func(*testing.T) transport
}

func waysIn(g *running, cli *bus.Client) []wayIn {
	return []wayIn{
		{"HTTP", func(t *testing.T) transport { return &overHTTP{t, g} }},
		{"HTTP and SSE", func(t *testing.T) transport { return newOverStream(t, g, "") }},
		{"WebSocket", func(t *testing.T) transport { return newOverSocket(t, g) }},
		{"bus", func(t *testing.T) transport { return &overBus{t, cli, g.token} }},
	}
}

// One suite for every way in: ask, see, receipts, decide, outcome.
func TestTransportsAgree_D0_30(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	agents := s.client("agents")
	cli := s.client("cli")
	for i, c := range waysIn(g, cli) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conform(t, agents, fmt.Sprint("s-", i), c.open(t))
		})
	}
	t.Run("SSE and WebSocket tell one story", func(t *testing.T) {
		t.Parallel()
		oneStory(t, g, agents)
	})
}

func conform(t *testing.T, agents *bus.Client, session string, tr transport) {
	asking := func(key string, change func(*hitl.Request)) <-chan *bus.Answer {
		r := request(session + "-" + key)
		r.SessionID = session
		change(r)
		return askFor(t, agents, r)
	}
	id := func(key string) string { return hitl.ID(bus.DefaultTenant, "agents", session+"-"+key, 1) }
	ofQuestion := func(r *hitl.Request) {
		r.Kind, r.Tool = hitl.KindQuestion, nil
		r.Questions = []hitl.Question{{ID: "db", Question: "Which database?", Options: []hitl.Option{{Label: "Postgres"}, {Label: "SQLite"}}}}
	}
	answer := func(s wire.Summary, change func(*hitl.Response)) hitl.Response {
		in := hitl.Response{RequestID: s.Key, SessionID: s.SessionKey, RequestType: s.RequestType, Digest: s.Digest}
		change(&in)
		return in
	}
	refused := func(name string, rec hitl.Receipt, want hitl.Status, field string) {
		t.Helper()
		require.Equal(t, want, rec.Status, "%s: %s", name, rec.Error)
		require.NotEmpty(t, rec.Error, name)
		require.Nil(t, rec.Decision, name)
		if field != "" {
			require.Equal(t, field, rec.Fields[0].Field, name)
		}
	}

	a, q := asking("a", func(*hitl.Request) {}), asking("q", ofQuestion)
	approval, question := tr.seen(id("a")), tr.seen(id("q"))
	require.Equal(t, "tool_approval", approval.RequestType)
	require.Equal(t, "ask_user_question", question.RequestType)
	require.Equal(t, session, approval.SessionID)
	require.Equal(t, "make test", approval.ToolInput)

	refused("unknown", tr.decide(answer(approval, func(in *hitl.Response) { in.RequestID, in.Decision = "nobody", "allow" })), hitl.NotFound, "")
	refused("another session", tr.decide(answer(approval, func(in *hitl.Response) { in.SessionID, in.Decision = "elsewhere", "allow" })), hitl.NotFound, "")
	refused("wrong kind", tr.decide(answer(question, func(in *hitl.Response) { in.Decision = "allow" })), hitl.BadInput, "decision")
	refused("wrong kind by name", tr.decide(answer(question, func(in *hitl.Response) { in.RequestType, in.Decision = "tool_approval", "allow" })), hitl.BadInput, "request_type")
	refused("neither", tr.decide(answer(approval, func(in *hitl.Response) { in.Decision = "yes" })), hitl.BadInput, "decision")
	refused("no digest", tr.decide(answer(approval, func(in *hitl.Response) { in.Digest, in.Decision = "", "allow" })), hitl.BadInput, "digest")
	refused("another digest", tr.decide(answer(approval, func(in *hitl.Response) { in.Digest, in.Decision = question.Digest, "allow" })), hitl.DigestMismatch, "")
	refused("unknown question", tr.decide(answer(question, func(in *hitl.Response) { in.Answers = json.RawMessage(`{"7":"SQLite"}`) })), hitl.BadInput, "answers.7")
	refused("empty answer", tr.decide(answer(question, func(in *hitl.Response) { in.Answers = json.RawMessage(`{"db":""}`) })), hitl.BadInput, "answers.db")
	require.True(t, tr.stranger(answer(approval, func(in *hitl.Response) { in.Decision = "allow" })))
	tr.seen(id("a")) // nothing of that decided anything
	tr.seen(id("q"))

	deny := answer(approval, func(in *hitl.Response) { in.Decision, in.Message = "deny", "not now" })
	first := tr.decide(deny)
	require.Equal(t, hitl.Accepted, first.Status, first.Error)
	require.Equal(t, hitl.Denied, first.Decision.Outcome)
	require.Equal(t, "Ada", first.Decision.Principal.Name)
	require.Empty(t, first.Decision.RequestB64)
	again := tr.decide(deny)
	require.Equal(t, hitl.Duplicate, again.Status)
	require.Equal(t, first.Decision.DecisionID, again.Decision.DecisionID)
	late := tr.decide(answer(approval, func(in *hitl.Response) { in.Decision = "allow" }))
	require.Equal(t, hitl.AlreadyDecided, late.Status)
	require.Equal(t, first.Decision.DecisionID, late.Decision.DecisionID, "the winner's")
	got := take(t, a)
	require.Equal(t, first.Decision.DecisionID, got.Decision.DecisionID)
	require.Equal(t, "not now", got.Decision.Message)
	require.Equal(t, hitl.Denied, tr.closed(id("a")).Outcome)

	rec := tr.decide(answer(question, func(in *hitl.Response) { in.Answers = json.RawMessage(`{"Which database?":"SQLite"}`) }))
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	require.Equal(t, []hitl.Answer{{QuestionID: "db", Values: []string{"SQLite"}}}, take(t, q).Decision.Answers)
	require.Equal(t, hitl.Answered, tr.closed(id("q")).Outcome)

	x := asking("x", func(r *hitl.Request) {
		soon := hitl.Duration(time.Second)
		r.ExpiresIn = &soon
	})
	brief := tr.seen(id("x"))
	require.Equal(t, hitl.Expired, take(t, x).Decision.Outcome)
	gone := tr.decide(answer(brief, func(in *hitl.Response) { in.Decision = "allow" }))
	require.Equal(t, hitl.TooLate, gone.Status)
	require.Equal(t, "system", gone.Decision.Principal.Kind)
	require.Equal(t, hitl.Expired, tr.closed(id("x")).Outcome)
}

// askFor asks in the background.
func askFor(t *testing.T, c *bus.Client, r *hitl.Request) <-chan *bus.Answer {
	t.Helper()
	got, done := make(chan *bus.Answer, 1), make(chan struct{})
	go func() {
		defer close(done)
		a, err := c.Ask(t.Context(), r)
		if err != nil {
			a = nil
		}
		got <- a
	}()
	t.Cleanup(func() { <-done })
	return got
}

// among waits until list has an interaction.
func among(t *testing.T, id string, list func() []wire.Interaction) wire.Interaction {
	t.Helper()
	var found wire.Interaction
	require.Eventually(t, func() bool {
		for _, ix := range list() {
			if ix.ID == id {
				found = ix
				return true
			}
		}
		return false
	}, patience, 5*time.Millisecond)
	return found
}

func ended(ix wire.Interaction) wire.Closed {
	return wire.Closed{Summary: ix.Summary, State: ix.State, Outcome: ix.Outcome, Decision: ix.Decision}
}

type overHTTP struct {
	t *testing.T
	g *running
}

func (h *overHTTP) list(state string) []wire.Interaction {
	status, raw := h.g.call(http.MethodGet, "/api/interactions?state="+state, h.g.token, "")
	require.Equal(h.t, 200, status)
	var out wire.ListReply
	require.NoError(h.t, json.Unmarshal(raw, &out))
	return out.Interactions
}

func (h *overHTTP) seen(id string) wire.Summary {
	h.t.Helper()
	return among(h.t, id, func() []wire.Interaction { return h.list(wire.StatePending) }).Summary
}

func (h *overHTTP) closed(id string) wire.Closed {
	h.t.Helper()
	return ended(among(h.t, id, func() []wire.Interaction { return h.list(wire.StateClosed) }))
}

func (h *overHTTP) post(token string, in hitl.Response) (int, []byte) {
	raw, err := hitl.Marshal(in)
	require.NoError(h.t, err)
	return h.g.call(http.MethodPost, "/api/interactions/"+in.RequestID+"/decision", token, string(raw))
}

func (h *overHTTP) decide(in hitl.Response) hitl.Receipt {
	h.t.Helper()
	status, raw := h.post(h.g.token, in)
	var rec wire.Receipt
	if status == 200 {
		require.NoError(h.t, json.Unmarshal(raw, &rec))
		return rec.Receipt
	}
	var e wire.Error
	require.NoError(h.t, json.Unmarshal(raw, &e))
	want := map[hitl.Status]int{
		hitl.BadInput: 400, hitl.DigestMismatch: 400, hitl.Forbidden: 403, hitl.NotFound: 404, hitl.AlreadyDecided: 409, hitl.TooLate: 410,
	}
	require.Equal(h.t, want[hitl.Status(e.Code)], status, string(raw))
	return hitl.Receipt{Status: hitl.Status(e.Code), Error: e.Error, Fields: e.Fields, Decision: e.Decision}
}

func (h *overHTTP) stranger(in hitl.Response) bool {
	status, _ := h.post("made-up", in)
	return status == http.StatusUnauthorized
}

type overBus struct {
	t     *testing.T
	c     *bus.Client
	token string
}

func (b *overBus) list(state string) []wire.Interaction {
	list, err := b.c.List(b.t.Context(), wire.ListCall{State: state})
	require.NoError(b.t, err)
	return list
}

func (b *overBus) seen(id string) wire.Summary {
	b.t.Helper()
	return among(b.t, id, func() []wire.Interaction { return b.list(wire.StatePending) }).Summary
}

func (b *overBus) closed(id string) wire.Closed {
	b.t.Helper()
	return ended(among(b.t, id, func() []wire.Interaction { return b.list(wire.StateClosed) }))
}

func (b *overBus) call(token string, in hitl.Response) hitl.Receipt {
	b.t.Helper()
	rec, err := b.c.Decide(b.t.Context(), wire.DecideCall{ID: in.RequestID, Token: token, Response: in})
	require.NoError(b.t, err)
	return rec.Receipt
}

func (b *overBus) decide(in hitl.Response) hitl.Receipt { return b.call(b.token, in) }

func (b *overBus) stranger(in hitl.Response) bool { return b.call("", in).Status == hitl.Forbidden }

// overSocket knows what its frames told.
type overSocket struct {
	t    *testing.T
	g    *running
	conn *websocket.Conn
	refs int
	screen
	contracttest.Socket
}

func newOverSocket(t *testing.T, g *running) *overSocket {
	t.Helper()
	return newOverSocketFrom(t, g, "")
}

func newOverSocketFrom(t *testing.T, g *running, from string) *overSocket {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://"+g.Addr()+"/api/ws", nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(64 << 20)
	c, err := published()
	require.NoError(t, err)
	o := &overSocket{t: t, g: g, conn: conn, Socket: contracttest.Socket{Contract: c}, screen: newScreen()}
	o.send(wire.Client{Type: wire.TypeAuth, Token: g.token, Cursor: from})
	return o
}

func (o *overSocket) send(v any) {
	o.t.Helper()
	raw, err := hitl.Marshal(v)
	require.NoError(o.t, err)
	o.Sent(raw)
	require.NoError(o.t, o.conn.Write(o.t.Context(), websocket.MessageText, raw))
}

// until reads frames until done says so; done gets each receipt.
func (o *overSocket) until(done func(*wire.Receipt) bool) {
	o.t.Helper()
	if done(nil) {
		return
	}
	ctx, cancel := context.WithTimeout(o.t.Context(), patience)
	defer cancel()
	for {
		_, raw, err := o.conn.Read(ctx)
		require.NoError(o.t, err)
		require.NoError(o.t, o.Received(raw))
		frames := []json.RawMessage{raw}
		if bytes.HasPrefix(raw, []byte("[")) {
			require.NoError(o.t, json.Unmarshal(raw, &frames))
		}
		ok := false
		for _, f := range frames {
			ok = done(o.take(o.t, f)) || ok
		}
		if ok {
			return
		}
	}
}

func (o *overSocket) seen(id string) wire.Summary {
	o.t.Helper()
	o.until(func(*wire.Receipt) bool { return o.open[id].RequestID == id })
	return o.open[id]
}

func (o *overSocket) closed(id string) wire.Closed {
	o.t.Helper()
	o.until(func(*wire.Receipt) bool { return o.over[id].RequestID == id })
	require.NotContains(o.t, o.open, id)
	return o.over[id]
}

func (o *overSocket) decide(in hitl.Response) (rec hitl.Receipt) {
	o.t.Helper()
	o.refs++
	in.Ref = fmt.Sprint("r", o.refs)
	o.send(struct {
		Type string `json:"type"`
		hitl.Response
	}{wire.TypeResponse, in})
	o.until(func(got *wire.Receipt) bool {
		if got == nil || got.Ref != in.Ref {
			return false
		}
		rec = got.Receipt
		return true
	})
	return rec
}

func (o *overSocket) stranger(hitl.Response) bool {
	o.t.Helper()
	conn, _, err := websocket.Dial(o.t.Context(), "ws://"+o.g.Addr()+"/api/ws", nil)
	require.NoError(o.t, err)
	defer func() { _ = conn.CloseNow() }()
	require.NoError(o.t, conn.Write(o.t.Context(), websocket.MessageText, []byte(`{"type":"auth","token":"made-up"}`)))
	ctx, cancel := context.WithTimeout(o.t.Context(), patience)
	defer cancel()
	_, _, err = conn.Read(ctx)
	return websocket.CloseStatus(err) == wire.CloseBadAuth
}

func tell(typ, data string) string {
	if typ == hitl.EventInteractionPending {
		if strings.Contains(data, `"pending":true`) {
			return typ + " true"
		}
		return typ + " false"
	}
	return typ
}

// oneStory follows one session over both and compares what they tell.
func oneStory(t *testing.T, g *running, agents *bus.Client) {
	r := request("story")
	r.SessionID = "story"
	got := askFor(t, agents, r)
	socket := newOverSocket(t, g)
	s := socket.seen(hitl.ID(bus.DefaultTenant, "agents", "story", 1))
	socket.send(map[string]any{"type": wire.TypeSubscribe, "ref": "sub", "session_id": s.SessionKey})

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.Addr()+"/api/sessions/"+s.SessionKey+"/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+g.token)
	res, err := g.client().Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, 200, res.StatusCode)

	rec := socket.decide(hitl.Response{
		RequestID: s.Key, SessionID: s.SessionKey, RequestType: s.RequestType, Digest: s.Digest, Decision: "allow",
	})
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	require.Equal(t, hitl.Allowed, take(t, got).Decision.Outcome)
	want := []string{
		"interaction_pending true", "interaction_request", "approval_required",
		"interaction_response", "interaction_pending false",
	}
	socket.until(func(*wire.Receipt) bool { return len(socket.events) >= len(want) })
	require.Equal(t, want, socket.events)

	var told []string
	var typ string
	for lines := bufio.NewScanner(res.Body); len(told) < len(want) && lines.Scan(); {
		switch key, value, _ := strings.Cut(lines.Text(), ": "); {
		case key == "event":
			typ = value
		case key == "data" && typ != "reset":
			told = append(told, tell(typ, value))
		}
	}
	require.Equal(t, want, told)
}
