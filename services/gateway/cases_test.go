package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway"
)

func answerTo(s wire.Summary, change func(*hitl.Response)) hitl.Response {
	in := hitl.Response{RequestID: s.Key, SessionID: s.SessionKey, RequestType: s.RequestType, Digest: s.Digest}
	change(&in)
	return in
}

// Many askers at once under one key: one card, one answer for all who ask the
// same, a conflict for those who ask something else.
func TestManyAskersUnderOneKey_B06_B43_B55(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	const n = 8
	type outcome struct {
		content int
		a       *bus.Answer
		err     error
	}
	got := make(chan outcome, n)
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		c := s.client("agents") // a process of its own
		r := request("one key")
		r.Tool.Input = json.RawMessage(fmt.Sprintf(`{"command":"make %d","n":1.0}`, i%2))
		if i%4 > 1 { // the same content, written in another way
			r.Tool.Input = json.RawMessage(fmt.Sprintf(`{"n":1.0, "command":"m\u0061ke %d"}`, i%2))
		}
		wg.Go(func() {
			<-begin
			a, err := c.Ask(t.Context(), r)
			got <- outcome{i % 2, a, err}
		})
	}
	t.Cleanup(wg.Wait)
	close(begin)
	tr := newOverSocket(t, g)
	id := hitl.ID(bus.DefaultTenant, "agents", "one key", 1)
	sum := tr.seen(id)
	// The others are told at once; those who wait get the one decision.
	winners, first := -1, ""
	for range n / 2 {
		o := <-got
		require.ErrorIs(t, o.err, bus.ErrKeyConflict)
		winners = 1 - o.content
	}
	require.Len(t, tr.open, 1, "one card")
	rec := tr.decide(answerTo(sum, func(in *hitl.Response) { in.Decision = "allow" }))
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	for range n / 2 {
		o := <-got
		require.NoError(t, o.err)
		require.Equal(t, winners, o.content)
		require.Equal(t, hitl.Allowed, o.a.Decision.Outcome, "never a made-up denial")
		require.Equal(t, rec.Decision.DecisionID, o.a.Decision.DecisionID)
		require.Equal(t, sum.Digest, hitl.Digest(o.a.Request))
		if first == "" {
			first = string(o.a.Request)
		}
		require.Equal(t, first, string(o.a.Request), "all have the bytes that were shown")
	}
	tr.closed(id)
}

// A late answer to what is over leaves what waits now alone, however it names
// what it means, and even where both are one tool call.
func TestALateAnswerMeansWhatItNames_B01_B36_D0_44(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	agents := s.client("agents")
	tr := newOverSocket(t, g)
	first, second := request("first"), request("second")
	first.ToolCallID, second.ToolCallID = "call", "call"
	second.Tool.Input = json.RawMessage(`{"command":"rm -rf build"}`)
	one := askFor(t, agents, first)
	shown := tr.seen(hitl.ID(bus.DefaultTenant, "agents", "first", 1))
	won := tr.decide(answerTo(shown, func(in *hitl.Response) { in.Decision = "deny" }))
	require.Equal(t, hitl.Accepted, won.Status)
	require.Equal(t, hitl.Denied, take(t, one).Decision.Outcome)
	two := askFor(t, agents, second)
	now := tr.seen(hitl.ID(bus.DefaultTenant, "agents", "second", 1))

	late := answerTo(shown, func(in *hitl.Response) { in.Decision = "allow" })
	require.Equal(t, hitl.AlreadyDecided, tr.decide(late).Status)
	byHTTP, _ := g.call(http.MethodPost, "/api/interactions/"+shown.RequestID+"/decision", g.token, `{"digest":"`+shown.Digest+`","decision":"allow"}`)
	require.Equal(t, 409, byHTTP)
	byHTTP, _ = g.call(http.MethodPost, "/api/sessions/s1/approve", g.token, `{"request_id":"`+shown.RequestID+`"}`)
	require.Equal(t, 409, byHTTP)
	// The new id with what was shown of the old one, and no id at all.
	require.Equal(t, hitl.DigestMismatch, tr.decide(answerTo(now, func(in *hitl.Response) { in.Decision, in.Digest = "allow", shown.Digest })).Status)
	byHTTP, _ = g.call(http.MethodPost, "/api/sessions/s1/approve", g.token, `{"tool_call_id":"call","digest":"`+shown.Digest+`"}`)
	require.Equal(t, 400, byHTTP, "a tool call says which, and its digest that it was seen")
	byHTTP, body := g.call(http.MethodPost, "/api/sessions/s1/approve", g.token, `{"tool_call_id":"call"}`)
	require.Equal(t, 400, byHTTP, "it may have been meant for the first one")
	require.Contains(t, string(body), "tool_call_id")
	rec := tr.decide(hitl.Response{SessionID: now.SessionKey, RequestType: now.RequestType, Digest: now.Digest, Decision: "allow"})
	require.Equal(t, hitl.BadInput, rec.Status)
	require.Equal(t, "request_id", rec.Fields[0].Field, "a session is no name for what waits in it")
	rec = tr.decide(answerTo(now, func(in *hitl.Response) { in.Decision, in.SessionID = "allow", "another" }))
	require.Equal(t, hitl.NotFound, rec.Status)

	ix := g.whole(now.Key)
	require.Equal(t, wire.StatePending, ix.State)
	require.Equal(t, hitl.Accepted, tr.decide(answerTo(now, func(in *hitl.Response) { in.Decision = "deny" })).Status)
	require.Equal(t, hitl.Denied, take(t, two).Decision.Outcome)
}

