package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// odd are numbers that JavaScript, or a decoder with floats, would write in
// another way.
const odd = `{"a":9007199254740993,"b":1e400,"c":-0,"d":0.1000,"e":9007199254740992,"f":1E5,"g":[1.0,1,-1e-7],"h":0.30000000000000004,"i":123456789012345678901234567890}`

// oddNumbers are those of odd, as they are written.
var oddNumbers = []string{"9007199254740993", "1e400", "-0", "0.1000", "9007199254740992", "1E5", "1.0", "-1e-7", "0.30000000000000004", "123456789012345678901234567890"}

// whole reads an interaction by HTTP.
func (r *running) whole(id string) wire.Interaction {
	r.t.Helper()
	status, raw := r.call(http.MethodGet, "/api/interactions/"+id, r.token, "")
	require.Equal(r.t, 200, status, string(raw))
	var ix wire.Interaction
	require.NoError(r.t, json.Unmarshal(raw, &ix))
	return ix
}

// What an agent wants to run is shown digit by digit and comes back digit by
// digit, by every door.
func TestNumbersAreShownAndRunAsWritten_C03_D2_09_invariant5(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	agents, cli := s.client("agents"), s.client("cli")
	for _, c := range waysIn(g, cli) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tr := c.open(t)
			edited := strings.Replace(odd, "9007199254740993", "9007199254740995", 1)
			for i, edit := range []struct{ send, want string }{
				{"", ""},
				{quoted(t, edited), edited}, // as a browser sends it: text
				{edited, edited},
				{quoted(t, " "+edited+"\n"), edited},
			} {
				r := request(fmt.Sprint(c.name, i))
				r.SessionID = c.name
				r.Tool = &hitl.Tool{Name: "mcp__x__y", Input: json.RawMessage(odd)}
				got := askFor(t, agents, r)
				sum := tr.seen(hitl.ID(bus.DefaultTenant, "agents", r.Key, 1))
				ix := g.whole(sum.Key)
				viaBus, err := cli.Get(t.Context(), sum.Key)
				require.NoError(t, err)
				shown := []string{sum.ToolInput, ix.Body.Blocks[0].Text, viaBus.Body.Blocks[0].Text}
				if sum.Body != nil {
					shown = append(shown, sum.Body.Blocks[0].Text)
				}
				for _, text := range shown {
					at := 0
					for _, n := range oddNumbers {
						next := strings.Index(text[at:], n)
						require.GreaterOrEqual(t, next, 0, "%s in %s", n, text)
						at += next
					}
				}
				require.Equal(t, odd, ix.Body.Input, "what is edited begins with what was asked")
				require.Equal(t, odd, viaBus.Body.Input)

				in := hitl.Response{RequestID: sum.Key, SessionID: sum.SessionKey, RequestType: sum.RequestType, Digest: sum.Digest, Decision: "allow"}
				in.UpdatedInput = json.RawMessage(edit.send)
				rec := tr.decide(in)
				require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
				a := take(t, got)
				require.Equal(t, edit.want, string(a.Decision.UpdatedInput))
				require.Equal(t, sum.Digest, hitl.Digest(a.Request), "the digest that was shown is that of the bytes that were asked")
				stored, err := a.Decision.Request()
				require.NoError(t, err)
				require.Equal(t, a.Request, stored)
				require.Contains(t, string(stored), `"input":`+odd)
			}
		})
	}
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	raw, err := hitl.Marshal(s)
	require.NoError(t, err)
	return string(raw)
}

