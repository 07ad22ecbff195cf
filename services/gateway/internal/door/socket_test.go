package door_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
)

// Each row is one frame against an approval and a question in s1 and an
// approval in s2.
func TestReceiptOfEveryFrame(t *testing.T) {
	t.Parallel()
	const response = `{"type":"pending_request_response","ref":"r","session_id":"$s1","request_id":"$a","request_type":"tool_approval","digest":"$da",`
	rows := []struct {
		name, frame string
		status      hitl.Status
		fields      []string
		settles     string
	}{
		{"D1-20 D1-21 allow", response + `"decision":"allow"}`, hitl.Accepted, nil, "a"},
		{"D1-20 plain ids", `{"type":"pending_request_response","ref":"r","session_id":"s1","request_id":"$ida","request_type":"tool_approval","digest":"$da","decision":"deny","message":"no"}`, hitl.Accepted, nil, "a"},
		{"D1-22 answers map", `{"type":"pending_request_response","ref":"r","session_id":"s1","request_id":"$q","request_type":"ask_user_question","digest":"$dq","answers":{"Which database?":"SQLite"}}`, hitl.Accepted, nil, "q"},
		{"D1-47 decision yes", response + `"decision":"yes"}`, hitl.BadInput, []string{"decision"}, ""},
		{"D1-47 decision ALLOW", response + `"decision":"ALLOW"}`, hitl.BadInput, []string{"decision"}, ""},
		{"D1-47 decision true", response + `"decision":true}`, hitl.BadInput, []string{"decision"}, ""},
		{"D1-47 no decision", strings.TrimSuffix(response, ",") + `}`, hitl.BadInput, []string{"decision"}, ""},
		{"D1-23 no session_id", `{"type":"pending_request_response","ref":"r","request_id":"$a","request_type":"tool_approval","digest":"$da","decision":"allow"}`, hitl.BadInput, []string{"session_id"}, ""},
		{"D1-23 no request_type", `{"type":"pending_request_response","ref":"r","session_id":"$s1","request_id":"$a","digest":"$da","decision":"allow"}`, hitl.BadInput, []string{"request_type"}, ""},
		{"D1-23 B-01 no request_id", `{"type":"pending_request_response","ref":"r","session_id":"$s1","request_type":"tool_approval","digest":"$da","decision":"allow"}`, hitl.BadInput, []string{"request_id"}, ""},
		{"D1-24 unknown request_type", `{"type":"pending_request_response","ref":"r","session_id":"$s1","request_id":"$a","request_type":"wish","digest":"$da","decision":"allow"}`, hitl.BadInput, []string{"request_type"}, ""},
		{"D2-12 another kind's type", `{"type":"pending_request_response","ref":"r","session_id":"$s1","request_id":"$a","request_type":"ask_user_question","digest":"$da","answers":{"db":"SQLite"}}`, hitl.BadInput, []string{"request_type"}, ""},
		{"D0-44 another session", `{"type":"pending_request_response","ref":"r","session_id":"$s2","request_id":"$a","request_type":"tool_approval","digest":"$da","decision":"allow"}`, hitl.NotFound, nil, ""},
		{"D0-44 B-01 request of another session", `{"type":"pending_request_response","ref":"r","session_id":"s1","request_id":"$b","request_type":"tool_approval","digest":"$db","decision":"allow"}`, hitl.NotFound, nil, ""},
		{"D1-26 nothing pending", `{"type":"pending_request_response","ref":"r","session_id":"s1","request_id":"none","request_type":"ask_user_question","digest":"00","answers":{"db":"SQLite"}}`, hitl.NotFound, nil, ""},
		{"another digest", `{"type":"pending_request_response","ref":"r","session_id":"s1","request_id":"$a","request_type":"tool_approval","digest":"$db","decision":"allow"}`, hitl.DigestMismatch, nil, ""},
		{"D0-43 B-08 unknown question", `{"type":"pending_request_response","ref":"r","session_id":"s1","request_id":"$q","request_type":"ask_user_question","digest":"$dq","answers":{"x":"SQLite"}}`, hitl.BadInput, []string{"answers.x"}, ""},
		{"C-19 empty answer", `{"type":"pending_request_response","ref":"r","session_id":"s1","request_id":"$q","request_type":"ask_user_question","digest":"$dq","answers":{"db":""}}`, hitl.BadInput, []string{"answers.db"}, ""},
		{"duplicate key", response + `"decision":"deny","decision":"allow"}`, hitl.BadInput, []string{"decision"}, ""},
		{"duplicate key in another case", response + `"decision":"deny","Decision":"allow"}`, hitl.BadInput, []string{"Decision"}, ""},
		{"no type", `{"ref":"r"}`, hitl.BadInput, []string{"type"}, ""},
		{"unknown type", `{"type":"approve_all","ref":"r"}`, hitl.BadInput, []string{"type"}, ""},
		{"auth again", `{"type":"auth","ref":"r","token":"x"}`, hitl.BadInput, []string{"type"}, ""},
		{"subscribe to nothing", `{"type":"subscribe","ref":"r"}`, hitl.BadInput, []string{"session_id"}, ""},
		{"subscribe to an unknown session", `{"type":"subscribe","ref":"r","session_id":"none"}`, hitl.NotFound, nil, ""},
		{"message without text", `{"type":"send_message","ref":"r","session_id":"s1"}`, hitl.BadInput, []string{"text"}, ""},
		{"message", `{"type":"send_message","ref":"r","session_id":"s1","text":"hi","command_id":"1"}`, hitl.Accepted, nil, ""},
		{"message to nobody", `{"type":"send_message","ref":"r","session_id":"none","text":"hi"}`, hitl.NotFound, nil, ""},
		{"interrupt", `{"type":"interrupt","ref":"r","session_id":"s1"}`, hitl.Accepted, nil, ""},
		{"stop", `{"type":"stop_session","ref":"r","session_id":"s1"}`, hitl.Accepted, nil, ""},
		{"mode", `{"type":"set_mode","ref":"r","session_id":"s1","mode":"plan"}`, hitl.Accepted, nil, ""},
		{"mode without one", `{"type":"set_mode","ref":"r","session_id":"s1"}`, hitl.BadInput, []string{"mode"}, ""},
		{"start", `{"type":"start_session","ref":"r","prompt":"hi","runtime":"claude"}`, hitl.Accepted, nil, ""},
		{"start nothing", `{"type":"start_session","ref":"r"}`, hitl.BadInput, []string{"runtime", "prompt"}, ""},
	}
	h := newHouse(t)
	tb, _, _ := h.tab("")
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			h.t = t
			h.fake.reset()
			a, q, b := h.fake.ask(bash("s1", "ca")), h.fake.ask(question("s1", "cq")), h.fake.ask(bash("s2", "cb"))
			ix := map[string]*asked{"a": a, "q": q, "b": b}
			tb.send(strings.NewReplacer("$ida", a.req.ID, "$da", a.summary.Digest, "$dq", q.summary.Digest, "$db", b.summary.Digest,
				"$s1", a.session, "$s2", b.session, "$a", a.summary.Key, "$q", q.summary.Key, "$b", b.summary.Key).Replace(r.frame))
			rec := tb.receipt("r")
			require.Equal(t, r.status, rec.Status, rec.Error)
			require.Equal(t, r.fields, fieldNames(rec.Fields))
			if r.status != hitl.Accepted {
				require.NotEmpty(t, rec.Error)
			}
			for name, a := range ix {
				require.Equal(t, name != r.settles, h.fake.pending(a), "%s is pending", name)
			}
		})
	}
	t.Run("what is no JSON gets a receipt too", func(t *testing.T) {
		h.t = t
		for _, raw := range []string{`{`, `nonsense`, `[]`, `"x"`, `{"type":"pong"} {}`} {
			tb.send(raw)
			rec := tb.receipt("")
			require.Equal(t, hitl.BadInput, rec.Status, raw)
			require.Equal(t, []string{"frame"}, fieldNames(rec.Fields), raw)
		}
	})
}

