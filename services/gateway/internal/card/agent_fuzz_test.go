package card

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/contract/contracttest"
)

var at = time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)

// mustShow fails on what a page could not show, or a browser would end the
// connection for.
func mustShow(t *testing.T, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), "%q", text)
	for _, r := range text {
		require.True(t, r == '\n' || r == '\t' || unicode.IsGraphic(r) && !unicode.Is(unicode.Cf, r), "%U in %q", r, text)
	}
}

// shownAll walks a document that browsers get; ids stay as they are.
func shownAll(t *testing.T, key string, v any) {
	t.Helper()
	switch v := v.(type) {
	case string:
		if !strings.HasSuffix(key, "_id") {
			mustShow(t, v)
		}
	case []any:
		for _, m := range v {
			shownAll(t, key, m)
		}
	case map[string]any:
		for k, m := range v {
			shownAll(t, k, m)
		}
	}
}

func FuzzFromAgent(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `{"v":1,"type":"text","data":{"role":"assistant","text":"safe\u202eevil"}}`, "{\"v\":1,\"type\":\"text\",\"data\":{\"text\":\"\xff\"}}",
		`{"v":1,"type":"text","type":"done","data":{}}`, `{"v":1,"type":"text","data":{"text":"a","text":"b"}}`, `{"v":1,"type":"text","data":{"text":"a","TEXT":"b"}}`,
		`{"v":1,"type":"tool_call_end","data":{"tool_call_id":"t","tool_name":"Bash\n","input":{"command":"a\u202e","n":9007199254740993}}}`,
		`{"v":1,"type":"tool_call_end","data":{"input":"not an object"}}`, `{"v":1,"type":"tool_call_end"}`, `{"v":1,"type":"tool_result","data":{"content":[{"text":"\u200b"}],"is_error":true}}`,
		`{"v":1,"type":"interaction_pending","data":{"pending":false}}`, `{"v":1,"type":"text","data":{"x_id":"\u202e","a":["\ud800","⟦"]}}`, `{"v":1,"type":"error","data":"\u0000"}`,
		`{"v":1,"type":"error","data":null}`, `{"v":1,"type":"text","data":{"text":7}}`, `{"v":1,"type":"text","data":{"text":null,"attachments":[null,{"name":null}],"more":1}}`,
		`{"v":1,"type":"session_status","data":{"generation":1.0}}`, `{"v":1,"type":"tool_call_end","data":{"tool_call_id":"t","parent_tool_call_id":"p"}}`,
		"{\"v\":1,\"type\":\"text\",\"data\":{\"\xff\":1}}", `{"v":1,"type":"text","data":` + strings.Repeat("[", 250) + strings.Repeat("]", 250) + `}`,
	} {
		f.Add([]byte(s))
	}
	published, err := contracttest.Load()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		ev, ok := FromAgent(journal.Message{Subject: "hitl.evt.t.o.s", Data: body, Time: at})
		if !ok {
			return
		}
		require.NoError(t, hitl.CheckJSON(body), "what two readers could read in two ways is nothing")
		require.True(t, hitl.AgentMaySend(ev.Type))
		require.False(t, strings.HasPrefix(ev.Type, "interaction_"))
		frame, err := hitl.Marshal(wire.Events{Type: wire.TypeEvent, Events: []wire.Event{ev}})
		require.NoError(t, err)
		require.True(t, utf8.Valid(frame), "a browser ends the connection for anything else")
		_, err = published.ServerMessage(frame)
		require.NoError(t, err, "whatever a worker tells, the gateway keeps to what it publishes")
		var data any
		require.NoError(t, json.Unmarshal(ev.Data, &data))
		shownAll(t, "", data)
	})
}

func FuzzFromWorker(f *testing.F) {
	const state = `{"v":1,"session_id":"s","tenant":"t","owner":"o","worker":"w","generation":1,"runtime":"demo","state":"user_turn"}`
	for _, s := range []string{
		state, strings.Replace(state, `"state"`, `"STATE":"dead","state"`, 1), strings.Replace(state, `"user_turn"`, `"a\u202eb","error":"`+strings.Repeat("x", 3000)+`"`, 1),
		strings.Replace(state, `"v":1`, `"v":1,"started_at":"2026-01-01T00:00:00+24:00"`, 1), strings.Replace(state, `"s"`, `"s2"`, 1), ``, `{}`, "{\"error\":\"\xff\"}",
		`{"v":1,"worker":"w","runtimes":["demo","a b"],"sessions":["s"],"at":"2026-11-27T10:00:00Z"}`, `{"worker":"w","WORKER":"x"}`,
		`{"v":1,"stage":"applied","decision_id":"d","detail":"a\nb\u202e"}`, `{"v":1,"stage":"delivered","decision_id":"d","Decision_id":"e"}`,
	} {
		f.Add([]byte(s))
	}
	key := subject.NewSession("t", "o", "s")
	f.Fuzz(func(t *testing.T, body []byte) {
		if st, ok := ReadState(key, body); ok {
			require.NoError(t, hitl.CheckJSON(body))
			require.Equal(t, key, subject.NewSession(st.Tenant, st.Owner, st.SessionID))
			for _, text := range []string{st.Title, st.Cwd, st.ProjectID, st.Runtime, st.State, st.Mode, st.Model, st.KillReason} {
				mustShow(t, text)
				require.NotContains(t, text, "\n")
				require.LessOrEqual(t, utf8.RuneCountInString(text), maxText+2)
			}
			mustShow(t, st.Error)
			raw, err := hitl.Marshal(wire.ProcessState{SessionState: st})
			require.NoError(t, err)
			require.Less(t, len(raw), 32<<10)
		}
		if b, ok := ReadBeat("w", body); ok {
			require.NoError(t, hitl.CheckJSON(body))
			require.Equal(t, "w", b.Worker)
			require.LessOrEqual(t, len(b.Runtimes), maxRuntimes)
			for _, r := range b.Runtimes {
				require.True(t, subject.ValidToken(r))
			}
		}
		if a, ok := ReadAck(journal.Message{Subject: "hitl.ack.t.o.i.applied", Data: body, Time: at}); ok {
			require.NoError(t, hitl.CheckJSON(body))
			require.Equal(t, hitl.Applied, a.Stage, "the subject says it")
			require.Equal(t, at, a.At)
			mustShow(t, a.Detail)
			require.Less(t, len(Encode(a)), 8<<10)
		}
		_, ok := ReadAck(journal.Message{Subject: "hitl.ack.t.o.i.done", Data: body, Time: at})
		require.False(t, ok)
	})
}

