package door_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
	"github.com/banksman/banksman/services/gateway/internal/presence"
	"github.com/banksman/banksman/services/gateway/internal/pushes"
	"github.com/banksman/banksman/services/gateway/internal/rulebook"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
)

// open is a door without rate limits, with a signed-in person's token.
func open(f *testing.F, engine *fake, change ...func(*auth.Options)) (http.Handler, string) {
	d, grant := openDoor(f, engine, change...)
	return d.Handler(), grant(f)
}

// openDoor is open for who wants a token more than once.
func openDoor(f *testing.F, engine *fake, change ...func(*auth.Options)) (d *door.Door, grant func(testing.TB) string) {
	store := newStore(f, change...)
	o := door.Options{
		Engine: engine, Asker: engine, Auth: store, Visits: visits(f, store), Logger: slog.New(slog.DiscardHandler), Web: webFiles, Links: http.NotFoundHandler(), Hosts: []string{"door"},
		DefaultCwd: "/home/ada", Tenant: "default", Pool: "agents", Limits: socket.Limits{Rate: 1e6, Burst: 1e6, Behind: time.Nanosecond},
	}
	o.NotifierListens = func(context.Context) (bool, error) { return true, nil }
	o.Channels = func(context.Context) ([]wire.AlertChannel, error) { return nil, nil }
	o.AlertsOf = func(_ context.Context, key string) (*wire.Alerts, error) {
		return &wire.Alerts{Key: key, Notifier: wire.NotifierSilent, Deliveries: []wire.AlertDelivery{}}, nil
	}
	o.Presence = presence.New(presence.Options{Waiting: engine.Waiting, Tell: func(subject.Ref) error { return nil }, Logger: o.Logger})
	conn, _ := servers.Load(store)
	nc := conn.(*nats.Conn)
	book, err := rulebook.Open(f.Context(), rulebook.Options{Conn: nc, Logger: o.Logger, Rights: store.Standing})
	require.NoError(f, err)
	o.Rules = &rulebook.Desk{Book: book, Engine: engine}
	browsers, err := pushes.Open(f.Context(), pushes.Options{Conn: nc, Auth: store, Logger: o.Logger, PublicKey: "key"})
	require.NoError(f, err)
	tickets, err := ticket.Open(f.Context(), ticket.Options{Conn: nc, Engine: engine, People: store, Logger: o.Logger})
	require.NoError(f, err)
	o.Pushes = &pushes.Desk{Store: browsers, Tickets: tickets, Logger: o.Logger}
	d, err = door.New(o)
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { d.Run(ctx) })
	wg.Go(func() { _ = book.Follow(ctx, d.RulesChanged) })
	f.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return d, func(t testing.TB) string {
		token, _, err := store.Grant(context.Background())
		require.NoError(t, err)
		return token
	}
}

// waiting forgets all and asks for one approval and one question.
func waiting(engine *fake) (approval, choice *asked) {
	engine.set(func(f *fake) {
		f.list, f.ring, f.started, f.commands = nil, nil, nil, nil
		f.events, f.sessions = map[string][]wire.Event{}, map[string]*wire.ProcessState{}
	})
	a, q := bash("s", "call-a"), question("s", "call-q")
	a.Key, q.Key = "a", "q"
	return engine.ask(a), engine.ask(q)
}

// said checks that a decision is what somebody said, on purpose.
func said(t *testing.T, a, q *asked, body []byte, engine *fake) {
	t.Helper()
	for _, ix := range []*asked{a, q} {
		d := engine.decided(ix)
		if d == nil {
			continue
		}
		require.NoError(t, hitl.CheckJSON(body))
		require.Equal(t, "owner", d.Principal.ID)
		if d.Outcome == hitl.Allowed && len(d.UpdatedInput) > 0 {
			var text string
			var in struct {
				UpdatedInput json.RawMessage `json:"updated_input"`
			}
			require.NoError(t, json.Unmarshal(body, &in))
			if json.Unmarshal(in.UpdatedInput, &text) != nil {
				text = string(in.UpdatedInput)
			}
			require.Equal(t, text, string(d.UpdatedInput), "an edit runs byte for byte")
		}
	}
}

