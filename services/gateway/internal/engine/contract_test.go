package engine

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// happened returns the session's events of a type so far.
func (r *recorder) happened(session, typ string) []wire.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []wire.Event
	for _, u := range r.updates {
		for _, ev := range u.Events {
			if u.SessionKey == session && ev.Type == typ {
				out = append(out, ev)
			}
		}
	}
	return out
}

// one waits for the first event of a type and returns its data.
func (r *recorder) one(t *testing.T, session, typ string) map[string]any {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.happened(session, typ)) > 0 }, patience, time.Millisecond, "%s in %s", typ, session)
	var data map[string]any
	require.NoError(t, json.Unmarshal(r.happened(session, typ)[0].Data, &data))
	return data
}

// clock is a gateway's, moved by hand.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func in(session string) func(*hitl.Request) {
	return func(r *hitl.Request) { r.SessionID = session }
}

func form(key string, change ...func(*hitl.Request)) *hitl.Request {
	return request(key, append([]func(*hitl.Request){func(r *hitl.Request) {
		r.Kind, r.Tool = hitl.KindForm, nil
		r.Schema = json.RawMessage(`{"type":"object","properties":{"env":{"type":"string"}}}`)
	}}, change...)...)
}

const pollKind = "test_poll"

var registerPoll = sync.OnceFunc(func() {
	hitl.RegisterKind(hitl.Kind{
		Name: pollKind, RequestType: "poll", Presentation: "questionnaire", Verbs: []string{hitl.VerbAnswer, hitl.VerbDismiss},
		Check: func(*hitl.Request) []hitl.Field { return nil },
		Answer: func(_ *hitl.Request, p *hitl.Response, c *hitl.Content) []hitl.Field {
			c.Content = p.Content
			return nil
		},
	})
})