// FuzzStored reads what gateways wrote, of this version or another.
func FuzzStored(f *testing.F) {
	r := &hitl.Request{V: 1, ID: "i", Key: "k", Kind: hitl.KindApproval, Tenant: "t", Owner: "o", SessionID: "s", Title: "x", Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"ls"}`)}}
	sum := Summarize(r, "d", Admission{Ref: subject.NewRef("t", "o", "i"), RequestedAt: at})
	f.Add([]byte(Encode(wire.Opened{V: 1, Summary: sum, RequestB64: "e30="})))
	f.Add([]byte(Encode(wire.Opened{V: 1, Summary: sum, RequestB64: "eyJ2IjoxLCJpZCI6ImkiLCJraW5kIjoicXVlc3Rpb24iLCJ0ZW5hbnQiOiJ0Iiwib3duZXIiOiJvIiwic2Vzc2lvbl9pZCI6InMiLCJ0aXRsZSI6IngiLCJxdWVzdGlvbnMiOlt7InF1ZXN0aW9uIjoiPyJ9XX0="})))
	f.Add([]byte(Encode(wire.Ended{V: 1, Closed: wire.Closed{Summary: sum, Outcome: hitl.Denied, Decision: &hitl.Decision{V: 1}}})))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"kind":"question","created_at":"2026-01-01T00:00:00+24:00"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, v := range []any{new(wire.Opened), new(wire.Ended)} {
			if json.Unmarshal(body, v) == nil {
				if _, err := hitl.Marshal(v); err != nil {
					return // times that nobody can have written
				}
			}
		}
		for _, tail := range []string{subject.Open, subject.Closed} {
			for _, ev := range Stored(journal.Message{Subject: "hitl.ixe.t.o.s.i." + tail, Data: body, Time: at}) {
				require.Equal(t, at, ev.At)
				require.True(t, utf8.Valid(ev.Data))
				var data struct {
					Pending *bool `json:"pending"`
				}
				require.NoError(t, json.Unmarshal(ev.Data, &data))
				if ev.Type == hitl.EventInteractionPending {
					require.Equal(t, tail == subject.Open, *data.Pending)
				}
			}
		}
		require.Empty(t, Stored(journal.Message{Subject: "hitl.ixe.t.o.s.i.other", Data: body}))
	})
}

// FuzzReply: a worker's word on a command is one of those that there are, and what it
// adds is a line for people.
func FuzzReply(f *testing.F) {
	for _, s := range []string{
		``, `null`, `[]`, `{}`, `{"status":"ok"}`, `{"status":"ok"`, `{"status":"OK"}`, `{"status":"accepted"}`, `{"status":1}`, `{"status":1e999}`, `{"status":"invalid","error":"a\nb\u202e"}`, `{"status":"failed","Status":"ok"}`, `{"status":"failed","status":"ok"}`,
		"{\"status\":\"failed\",\"error\":\"\xff\"}", `{"status":"failed","error":"` + strings.Repeat("x", 3000) + `"}`, `{"status":"ok","error":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, `{"status":"ok"}{"status":"failed"}`, `{"status":"duplicate","error":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ReadReply(raw)
		if err != nil {
			var inv *hitl.InvalidError
			require.ErrorAs(t, err, &inv)
			require.NotEmpty(t, inv.Fields)
			require.Zero(t, r)
			return
		}
		require.NoError(t, hitl.CheckJSON(raw))
		require.Contains(t, []string{"ok", "duplicate", "invalid", "not_found", "failed"}, r.Status)
		mustShow(t, r.Error)
		require.NotContains(t, r.Error, "\n")
		require.LessOrEqual(t, utf8.RuneCountInString(r.Error), maxText+2)
		again, err := hitl.Marshal(r)
		require.NoError(t, err)
		same, err := ReadReply(again)
		require.NoError(t, err)
		require.Equal(t, r.Status, same.Status)
	})
}