// One person on two devices: the same answer again is the first one's receipt,
// another one is told who won, and which it is does not hang on how it is
// written.
func TestTheSamePersonOnTwoDevices_B04_B31_invariant6(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g, other := s.gateway(), s.gateway(func(o *gateway.Options) { o.TestLogin += "-2" })
	agents := s.client("agents")
	phone, desk := newOverSocket(t, g), &overHTTP{t, other}
	edit := func(text string) func(*hitl.Response) {
		return func(in *hitl.Response) {
			in.Decision = "allow"
			in.UpdatedInput = json.RawMessage(quoted(t, text))
		}
	}
	got := ask(t, agents, "k")
	sum := phone.seen(hitl.ID(bus.DefaultTenant, "agents", "k", 1))
	desk.seen(sum.RequestID)
	won := phone.decide(answerTo(sum, edit(`{"command":"make","n":1.0}`)))
	require.Equal(t, hitl.Accepted, won.Status, won.Error)
	for text, want := range map[string]hitl.Status{
		`{"command":"make","n":1.0}`:                hitl.Duplicate,
		` { "n" : 1.0 , "command" : "m\u0061ke" } `: hitl.Duplicate,
		`{"command":"make","n":1}`:                  hitl.AlreadyDecided,
		`{"command":"make","n":1.0,"x":null}`:       hitl.AlreadyDecided,
		"{\"command\":\"make\u0301\",\"n\":1.0}":    hitl.AlreadyDecided,
	} {
		rec := desk.decide(answerTo(sum, edit(text)))
		require.Equal(t, want, rec.Status, text)
		require.Equal(t, won.Decision.DecisionID, rec.Decision.DecisionID)
	}
	rec := desk.decide(answerTo(sum, func(in *hitl.Response) { in.Decision = "deny" }))
	require.Equal(t, hitl.AlreadyDecided, rec.Status)
	require.Equal(t, hitl.Allowed, rec.Decision.Outcome)
	require.Equal(t, won.Decision.DecisionID, take(t, got).Decision.DecisionID)
}

// Answers that come together each mean their own, and a list of them in one
// message is no way to answer.
func TestAnswersThatComeTogether_B43_D0_08(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	agents := s.client("agents")
	tr := newOverSocket(t, g)
	const n = 5
	var got [n]<-chan *bus.Answer
	var sums [n]wire.Summary
	for i := range n {
		r := request(fmt.Sprint("k", i))
		r.ToolCallID = "same call"
		got[i] = askFor(t, agents, r)
		sums[i] = tr.seen(hitl.ID(bus.DefaultTenant, "agents", r.Key, 1))
	}
	require.Len(t, tr.open, n, "equal texts are interactions of their own")
	frame := func(i int) map[string]any {
		verb := "allow"
		if i%2 == 1 {
			verb = "deny"
		}
		return map[string]any{
			"type": wire.TypeResponse, "ref": fmt.Sprint("b", i), "session_id": sums[i].SessionKey, "request_id": sums[i].Key,
			"request_type": sums[i].RequestType, "digest": sums[i].Digest, "decision": verb,
		}
	}
	tr.send([]any{frame(0), frame(1)})
	tr.until(func(rec *wire.Receipt) bool { return rec != nil && rec.Status == hitl.BadInput })
	for i := range n {
		require.Equal(t, wire.StatePending, g.whole(sums[i].Key).State)
	}
	for _, i := range []int{3, 0, 4, 2, 1} { // without waiting for a receipt
		tr.send(frame(i))
	}
	answered := map[string]hitl.Status{}
	tr.until(func(rec *wire.Receipt) bool {
		if rec != nil {
			answered[rec.Ref] = rec.Status
		}
		return len(answered) == n
	})
	for i := range n {
		require.Equal(t, hitl.Accepted, answered[fmt.Sprint("b", i)])
		want := hitl.Allowed
		if i%2 == 1 {
			want = hitl.Denied
		}
		require.Equal(t, want, take(t, got[i]).Decision.Outcome)
	}
}