func TestLateAnswerNeverDecidesTheNextRequest(t *testing.T) {
	t.Parallel()
	t.Run("B-01", func(t *testing.T) {
		h := newHouse(t)
		one := h.fake.ask(bash("s1", "c1"))
		a, _, _ := h.tab("")
		b, _, _ := h.tab("")
		a.answer(one, "a", map[string]any{"decision": "deny"})
		require.Equal(t, hitl.Accepted, a.receipt("a").Status)
		two := h.fake.ask(bash("s1", "c2"))
		b.answer(one, "b", map[string]any{"decision": "allow"})
		rec := b.receipt("b")
		require.Equal(t, hitl.AlreadyDecided, rec.Status)
		require.Equal(t, hitl.Denied, rec.Decision.Outcome)
		require.True(t, h.fake.pending(two))
	})
}

func TestRefusalComesBackWithItsReason(t *testing.T) {
	t.Parallel()
	t.Run("B-30", func(t *testing.T) {
		h := newHouse(t)
		ix := h.fake.ask(bash("s1", "c1"))
		tb, _, _ := h.tab("")
		h.fake.set(func(f *fake) { f.forbid = true })
		tb.answer(ix, "r", map[string]any{"decision": "allow"})
		rec := tb.receipt("r")
		require.Equal(t, hitl.Forbidden, rec.Status)
		require.Equal(t, "you may not decide this", rec.Error)
		require.Equal(t, ix.summary.Key, rec.RequestID)
	})
}