// Texts that look alike are two requests, and what cannot be seen is shown.
func TestTextsAreShownAndRunAsWritten_B54_B55_invariant5_invariant10(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	agents := s.client("agents")
	tr := &overHTTP{t, g}
	for i, c := range []struct{ name, input, shown string }{
		{"composed", "{\"command\":\"echo \u00e9\"}", "echo é"},
		{"decomposed", "{\"command\":\"echo e\u0301\"}", "echo e\u0301"},
		{"escaped", `{"command":"echo \u00e9"}`, "echo é"},
		{"astral", "{\"command\":\"echo 😀\"}", "echo 😀"},
		{"astral, escaped", `{"command":"echo \ud83d\ude00"}`, "echo 😀"},
		{"a lone surrogate", `{"command":"echo \ud800x"}`, "echo ⟦U+D800⟧x"},
		{"two lone surrogates", `{"command":"echo \ude00\ud83d"}`, "echo ⟦U+DE00⟧⟦U+D83D⟧"},
		{"a byte order mark", "{\"command\":\"\ufeffls\"}", "⟦U+FEFF⟧ls"},
		{"another direction", "{\"command\":\"ls \u202Etxt.exe\u202C\"}", "ls ⟦U+202E⟧txt.exe⟦U+202C⟧"},
		{"no width", "{\"command\":\"r\u200bm x\"}", "r⟦U+200B⟧m x"},
		{"a blank of another width", "{\"command\":\"ls\u00a0-l\"}", "ls⟦U+00A0⟧-l"},
		{"NUL", `{"command":"ls \u0000 x"}`, "ls ⟦U+0000⟧ x"},
		{"a false token", "{\"command\":\"⟦U+202E⟧\"}", "⟦U+27E6⟧U+202E⟦U+27E7⟧"},
		{"a line separator", "{\"command\":\"a\u2028b\"}", "a⟦U+2028⟧b"},
		{"an escape sequence", `{"command":"\u001b[31mred"}`, "⟦U+001B⟧[31mred"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(fmt.Sprint("text", i))
			r.Tool.Input = json.RawMessage(c.input)
			r.Title = "look"
			got := askFor(t, agents, r)
			sum := tr.seen(hitl.ID(bus.DefaultTenant, "agents", r.Key, 1))
			ix := g.whole(sum.Key)
			require.Equal(t, c.shown, sum.ToolInput)
			require.Equal(t, c.shown, ix.Body.Blocks[0].Text)
			// What is edited has nothing invisible in it, and means the same.
			require.JSONEq(t, c.input, ix.Body.Input)
			_, hidden := hitl.Visible(ix.Body.Input)
			require.Zero(t, hidden, ix.Body.Input)
			rec := tr.decide(hitl.Response{RequestID: sum.Key, Digest: sum.Digest, Decision: "allow", UpdatedInput: json.RawMessage(quoted(t, c.input))})
			require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
			a := take(t, got)
			require.Equal(t, c.input, string(a.Decision.UpdatedInput), "an edit that changes nothing is byte for byte the same")
			require.Contains(t, string(a.Request), `"input":`+c.input)
		})
	}
	// Under one key, a text in another form is other content.
	same := request("one key")
	same.Tool.Input = json.RawMessage("{\"command\":\"echo \u00e9\"}")
	got := askFor(t, agents, same)
	sum := tr.seen(hitl.ID(bus.DefaultTenant, "agents", same.Key, 1))
	other := request("one key")
	other.Tool.Input = json.RawMessage("{\"command\":\"echo e\u0301\"}")
	_, err := agents.Ask(t.Context(), other)
	require.ErrorIs(t, err, bus.ErrKeyConflict)
	// The same text as an escape is the same content: one interaction.
	again := request("one key")
	again.Tool.Input = json.RawMessage(`{"command":"echo \u00e9"}`)
	also := askFor(t, agents, again)
	require.Equal(t, hitl.Accepted, tr.decide(hitl.Response{RequestID: sum.Key, Digest: sum.Digest, Decision: "deny"}).Status)
	require.Equal(t, take(t, got).Decision.DecisionID, take(t, also).Decision.DecisionID)
}