var fuzzBodies = []string{
	``, `{}`, `null`, `[]`, `{"decision":"allow"}`, `{"digest":"D","decision":"allow"}`, `{"digest":"D","decision":"allow","updated_input":"{\"n\":9007199254740993}"}`,
	`{"digest":"D","decision":"deny","Decision":"allow"}`, `{"request_id":"A"}`, `{"tool_call_id":"call-a"}`, `{"request_id":"Q","answers":{"db":"SQLite"}}`, `{"tool_call_id":"call-q","answers":{"0":"SQLite"}}`,
	`{"token":"x"}`, `{"allow":true}`, `{"runtime":"demo"}`, `{"runtime":"claude","prompt":"p","attachments":[{"kind":"image"}]}`, `{"text":"t","command_id":"c"}`, `{"mode":"plan"}`,
	"{\"text\":\"\xff\"}", `{"answers":{"db":"a","db":"b"}}`, `{"content":"{}"}`, `{"action":"dismiss","digest":"D"}`, `{"kind":"approval","key":"k","title":"t","tool":{"name":"Bash","input":{"command":"ls"}}}`, `{"key":"k","tenant":"other","owner":"x"}`,
	`{"requests":["A"]}`, `{"requests":[]}`, `{"requests":["A","\ud800","*"]}`, `{"request_id":"A","effect":"allow","expires_in":3600}`, `{"request_id":"A","effect":"allow","expires_in":1e999,"max_uses":-1}`, `{"version":1,"expires_in":60}`,
	`{"id":"bo","name":"Bo","roles":[{"role":"approver","projects":["*"]}]}`, `{"id":"../x","roles":[{"role":"root"}]}`, `{"id":"bo","ID":"owner"}`, `{"name":"ci","roles":[{"role":"viewer","projects":["*"]}],"expires_in":3600}`, `{"name":"","roles":[]}`,
	`{"endpoint":"https://push.example.com/x","keys":{"p256dh":"BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU","auth":"AAAAAAAAAAAAAAAAAAAAAA"}}`, `{"endpoint":"http://10.0.0.1/","keys":{}}`,
	`{"user":"owner","renewal":"x","new":{"endpoint":"https://h/"}}`, `{"token":"ticket_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","decision":"allow"}`, `{"ceremony":"AAAA","credential":{"id":"AAAA"},"state":"s","code":"c"}`, `{"invite":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`,
	`{"updated_input":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`,
}

var param = regexp.MustCompile(`{\w+}`)

func FuzzHTTP(f *testing.F) {
	engine := newFake()
	engine.asked = func(tenant string, by hitl.Principal, _ []byte, _ time.Duration) (*wire.AskReply, *wire.Error) {
		return &wire.AskReply{Status: wire.AskPending, ID: tenant + by.ID}, nil
	}
	d, grant := openDoor(f, engine)
	handler, token := d.Handler(), grant(f)
	a, q := waiting(engine)
	// Digests and ids do not depend on the run.
	fill := strings.NewReplacer(`"D"`, `"`+a.summary.Digest+`"`, `"A"`, `"`+a.summary.RequestID+`"`, `"Q"`, `"`+q.summary.RequestID+`"`)
	// Every route that answers and ends.
	routes := slices.DeleteFunc(slices.Sorted(slices.Values(d.Patterns())), func(r string) bool {
		return slices.Contains([]string{"GET /api/ws", "GET /api/events", "GET /api/sessions/{id}/events"}, r) // see FuzzFrame, FuzzLastEventID
	})
	routes = append(routes, "POST /api/none", "GET /api/interactions?{id}", "GET /api/rules?{id}", "GET /api/sessions?{id}", "POST /api/interactions?{id}")
	for i, route := range routes {
		ids, bodies := []string{"s", a.summary.Key, a.summary.RequestID, "..", "%00", "limit=5&state=closed", "wait=1ms"}, fuzzBodies
		if !strings.Contains(route, "{") {
			ids = ids[:1]
		}
		if !strings.HasPrefix(route, "POST") {
			bodies = bodies[:2] // it reads none
		}
		for _, id := range ids {
			for _, body := range bodies {
				f.Add(uint8(i), id, []byte(fill.Replace(body)))
			}
		}
	}
	f.Fuzz(func(t *testing.T, route uint8, id string, body []byte) {
		a, q := waiting(engine)
		method, path, _ := strings.Cut(routes[int(route)%len(routes)], " ")
		at, err := url.Parse("http://door" + param.ReplaceAllLiteralString(path, url.PathEscape(id)))
		if err != nil {
			return
		}
		req := httptest.NewRequestWithContext(t.Context(), method, "http://door/", bytes.NewReader(body))
		req.URL = at
		req.Header.Set("Authorization", "Bearer "+token)
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, req)
		if res.Code == http.StatusUnauthorized { // it ended its own session before, as it may
			token = grant(t)
		}
		require.Less(t, res.Code, 500, "%s", res.Body)
		require.True(t, utf8.Valid(res.Body.Bytes()))
		said(t, a, q, body, engine)
		if res.Code == 200 {
			require.True(t, json.Valid(res.Body.Bytes()))
			return
		}
		if loc := res.Header().Get("Location"); res.Code/100 == 3 {
			require.True(t, strings.HasPrefix(loc, "/") && !strings.HasPrefix(loc, "//"), "never to another site: %s", loc)
			return
		}
		require.True(t, engine.pending(a) && engine.pending(q), "what was refused changed nothing")
		var e wire.Error
		require.NoError(t, json.Unmarshal(res.Body.Bytes(), &e), "%s", res.Body)
		require.NotEmpty(t, e.Code)
		require.NotEmpty(t, e.Error)
		if e.Code == string(hitl.BadInput) {
			require.Equal(t, 400, res.Code)
			require.NotEmpty(t, e.Fields, "the field is named: %s", res.Body)
			require.Less(t, res.Body.Len(), 2*len(body)+4096)
		}
	})
}