// What a session's stream says of each kind while the agent waits.
func TestEventsOfEachKind(t *testing.T) {
	t.Parallel()
	registerPoll()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	var rec recorder
	watch := e.Watch("", rec.add)
	defer watch.Stop()
	pendingData := func(r *hitl.Request, tool, presentation string) map[string]any {
		return map[string]any{
			"tool_call_id": r.ToolCallID, "interaction_id": r.ID, "key": ref(r).String(), "tool_name": tool,
			"pending": true, "presentation": presentation,
		}
	}
	key := func(r *hitl.Request) string { return "default.agents." + r.SessionID }

	t.Run("D0-12 D3-01 D3-03 C-03 an approval has its tool and its input as JSON text", func(t *testing.T) {
		r := request("a", in("approval"), func(r *hitl.Request) {
			r.Tool.Input = json.RawMessage(`{"command":"echo 9007199254740993","n":9007199254740993}`)
		})
		w.ask(nc, r)
		data := rec.one(t, key(r), hitl.EventApprovalRequired)
		require.Equal(t, r.ToolCallID, data["tool_call_id"])
		require.Equal(t, r.ID, data["interaction_id"])
		require.Equal(t, "Bash", data["tool_name"])
		require.Equal(t, false, data["cut"])
		text, ok := data["input"].(string)
		require.True(t, ok, "text, which no client has to round")
		require.JSONEq(t, string(r.Tool.Input), text)
		require.Contains(t, text, `"n": 9007199254740993`)
		require.Equal(t, pendingData(r, "Bash", "tool"), rec.one(t, key(r), hitl.EventInteractionPending))
	})
	t.Run("D0-12 an input that is too large for an event says so", func(t *testing.T) {
		r := request("big", in("big"), func(r *hitl.Request) {
			r.Tool.Input = json.RawMessage(`{"command":"ls","more":"` + strings.Repeat("x", 8<<10) + `"}`)
		})
		w.ask(nc, r)
		require.Equal(t, true, rec.one(t, key(r), hitl.EventApprovalRequired)["cut"])
	})
	t.Run("D0-11 D0-23 D3-01 D3-03 a question has its questions", func(t *testing.T) {
		r := question("q")
		r.SessionID, r.ToolCallID = "question", "toolu_q"
		r.Questions = []hitl.Question{
			{Header: "Database", Question: "Which?", Options: []hitl.Option{{Label: "Postgres", Description: "relational"}, {Label: "SQLite"}}},
			{Header: "Features", Question: "Which of these?", MultiSelect: true, Options: []hitl.Option{{Label: "A"}, {Label: "B"}}},
		}
		w.ask(nc, r)
		data := rec.one(t, key(r), hitl.EventQuestionPrompt)
		require.Equal(t, "toolu_q", data["tool_call_id"])
		raw, err := json.Marshal(data["questions"])
		require.NoError(t, err)
		require.JSONEq(t, `[
			{"id":"0","header":"Database","question":"Which?","multi_select":false,"allow_other":true,"required":true,
			 "options":[{"value":"Postgres","label":"Postgres","description":"relational"},{"value":"SQLite","label":"SQLite"}]},
			{"id":"1","header":"Features","question":"Which of these?","multi_select":true,"allow_other":true,"required":true,
			 "options":[{"value":"A","label":"A"},{"value":"B","label":"B"}]}]`, string(raw))
		require.Equal(t, pendingData(r, "AskUserQuestion", "questionnaire"), rec.one(t, key(r), hitl.EventInteractionPending))
		require.Equal(t, []string{"interaction_pending true", "interaction_request", "question_prompt"}, rec.events(key(r)))
	})
	t.Run("D3-01 D3-03 a form is a questionnaire", func(t *testing.T) {
		r := form("f", in("form"))
		w.ask(nc, r)
		require.Equal(t, pendingData(r, "", "questionnaire"), rec.one(t, key(r), hitl.EventInteractionPending))
	})
	t.Run("D0-05 D0-16 D0-53 D3-03 a kind that nobody here knew comes in the same frames", func(t *testing.T) {
		r := request("p", in("poll"), func(r *hitl.Request) { r.Kind, r.Tool = pollKind, nil })
		raw := w.ask(nc, r)
		require.Equal(t, pendingData(r, "", "questionnaire"), rec.one(t, key(r), hitl.EventInteractionPending))
		asked := rec.one(t, key(r), hitl.EventInteractionRequest)
		require.Equal(t, pollKind, asked["kind"], "the envelope says what it is")
		require.Equal(t, "poll", asked["request_type"])
		require.Equal(t, []string{"interaction_pending true", "interaction_request"}, rec.events(key(r)))
		got := e.Decide(t.Context(), answer(r, raw, "ada", func(a *api.Attempt) { a.Content = json.RawMessage(`{"vote":"yes"}`) }))
		require.Equal(t, hitl.Accepted, got.Status, got.Error)
		require.Equal(t, hitl.Answered, got.Decision.Outcome)
		require.Equal(t, pollKind, rec.one(t, key(r), hitl.EventInteractionResponse)["kind"])
	})
}