// A key that stands twice could be two things to two readers: refused before it
// is sent, and by the gateway where somebody sends it all the same.
func TestDuplicateKeysAreRefusedAtBothEnds_invariant5(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	agents := s.client("agents")
	nc := s.raw("agents")
	for i, c := range []struct{ input, at string }{
		{`{"command":"ls","command":"rm -rf /"}`, "tool.input.command"},
		{`{"a":{"b":[{"c":1},{"c":1,"c":2}]}}`, "tool.input.a.b[1].c"},
		{`{"a":1,"\u0061":2}`, "tool.input.a"},
		{`{"a":[[[[{"x":{"y":1,"z":[],"y":2}}]]]]}`, "tool.input.a[0][0][0][0].x.y"},
		{`{"\ud800":1,"\udfff":2}`, ""}, // one key to everybody who decodes them
		{`{"\ufffd":1,"\ud800":2}`, ""},
	} {
		r := request(fmt.Sprint("dup", i))
		r.Tool.Input = json.RawMessage(c.input)
		_, err := agents.Ask(t.Context(), r)
		var inv *hitl.InvalidError
		require.ErrorAs(t, err, &inv, c.input)
		require.Contains(t, inv.Fields[0].Problem, "duplicate key")
		require.Contains(t, inv.Fields[0].Problem, c.at)

		r.V, r.Tenant, r.Owner = 1, bus.DefaultTenant, "agents"
		r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
		r.Tool.Input = json.RawMessage(`"HERE"`)
		raw, err := hitl.Marshal(r)
		require.NoError(t, err)
		_, err = nc.Request(subject.Request(subject.NewRef(r.Tenant, r.Owner, r.ID)), []byte(strings.Replace(string(raw), `"HERE"`, c.input, 1)), patience)
		require.NoError(t, err)
		tr := &overHTTP{t, g}
		closed := tr.closed(r.ID)
		require.Equal(t, hitl.InvalidIX, closed.Outcome)
		require.Contains(t, closed.Decision.Fields[0].Problem, "duplicate key")
	}
	// And in what people send.
	got := ask(t, agents, "sound")
	sum := (&overHTTP{t, g}).seen(hitl.ID(bus.DefaultTenant, "agents", "sound", 1))
	for _, body := range []string{
		`{"digest":"` + sum.Digest + `","decision":"allow","updated_input":"{\"a\":{\"b\":1,\"b\":2}}"}`,
		`{"digest":"` + sum.Digest + `","decision":"allow","updated_input":{"a":{"b":1,"b":2}}}`,
		`{"digest":"` + sum.Digest + `","decision":"deny","decision":"allow"}`,
		`{"digest":"` + sum.Digest + `","decision":"deny","Decision":"allow"}`,
		`{"digest":"` + sum.Digest + `","decision":"allow","updated_input":"{\"a\":\"` + "\xff" + `\"}"}`,
	} {
		status, raw := g.call(http.MethodPost, "/api/interactions/"+sum.Key+"/decision", g.token, body)
		require.Equal(t, 400, status, body)
		require.Contains(t, string(raw), `"fields":[{"field":`)
	}
	status, _ := g.call(http.MethodPost, "/api/interactions/"+sum.Key+"/decision", g.token, `{"digest":"`+sum.Digest+`","decision":"deny"}`)
	require.Equal(t, 200, status)
	require.Equal(t, hitl.Denied, take(t, got).Decision.Outcome)
}

// raw is a connection with an owner's credential and no client around it.
func (s *site) raw(owner string) *nats.Conn {
	s.t.Helper()
	creds := s.creds(bus.RoleOwner, owner)
	option, err := creds.Auth()
	require.NoError(s.t, err)
	nc, err := nats.Connect(creds.URLs[0], option)
	require.NoError(s.t, err)
	s.t.Cleanup(nc.Close)
	return nc
}