func FuzzFrame(f *testing.F) {
	engine := newFake()
	handler, token := open(f, engine)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = "door"
		handler.ServeHTTP(w, r)
	}))
	f.Cleanup(server.Close)
	a, q := waiting(engine)
	fill := strings.NewReplacer(`"D"`, `"`+a.summary.Digest+`"`, `"A"`, `"`+a.summary.Key+`"`, `"Q"`, `"`+q.summary.Key+`"`, `"S"`, `"`+a.session+`"`)
	for _, s := range append(fuzzBodies,
		`{"type":"pong"}`, `{"type":"auth","token":"x"}`, `{"type":"subscribe","ref":"r","session_id":"S"}`, `{"type":"unsubscribe","session_id":"S"}`, `{"type":"bogus","ref":"r3"}`,
		`{"type":"pending_request_response","ref":"r","session_id":"S","request_id":"A","request_type":"tool_approval","digest":"D","decision":"allow"}`,
		`{"type":"pending_request_response","ref":"r","session_id":"S","request_id":"A","request_type":"tool_approval","digest":"D","decision":"allow","updated_input":"{\"n\":1e400}"}`,
		`{"type":"pending_request_response","ref":"r","session_id":"S","request_id":"Q","request_type":"ask_user_question","digest":"D","answers":{"db":"SQLite"}}`,
		`{"type":"pending_request_response"}`, `{"type":"start_session","runtime":"demo"}`, `{"type":"send_message","session_id":"S","text":"t"}`, `{"type":"interrupt","session_id":"S"}`,
		`{"type":"stop_session"}`, `{"type":"set_mode","session_id":"S","mode":"plan"}`, `[{"type":"pong"},{"type":"pong"}]`, `{"type":"subscribe","session_id":"S","from":"MTc5NTgy"}`, `{"type":"pong","Type":"auth"}`,
	) {
		f.Add([]byte(fill.Replace(s)))
	}
	session := a.session
	var conn *websocket.Conn
	f.Cleanup(func() {
		if conn != nil {
			_ = conn.CloseNow()
		}
	})
	f.Fuzz(func(t *testing.T, frame []byte) {
		if !utf8.Valid(frame) {
			return // no text frame: the library ends the connection as the protocol says
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if conn == nil {
			var err error
			conn, _, err = websocket.Dial(ctx, "ws"+strings.TrimPrefix(server.URL, "http")+"/api/ws", nil)
			require.NoError(t, err)
			conn.SetReadLimit(64 << 20)
			require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(`{"type":"auth","token":"`+token+`"}`)))
		}
		// Nothing of the frame before is still to come.
		const begin = "the begin of this frame"
		require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(`{"type":"unsubscribe","session_id":"`+session+`"}`)))
		require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(`{"type":"unsubscribe","session_id":"x","ref":"`+begin+`"}`)))
		for {
			_, raw, err := conn.Read(ctx)
			require.NoError(t, err)
			if bytes.Contains(raw, []byte(begin)) {
				break
			}
		}
		a, q := waiting(engine)
		require.NoError(t, conn.Write(ctx, websocket.MessageText, frame))
		// One frame at a time is looked at, so this one's receipt comes after the
		// other's, unless that one is still under way.
		const end = "the end of this frame"
		require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(`{"type":"`+end+`","ref":"`+end+`"}`)))
		receipts := 0
		var head struct {
			Type string
			Ref  string
		}
		bad := hitl.Decode(frame, "frame", &wire.Client{}) != nil
		_ = json.Unmarshal(frame, &head)
		silent := !bad && (head.Type == wire.TypePong || head.Type == wire.TypeUnsubscribe && head.Ref == "")
		for done := false; !done || receipts == 0 && !silent; {
			_, raw, err := conn.Read(ctx)
			require.NoError(t, err, "the socket lives on after %q", frame)
			frames := []json.RawMessage{raw}
			if bytes.HasPrefix(raw, []byte("[")) {
				require.NoError(t, json.Unmarshal(raw, &frames))
			}
			for _, one := range frames {
				require.True(t, utf8.Valid(one))
				var rec wire.Receipt
				require.NoError(t, json.Unmarshal(one, &rec))
				// A subscription without a ref is answered by its events.
				if rec.Type == wire.TypeEvent && head.Type == wire.TypeSubscribe && head.Ref == "" {
					silent = true
				}
				if rec.Type != wire.TypeReceipt {
					continue
				}
				if rec.Ref == end {
					done = true
					continue
				}
				receipts++
				require.NotEmpty(t, rec.Status)
				switch rec.Status {
				case hitl.Accepted, hitl.Duplicate:
				default:
					require.NotEmpty(t, rec.Error)
				}
				if rec.Status == hitl.BadInput {
					require.NotEmpty(t, rec.Fields)
				}
			}
		}
		require.LessOrEqual(t, receipts, 1, "one frame, one receipt")
		said(t, a, q, frame, engine)
	})
}