// A wrong answer uses nothing up, whatever it is keyed by, and each of the forms
// means the same.
func TestAnswersByIndexTextAndID_B02_B08_C01(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	agents := s.client("agents")
	tr := &overHTTP{t, g}
	for i, right := range []string{
		`{"0":"Postgres","1":"x, y"}`, `{"db":"Postgres","1":"x, y"}`, `{"Which database?":"Postgres","Which name?":"x, y"}`,
		`[{"question_id":"db","values":["Postgres"]},{"question_id":"1","values":[],"other":"x, y"}]`,
	} {
		r := request(fmt.Sprint("q", i))
		r.Kind, r.Tool, r.SessionID = hitl.KindQuestion, nil, fmt.Sprint("s", i)
		r.Questions = []hitl.Question{
			{ID: "db", Question: "Which database?", Options: []hitl.Option{{Label: "Postgres"}, {Label: "SQLite"}}}, {Question: "Which name?"},
		}
		got := askFor(t, agents, r)
		sum := tr.seen(hitl.ID(bus.DefaultTenant, "agents", r.Key, 1))
		for wrong, field := range map[string]string{
			`{"9":"Postgres"}`: "answers.9", `{"Which tint?":"Postgres","db":"Postgres","1":"x"}`: "answers.Which tint?",
			`{"0":"Postgres"}`: "answers.1", `{"db":"Postgres","0":"SQLite","1":"x"}`: "answers.db", `{"0":"","1":""}`: "answers.db", `{}`: "answers.db",
			`[{"question_id":"2","values":["Postgres"]}]`: "answers", `{"db":["Postgres","SQLite"],"1":"x"}`: "answers.db",
		} {
			rec := tr.decide(answerTo(sum, func(in *hitl.Response) { in.Answers = json.RawMessage(wrong) }))
			require.Equal(t, hitl.BadInput, rec.Status, wrong)
			require.Equal(t, field, rec.Fields[0].Field, wrong)
		}
		require.Equal(t, wire.StatePending, g.whole(sum.Key).State)
		status, raw := g.call(http.MethodPost, "/api/sessions/"+r.SessionID+"/submit-answers", g.token, `{"request_id":"`+sum.RequestID+`","answers":`+right+`}`)
		require.Equal(t, 200, status, string(raw))
		require.Equal(t, []hitl.Answer{{QuestionID: "db", Values: []string{"Postgres"}}, {QuestionID: "1", Values: []string{}, Other: "x, y"}}, take(t, got).Decision.Answers)
	}
}

// What an asker that was killed had asked is found again by its successor, also
// when it was decided in between and swept away, and is no second card.
func TestASuccessorGetsTheStoredDecision_B48_B49_D4_05_invariant3(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	first := s.client("agents")
	tr := newOverSocket(t, g)
	lost := make(chan error, 1)
	go func() {
		_, err := first.Ask(t.Context(), request("k"))
		lost <- err
	}()
	sum := tr.seen(hitl.ID(bus.DefaultTenant, "agents", "k", 1))
	first.Close() // its process is gone: what has a key stays open
	require.True(t, errors.Is(<-lost, bus.ErrClosed))
	rec := tr.decide(answerTo(sum, func(in *hitl.Response) { in.Decision = "deny" }))
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	tr.closed(sum.RequestID)
	require.Empty(t, g.whole(sum.Key).Trail, "nobody has it yet, and nobody says so")

	second := s.client("agents")
	a, err := second.Ask(t.Context(), request("k"))
	require.NoError(t, err)
	require.Equal(t, rec.Decision.DecisionID, a.Decision.DecisionID)
	require.NoError(t, second.Ack(t.Context(), a.Ref, hitl.Delivered, a.Decision.DecisionID, ""))
	require.Eventually(t, func() bool {
		trail := g.whole(sum.Key).Trail
		return len(trail) == 1 && trail[0].Stage == hitl.Delivered
	}, patience, 10*time.Millisecond)
	status, raw := g.call(http.MethodGet, "/api/interactions", g.token, "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"interactions":[]}`, string(raw))
}