// Whatever ends an interaction, its session is told exactly once, and no timer
// of it is left.
func TestEveryEndIsToldOnce_D3_05_D2_06_D0_09_D0_47(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var c clock
	e, _ := w.gateway(sharing(c.now))
	nc := w.connect()
	var rec recorder
	watch := e.Watch("", rec.add)
	defer watch.Stop()
	decide := func(change func(*api.Attempt)) func(*testing.T, *hitl.Request, []byte) {
		return func(t *testing.T, r *hitl.Request, raw []byte) {
			got := e.Decide(t.Context(), answer(r, raw, "ada", change))
			require.Equal(t, hitl.Accepted, got.Status, got.Error)
		}
	}
	rows := []struct {
		name string
		r    func(string) *hitl.Request
		end  func(*testing.T, *hitl.Request, []byte)
		want hitl.Outcome
	}{
		{"approve", approvalIn, decide(allow), hitl.Allowed},
		{"deny", approvalIn, decide(deny), hitl.Denied},
		{"submit", questionIn, decide(func(a *api.Attempt) { a.Answers = json.RawMessage(`{"0":"SQLite"}`) }), hitl.Answered},
		{"clarify", questionIn, decide(func(a *api.Attempt) { a.Action, a.Message = "clarify", "why?" }), hitl.Clarify},
		{"dismiss", questionIn, decide(func(a *api.Attempt) { a.Action = "dismiss" }), hitl.Dismissed},
		{"fill in", func(s string) *hitl.Request { return form(s, in(s)) }, decide(func(a *api.Attempt) { a.Content = json.RawMessage(`{"env":"prod"}`) }), hitl.Answered},
		{"cancel", approvalIn, func(_ *testing.T, r *hitl.Request, _ []byte) {
			w.store(nc, subject.Withdraw(ref(r)), []byte(`{"v":1,"reason":"interrupted"}`))
		}, hitl.Cancelled},
		{"lost", approvalIn, func(_ *testing.T, r *hitl.Request, _ []byte) {
			w.state(nc, hitl.SessionState{SessionID: r.SessionID, Worker: "w1", Generation: 1, State: hitl.StateDead})
		}, hitl.Orphaned},
		{"time out", approvalIn, func(*testing.T, *hitl.Request, []byte) {
			c.jump(11 * time.Minute)
			signal(e.alarm)
		}, hitl.Expired}, // the last row: it moves the clock
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := row.r("s-" + strings.ReplaceAll(row.name, " ", "-"))
			raw := w.ask(nc, r)
			key := "default.agents." + r.SessionID
			rec.one(t, key, hitl.EventInteractionRequest)
			row.end(t, r, raw)
			require.Equal(t, row.want, outcome(t, e, r).Outcome)
			rec.one(t, key, hitl.EventInteractionResponse)
			_, next := e.view.Due(1000 * time.Hour)
			require.Equal(t, 1000*time.Hour, next, "its timer stops with it")
			require.Zero(t, e.view.Len())
		})
	}
	// Long after every deadline, nothing more comes of any of them.
	c.jump(time.Hour)
	signal(e.alarm)
	j := w.journal(nc)
	require.Eventually(t, func() bool {
		_, sweeper, _ := j.Floors(t.Context())
		return sweeper == uint64(len(rows))
	}, patience, time.Millisecond)
	pos, err := j.Position(t.Context(), journal.Decisions)
	require.NoError(t, err)
	require.EqualValues(t, len(rows), pos.Last)
	for _, row := range rows {
		var said []string
		for _, name := range rec.events("default.agents.s-" + strings.ReplaceAll(row.name, " ", "-")) {
			if strings.HasPrefix(name, hitl.EventInteractionPending) {
				said = append(said, name)
			}
		}
		require.Equal(t, []string{"interaction_pending true", "interaction_pending false"}, said, row.name)
	}
}

func approvalIn(s string) *hitl.Request { return request(s, in(s)) }

func questionIn(s string) *hitl.Request {
	r := question(s)
	r.SessionID = s
	return r
}