func TestReceiptAloneSettlesTheCard(t *testing.T) {
	t.Parallel()
	t.Run("B-31", func(t *testing.T) {
		h := newHouse(t)
		ix := h.fake.ask(bash("s1", "c1"))
		tb, _, _ := h.tab("")
		h.fake.set(func(f *fake) { f.mute = true }) // no broadcast comes
		for ref, want := range map[string]hitl.Status{"r1": hitl.Accepted} {
			tb.answer(ix, ref, map[string]any{"decision": "allow"})
			rec := tb.receipt(ref)
			require.Equal(t, want, rec.Status)
			require.Equal(t, hitl.Allowed, rec.Decision.Outcome)
		}
		// The answer to a lost receipt: the same again, and nothing is decided twice.
		tb.answer(ix, "r2", map[string]any{"decision": "allow"})
		require.Equal(t, hitl.Duplicate, tb.receipt("r2").Status)
	})
}

func TestSenderLearnsFromTheSameBroadcast(t *testing.T) {
	t.Run("D1-41", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		ix := h.fake.ask(bash("s1", "c1"))
		sender, _, _ := h.tab("")
		other, _, _ := h.tab("")
		sender.answer(ix, "r", map[string]any{"decision": "allow"})
		var got [2]wire.ProcessState
		for i, tb := range []*tab{sender, other} {
			require.NoError(t, json.Unmarshal(tb.next(wire.TypeProcessState), &got[i]))
			require.Empty(t, got[i].PendingRequests)
			require.Nil(t, got[i].PendingRequest)
			require.Equal(t, hitl.Allowed, got[i].Closed[0].Outcome)
		}
		require.Equal(t, got[0], got[1])
	})
}