// Fields that nobody here knows stay where they are, byte for byte.
func TestUnknownFieldsAreKept_D4_02_invariant5(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	id := hitl.ID(bus.DefaultTenant, "agents", "k", 1)
	raw := `{ "v":1,"id":"` + id + `","key":"k","kind":"approval","tenant":"default","owner":"agents","session_id":"s1","title":"t",` +
		`"x_new":{"n":9007199254740993},"tool":{"name":"Bash","x_more":[1.0],"input":{"command":"ls","x_extra":{"deep":[1E5]}}} }`
	_, err := s.raw("agents").Request(subject.Request(subject.NewRef(bus.DefaultTenant, "agents", id)), []byte(raw), patience)
	require.NoError(t, err)
	tr := &overHTTP{t, g}
	sum := tr.seen(id)
	require.Equal(t, hitl.Digest([]byte(raw)), sum.Digest)
	ix := g.whole(sum.Key)
	shown := ""
	for _, b := range ix.Body.Blocks {
		shown += b.Label + b.Text
	}
	require.Contains(t, shown, "x_extra", "what runs is shown, known or not")
	require.Contains(t, shown, "1E5")
	require.Equal(t, hitl.Accepted, tr.decide(hitl.Response{RequestID: sum.Key, Digest: sum.Digest, Decision: "allow"}).Status)
	// Who asks with the same words gets the decision with the very bytes.
	m, err := s.raw("agents").Request(subject.Direct("HITL_DECISIONS", subject.Decision(subject.NewRef(bus.DefaultTenant, "agents", id))), nil, patience)
	require.NoError(t, err)
	d, err := hitl.ParseDecision(m.Data)
	require.NoError(t, err)
	kept, err := d.Request()
	require.NoError(t, err)
	require.Equal(t, raw, string(kept))
}

// A browser ends its connection for bytes that are no UTF-8. An agent cannot
// make it get any.
func TestAnAgentCannotEndThePagesThatWatchIt_invariant10(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	nc := s.raw("agents")
	session := subject.NewSession(bus.DefaultTenant, "agents", "s1")
	got := ask(t, s.client("agents"), "k") // the session is there
	tr := newOverSocket(t, g)
	sum := tr.seen(hitl.ID(bus.DefaultTenant, "agents", "k", 1))
	tr.send(map[string]any{"type": wire.TypeSubscribe, "ref": "sub", "session_id": sum.SessionKey})
	tr.until(func(rec *wire.Receipt) bool { return rec != nil && rec.Ref == "sub" })
	say := func(data string) {
		t.Helper()
		_, err := nc.Request(subject.Transcript(session), []byte(data), patience)
		require.NoError(t, err)
		require.NoError(t, nc.Publish(subject.Live(session), []byte(data)))
	}
	for _, bad := range []string{
		"{\"v\":1,\"type\":\"text\",\"data\":{\"text\":\"\xff\"}}", "{\"v\":1,\"type\":\"text\",\"data\":{\"\xff\":1}}", "{\"v\":1,\"type\":\"tool_result\",\"data\":[\"\xc3\x28\"]}",
		`{"v":1,"type":"text","data":{"text":"a","text":"b"}}`, `{"v":1,"type":"interaction_pending","data":{"pending":false}}`, `{"v":1,"type":"text","data":`, "\xff",
		`{"v":1,"type":"text","data":` + strings.Repeat(`[`, 500) + strings.Repeat(`]`, 500) + `}`,
	} {
		say(bad)
	}
	say(`{"v":1,"type":"error","data":{"message":"the end"}}`)
	tr.until(func(*wire.Receipt) bool { return len(tr.events) > 0 && tr.events[len(tr.events)-1] == hitl.EventError })
	require.NotContains(t, tr.events, hitl.EventText)
	require.NotContains(t, tr.events, "interaction_pending false")
	require.Equal(t, hitl.Accepted, tr.decide(answerTo(sum, func(in *hitl.Response) { in.Decision = "deny" })).Status)
	require.Equal(t, hitl.Denied, take(t, got).Decision.Outcome)
}