// What is told of a session before, while and after something waits in it.
func TestProcessState_D0_07_D1_10_D1_11_D1_13_D1_27_D1_42_C05_C09_B41(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	at := time.Date(2026, 11, 27, 12, 0, 0, 123456789, time.UTC)
	st := hitl.SessionState{
		SessionID: "s1", ProjectID: "shop", Worker: "w1", Generation: 1, Runtime: "claude", State: hitl.StateAssistantTurn,
		StartedAt: at, StateChangedAt: at.Add(time.Second), Mode: "plan", Model: "m-1", Memory: 4096,
	}
	w.state(nc, st)
	frame := func(done func(map[string]any) bool) map[string]any {
		t.Helper()
		var out map[string]any
		require.Eventually(t, func() bool {
			all := e.Sessions()
			if len(all) != 1 {
				return false
			}
			raw, err := hitl.Marshal(all[0])
			require.NoError(t, err)
			out = nil
			require.NoError(t, json.Unmarshal(raw, &out))
			return done(out)
		}, patience, time.Millisecond)
		return out
	}
	waiting := func(n float64) func(map[string]any) bool {
		return func(f map[string]any) bool { return f["pending_count"] == n }
	}
	told := map[string]any{
		"session_id": "s1", "session_key": s1, "project_id": "shop", "state": "assistant_turn", "mode": "plan", "model": "m-1",
		"started_at": "2026-11-27T12:00:00.123456789Z", "state_changed_at": "2026-11-27T12:00:01.123456789Z", "memory": 4096.0,
	}
	holds := func(f map[string]any) {
		t.Helper()
		for name, want := range told {
			require.Equal(t, want, f[name], name)
		}
	}
	idle := frame(waiting(0))
	holds(idle)
	require.NotContains(t, idle, "pending_request", "nothing waits: no such field")
	require.NotContains(t, idle, "error")
	require.Empty(t, idle["pending_requests"])

	first := request("k1", expiring(10*time.Minute))
	raw := w.ask(nc, first)
	frame(waiting(1))
	second := request("k2", expiring(20*time.Minute))
	w.ask(nc, second)
	both := frame(waiting(2))
	holds(both) // to wait is no state of its own
	list := both["pending_requests"].([]any)
	oldest := list[0].(map[string]any)
	require.Equal(t, first.ID, oldest["request_id"])
	require.Equal(t, second.ID, list[1].(map[string]any)["request_id"])
	require.Equal(t, first.ID, both["pending_request"].(map[string]any)["request_id"], "the oldest")
	require.NoError(t, uuid.Validate(first.ID))
	require.Equal(t, "tool_approval", oldest["request_type"])
	require.Equal(t, "Bash", oldest["tool_name"])
	require.Equal(t, "make test", oldest["tool_input"])
	for i, budget := range []time.Duration{10 * time.Minute, 20 * time.Minute} {
		p := list[i].(map[string]any)
		created, err := time.Parse(time.RFC3339Nano, p["created_at"].(string))
		require.NoError(t, err)
		expires, err := time.Parse(time.RFC3339Nano, p["expires_at"].(string))
		require.NoError(t, err)
		require.Equal(t, budget, expires.Sub(created), "each deadline counts from its own creation")
	}

	// A request cannot be changed once it is there.
	changed := request("k1", expiring(10*time.Minute), func(r *hitl.Request) { r.Tool.Input = json.RawMessage(`{"command":"rm -rf /"}`) })
	evil, err := hitl.Marshal(changed)
	require.NoError(t, err)
	require.Equal(t, first.ID, changed.ID)
	m, err := nc.Request(subject.Request(ref(changed)), evil, patience)
	require.NoError(t, err)
	require.Contains(t, string(m.Data), `"error"`)
	again := frame(waiting(2))["pending_requests"].([]any)[0].(map[string]any)
	for _, field := range []string{"request_id", "request_type", "tool_name", "tool_input", "created_at", "expires_at", "digest"} {
		require.Equal(t, oldest[field], again[field], field)
	}

	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(first, raw, "ada", allow)).Status)
	require.Equal(t, second.ID, frame(waiting(1))["pending_request"].(map[string]any)["request_id"])
	st.State, st.Error, st.KillReason = hitl.StateDead, "out of memory", "crashed"
	w.state(nc, st)
	told["state"], told["error"], told["kill_reason"] = "dead", "out of memory", "crashed"
	dead := frame(func(f map[string]any) bool { return f["state"] == "dead" && f["pending_count"] == 0.0 })
	holds(dead)
	require.NotContains(t, dead, "pending_request")
}