func TestSnapshotThenWhatHappens(t *testing.T) {
	t.Parallel()
	t.Run("D1-28 the snapshot has what is pending", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		ix := h.fake.ask(bash("s1", "c1"))
		_, hello, snapshot := h.tab("")
		require.Equal(t, wire.Protocol, hello.Protocol)
		require.False(t, hello.Recovered)
		require.Equal(t, "Ada", hello.Principal.Name)
		require.Equal(t, []string{"claude", "demo"}, hello.Runtimes)
		require.Equal(t, "/home/ada", hello.DefaultCwd)
		require.Len(t, snapshot, 1)
		require.Equal(t, ix.req.ID, snapshot[0].PendingRequest.RequestID)
		require.Nil(t, snapshot[0].PendingRequests[0].Body, "bodies are fetched")
	})
	t.Run("an empty snapshot says so", func(t *testing.T) {
		t.Parallel()
		_, _, snapshot := newHouse(t).tab("")
		require.Empty(t, snapshot)
	})
	t.Run("many sessions come in pages", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		for i := range 450 {
			h.fake.open(fmt.Sprintf("s%03d", i))
		}
		_, _, snapshot := h.tab("")
		require.Len(t, snapshot, 450)
		seen := map[string]bool{}
		for _, s := range snapshot {
			seen[s.SessionKey] = true
		}
		require.Len(t, seen, 450)
	})
	t.Run("D1-29 after a reconnect the missed frames, or the snapshot again", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		tb, hello, _ := h.tab("")
		require.NoError(t, tb.conn.Close(websocket.StatusNormalClosure, ""))
		ix := h.fake.ask(bash("s1", "c1"))
		tb, again, _ := h.tab(hello.Cursor)
		require.True(t, again.Recovered)
		var st wire.ProcessState
		require.NoError(t, json.Unmarshal(tb.next(wire.TypeProcessState), &st))
		require.Equal(t, ix.req.ID, st.PendingRequest.RequestID)
		for _, cursor := range []string{"garbage", "", cursorAt(99)} {
			_, again, snapshot := h.tab(cursor)
			require.False(t, again.Recovered, cursor)
			require.Equal(t, ix.req.ID, snapshot[0].PendingRequest.RequestID)
		}
	})
	t.Run("D1-28 invariant 8 nothing is lost or doubled around the snapshot", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, quick(socket.Limits{Queue: 64 << 20}))
		const n = 200
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range n {
				h.fake.ask(bash(fmt.Sprintf("s%03d", i), "c"))
			}
		})
		tb, _, snapshot := h.tab("")
		seen := map[string]int{}
		for _, s := range snapshot {
			seen[s.SessionKey]++
		}
		for len(seen) < n {
			var st wire.ProcessState
			require.NoError(t, json.Unmarshal(tb.next(wire.TypeProcessState), &st))
			seen[st.SessionKey]++
		}
		for key, times := range seen {
			require.Equal(t, 1, times, key)
		}
		wg.Wait()
	})
}

// stream collects the events of a session until count of a type have come.
func (tb *tab) events(key string, done func([]wire.Event, wire.Events) bool) (all []wire.Event) {
	tb.h.t.Helper()
	for {
		var f wire.Events
		raw := tb.find(func(h head) bool { return h.Type == wire.TypeEvent && h.SessionKey == key })
		require.NoError(tb.h.t, json.Unmarshal(raw, &f))
		if f.Reset {
			all = nil
		}
		all = append(all, f.Events...)
		if done(all, f) {
			return all
		}
	}
}

func TestSubscriptionHasNeitherGapNorDouble(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick(socket.Limits{Queue: 64 << 20}))
	key := h.fake.open("s1")
	const n = 600
	for i := range n / 3 {
		h.fake.say(key, fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000)))
	}
	tb, _, _ := h.tab("")
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := n / 3; i < n; i++ {
			h.fake.say(key, fmt.Sprint(i))
		}
	})
	tb.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": "s1"})
	rec := tb.receipt("s")
	require.Equal(t, hitl.Accepted, rec.Status)
	require.Equal(t, key, rec.SessionID)
	all := tb.events(key, func(all []wire.Event, _ wire.Events) bool { return len(all) >= n })
	wg.Wait()
	for i, ev := range all {
		var d struct{ Text string }
		require.NoError(t, json.Unmarshal(ev.Data, &d))
		got, _, _ := strings.Cut(d.Text, " ")
		require.Equal(t, fmt.Sprint(i), got)
	}

	// Resuming in the middle gives the rest, live deltas follow, and after
	// unsubscribing nothing comes.
	other, _, _ := h.tab("")
	other.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": key, "from": all[n-3].Cursor})
	other.receipt("s")
	rest := other.events(key, func(_ []wire.Event, f wire.Events) bool { return !f.More })
	require.Len(t, rest, 2)
	h.fake.delta(key, "typing")
	live := other.events(key, func([]wire.Event, wire.Events) bool { return true })
	require.Equal(t, hitl.EventTextDelta, live[0].Type)
	other.send(map[string]string{"type": "unsubscribe", "ref": "u", "session_id": key})
	other.receipt("u")
	h.fake.say(key, "unheard")
	other.send(`{"type":"nonsense","ref":"end"}`)
	for {
		raw, err := other.frame()
		require.NoError(t, err)
		var hd head
		require.NoError(t, json.Unmarshal(raw, &hd))
		require.NotEqual(t, wire.TypeEvent, hd.Type)
		if hd.Ref == "end" {
			break
		}
	}
}