// A tool call's id is data of a session: it names what waits there, and only
// there, whatever the two are made of.
func TestToolCallNamesWhatWaits_D0_06_D0_21_D0_22_D0_44_D4_04_D4_05_C06_invariant8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	call := func(id string) func(*hitl.Request) { return func(r *hitl.Request) { r.ToolCallID = id } }
	a := request("k1", in("a"), call("b__c"))
	w.ask(nc, a)
	pending(t, e, a.ID)
	b := request("k2", in("a__b"), call("c"))
	w.ask(nc, b)
	pending(t, e, a.ID, b.ID)
	c := request("k3", in("other"), call("b__c"))
	w.ask(nc, c)
	pending(t, e, a.ID, b.ID, c.ID)
	q := question("k4")
	q.SessionID, q.ToolCallID = "a", "toolu.q/1"
	w.ask(nc, q)
	pending(t, e, a.ID, b.ID, c.ID, q.ID)

	by := func(session, id, kind string, change func(*api.Attempt)) wire.Receipt {
		at := api.Attempt{Principal: person("ada"), Rights: role.Everything(), Channel: "web", Assurance: "session", Kind: kind, WaiveDigest: true}
		at.SessionID, at.ToolCallID = session, id
		change(&at)
		return e.Decide(t.Context(), at)
	}
	submit := func(at *api.Attempt) { at.Answers = json.RawMessage(`{"0":"SQLite"}`) }
	for name, rec := range map[string]wire.Receipt{
		"D0-22 no such session":           by("nobody", "b__c", hitl.KindApproval, allow),
		"D0-22 not in this session":       by("a__b", "b__c", hitl.KindApproval, allow),
		"D0-22 a question":                by("a", "toolu.q/1", hitl.KindApproval, allow),
		"D0-21 no such session":           by("nobody", "toolu.q/1", hitl.KindQuestion, submit),
		"D0-21 not pending":               by("a", "toolu.q/2", hitl.KindQuestion, submit),
		"D0-21 an approval":               by("a", "b__c", hitl.KindQuestion, submit),
		"D0-44 right call, other session": by("other", "toolu.q/1", hitl.KindQuestion, submit),
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, hitl.NotFound, rec.Status, rec.Error) })
	}
	pending(t, e, a.ID, b.ID, c.ID, q.ID)
	require.Equal(t, hitl.Accepted, by("a", "b__c", hitl.KindApproval, allow).Status)
	pending(t, e, b.ID, c.ID, q.ID)
	require.Equal(t, hitl.Accepted, by("a", "toolu.q/1", hitl.KindQuestion, submit).Status)
	pending(t, e, b.ID, c.ID)
	require.Equal(t, hitl.AlreadyDecided, by("a", "b__c", hitl.KindApproval, deny).Status, "it resolves once")
	// Also between a decision and its closed event.
	e.view.Decided(ref(c))
	pending(t, e, b.ID)
	for _, st := range e.Sessions() {
		require.Equal(t, st.SessionID == "a__b", st.PendingRequest != nil, "what is decided does not show as open")
	}
	late := &api.Attempt{}
	late.SessionID, late.ToolCallID = "other", "b__c"
	got, err := e.view.Resolve(late)
	require.NoError(t, err)
	require.Equal(t, ref(c), got)
}

// Waiting has one deadline, the interaction's own: without one nothing else
// ends it as long as its worker lives.
func TestWaitingIsNoIdleness_D1_19_D4_11(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var c clock
	e, _ := w.gateway(func(o *Options) { o.Clock, o.OrphanAfter = c.now, 3*time.Hour })
	nc := w.connect()
	w.state(nc, hitl.SessionState{SessionID: "s1", Worker: "w1", Generation: 1, State: hitl.StateAssistantTurn})
	r := request("k1", func(r *hitl.Request) { zero := hitl.Duration(0); r.ExpiresIn = &zero })
	raw := w.ask(nc, r)
	early := request("k2", func(r *hitl.Request) { zero := hitl.Duration(0); r.ExpiresIn = &zero })
	rawEarly := w.ask(nc, early)
	pending(t, e, r.ID, early.ID)
	var rec recorder
	watch := e.Watch("", rec.add)
	defer watch.Stop()
	for i := range 3 {
		c.jump(2 * time.Hour)
		signal(e.alarm)
		// The round in which the gateway looks after its workers has come by.
		require.Eventually(t, func() bool { st := rec.last(s1); return st != nil && st.Unreachable }, patience, time.Millisecond)
		if i == 0 { // answers count while the worker is silent
			require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(early, rawEarly, "ada", allow)).Status)
			require.True(t, e.Sessions()[0].Unreachable)
		}
		beat(t, nc, "w1")
		require.Eventually(t, func() bool { return !rec.last(s1).Unreachable }, patience, time.Millisecond)
	}
	pending(t, e, r.ID)
	require.Equal(t, hitl.StateAssistantTurn, e.Sessions()[0].State)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
}

// beat is a worker's sign of life.
func beat(t *testing.T, nc *nats.Conn, worker string) {
	t.Helper()
	raw, err := hitl.Marshal(hitl.Beat{V: 1, Worker: worker, Runtimes: []string{"demo"}})
	require.NoError(t, err)
	require.NoError(t, nc.Publish(subject.Beat("default", "agents", worker), raw))
	require.NoError(t, nc.Flush())
}