func TestResubscribeStartsAnew(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.fake.open("s1")
	h.fake.say(key, "one")
	tb, _, _ := h.tab("")
	for _, from := range []string{"", "", "unreadable"} {
		tb.send(map[string]string{"type": "subscribe", "ref": "s", "session_id": "s1", "from": from})
		tb.receipt("s")
		var f wire.Events
		require.NoError(t, json.Unmarshal(tb.next(wire.TypeEvent), &f))
		require.True(t, f.Reset)
		require.False(t, f.More)
		require.Len(t, f.Events, 1)
	}
	h.fake.set(func(f *fake) { f.broken = fmt.Errorf("disk") })
	tb.send(map[string]string{"type": "subscribe", "ref": "x", "session_id": "s1"})
	rec := tb.receipt("x")
	require.Equal(t, hitl.Unavailable, rec.Status)
	require.NotContains(t, rec.Error, "disk")
}

func TestTwelveTabsAnswerAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("B-39", func(t *testing.T) {
		h := newHouse(t)
		ix := h.fake.ask(bash("s1", "c1"))
		var tabs []*tab
		for range 12 {
			tb, _, _ := h.tab("")
			tabs = append(tabs, tb)
		}
		begin := time.Now()
		tabs[0].answer(ix, "r", map[string]any{"decision": "allow"})
		require.Equal(t, hitl.Accepted, tabs[0].receipt("r").Status)
		for _, tb := range tabs[1:] {
			var st wire.ProcessState
			require.NoError(t, json.Unmarshal(tb.next(wire.TypeProcessState), &st))
			require.Len(t, st.Closed, 1)
		}
		require.Less(t, time.Since(begin), 2*time.Second)
	})
}

func TestSlowAnswerHoldsUpNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ix := h.fake.ask(bash("s1", "c1"))
	tb, _, _ := h.tab("")
	stall := make(chan struct{})
	h.fake.set(func(f *fake) { f.stall = stall })
	tb.answer(ix, "slow", map[string]any{"decision": "allow"})
	tb.send(`{"type":"nonsense","ref":"quick"}`)
	require.Equal(t, hitl.BadInput, tb.receipt("quick").Status)
	close(stall)
	require.Equal(t, hitl.Accepted, tb.receipt("slow").Status)
}

func TestAnswerCountsThoughTheTabCloses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ix := h.fake.ask(bash("s1", "c1"))
	tb, _, _ := h.tab("")
	stall := make(chan struct{})
	h.fake.set(func(f *fake) { f.stall = stall })
	tb.answer(ix, "r", map[string]any{"decision": "allow"})
	require.Eventually(t, func() bool {
		var n int
		h.fake.set(func(f *fake) { n = f.attempts })
		return n == 1
	}, patience, time.Millisecond)
	_ = tb.conn.CloseNow()
	close(stall)
	require.Eventually(t, func() bool { return !h.fake.pending(ix) }, patience, time.Millisecond)
}

func TestNoticesReachEveryTab(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	tb, _, _ := h.tab("")
	req, _, err := h.auth.RequestCLI(t.Context(), "laptop", false)
	require.NoError(t, err)
	var waits struct{ Code, Name string }
	require.NoError(t, json.Unmarshal(tb.next("cli_login"), &waits))
	require.Equal(t, req.Code, waits.Code)
	require.Equal(t, "laptop", waits.Name)
	status, _ := h.post("/api/cli-logins/"+req.Code, `{"allow":false}`)
	require.Equal(t, 200, status)
	require.Contains(t, string(tb.next("cli_login_settled")), req.Code)
	link, _, err := h.auth.Link(t.Context())
	require.NoError(t, err)
	status, _ = h.post("/api/login", fmt.Sprintf(`{"token":%q}`, link))
	require.Equal(t, 200, status)
	for !strings.Contains(string(tb.next("signed_in")), `"via":"link"`) {
		continue // the harness signed in too
	}
}

func quick(l socket.Limits) func(*door.Options) {
	return func(o *door.Options) {
		l.Tick, l.SignIn = 2*time.Millisecond, cmp.Or(l.SignIn, patience)
		o.Limits = l
	}
}
