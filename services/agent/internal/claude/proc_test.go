package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	m "github.com/banksman/banksman/pkg/hitltest/modelapi"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
)

func askLine(id, tool, input string) string {
	return fmt.Sprintf(`{"type":"control_request","request_id":%q,"request":{"subtype":"can_use_tool","tool_name":%q,"input":%s,"tool_use_id":"toolu_%s"}}`+"\n", id, tool, input, id)
}

// Numbers, spacing and escapes survive both ways.
func TestInputTravelsByteForByte(t *testing.T) {
	t.Parallel()
	const input = `{"a": 9007199254740993,  "b":1.0, "c":1e400,"d":"<&>\u003c\ud83d\ude00 é"}`
	o, dir := fake(t, askLine("r1", "mcp__x__y", input)+askLine("r2", "mcp__x__y", input))
	s := start(t, o)
	a := next[protocol.Ask](s, nil)
	require.Equal(t, input, string(a.Input))
	require.NoError(t, s.Allow("r1", a.Input, json.RawMessage(`[ {"n":10000000000000001} ]`)))
	next(s, func(st protocol.Status) bool { return st.Mode == "got-1" })
	require.NoError(t, s.Allow("r2", nil, nil), "nil means the input that was asked for")
	next(s, func(st protocol.Status) bool { return st.Mode == "got-2" })
	got := received(t, dir)
	require.Equal(t, `{"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{"behavior":"allow","updatedInput":`+input+`,"updatedPermissions":[ {"n":10000000000000001} ]}}}`, got[0])
	require.Equal(t, `{"type":"control_response","response":{"subtype":"success","request_id":"r2","response":{"behavior":"allow","updatedInput":`+input+`}}}`, got[1])
}

// An unusable answer leaves the ask open; a right one then works.
func TestBadAnswerLeavesTheAskOpen_B08(t *testing.T) {
	t.Parallel()
	o, dir := fake(t, askLine("r1", "Bash", `{"command":"ls"}`)+
		askLine("q1", protocol.QuestionTool, `{"questions":[{"question":"A?","options":[]}]}`)+
		`{"type":"control_request","request_id":"f1","request":{"subtype":"elicitation","mcp_server_name":"x","message":"m","requested_schema":{}}}`+"\n")
	s := start(t, o)
	next[protocol.Elicitation](s, nil)
	for _, c := range []struct {
		field string
		err   error
	}{
		{"updatedInput", s.Allow("r1", json.RawMessage(`{"command":`), nil)},
		{"updatedInput", s.Allow("r1", json.RawMessage(`["ls"]`), nil)},
		{"updatedInput", s.Allow("r1", json.RawMessage("{\"command\":\"\xff\"}"), nil)},
		{"updatedInput", s.Allow("r1", json.RawMessage("{}\n{}"), nil)},
		{"updatedPermissions", s.Allow("r1", nil, json.RawMessage(`{}`))},
		{"updatedInput.answers", s.Allow("q1", json.RawMessage(`{"questions":[],"answers":{}}`), nil)},
		{"updatedInput.answers", s.Allow("q1", json.RawMessage(`{"questions":[],"answers":{"B?":"yes"}}`), nil)},
		{"updatedInput.answers", s.Allow("q1", json.RawMessage(`{"questions":[],"answers":{"A?":["yes"]}}`), nil)},
		{"action", s.AnswerElicitation("f1", "allow", nil)},
		{"content", s.AnswerElicitation("f1", protocol.Decline, json.RawMessage(`{}`))},
	} {
		var bad *protocol.InputError
		require.ErrorAs(t, c.err, &bad)
		require.Equal(t, c.field, bad.Field)
	}
	require.ErrorIs(t, s.Allow("f1", json.RawMessage(`{}`), nil), ErrWrongKind)
	require.ErrorIs(t, s.AnswerElicitation("r1", protocol.Accept, nil), ErrWrongKind)
	require.ErrorIs(t, s.Allow("r9", json.RawMessage(`{}`), nil), ErrUnknownAsk)
	require.NoError(t, s.Allow("r1", nil, nil))
	require.NoError(t, s.Allow("q1", json.RawMessage(`{"questions":[{"question":"A?","options":[]}],"answers":{"A?":"yes"}}`), nil))
	require.NoError(t, s.AnswerElicitation("f1", protocol.Accept, json.RawMessage(`{"n":9007199254740993}`)))
	next(s, func(st protocol.Status) bool { return st.Mode == "got-3" })
	got := received(t, dir)
	require.Len(t, got, 3, "nothing of the bad answers was sent")
	require.Contains(t, got[2], `"response":{"action":"accept","content":{"n":9007199254740993}}`)
}

// What the driver does not know is refused, a dialog is left alone, and noise
// does not stop the reader.
func TestUnknownLines(t *testing.T) {
	t.Parallel()
	o, dir := fake(t, strings.Join([]string{
		`{"type":"keep_alive"}`,
		`not json`,
		`{"type":"progress","deep":{"a":[1,2]}}`,
		`[]`,
		`{"type":"assistant","message":7}`,
		`{"type":"control_request","request_id":"d1","request":{"subtype":"request_user_dialog"}}`,
		`{"type":"control_request","request_id":"u1","request":{"subtype":"hook_callback"}}`,
		`{"type":"control_request","request_id":"u2","request":{"subtype":"can_use_tool","tool_name":"","input":{}}}`,
		`{"type":"control_request","request_id":"u3","request":{"subtype":"can_use_tool","tool_name":"Bash","input":null}}`,
		`{"type":"control_request","request_id":"u4","request":"x"}`,
		`{"type":"control_cancel_request","request_id":"never-seen"}`,
		`{"type":"control_response","response":{"subtype":"success","request_id":"not-ours"}}`,
		strings.TrimSpace(askLine("r1", "Bash", `{}`)),
		strings.TrimSpace(askLine("r1", "Bash", `{}`)),
		`{"type":"control_cancel_request","request_id":"r1"}`,
		`{"type":"control_cancel_request","request_id":"r1"}`,
	}, "\n")+"\n")
	s := start(t, o)
	next(s, func(e protocol.Event) bool {
		a, ok := e.(protocol.Ask)
		return ok && a.RequestID == "r1"
	})
	next(s, func(e protocol.Event) bool {
		require.IsNotType(t, protocol.Ask{}, e, "a repeated request is one ask")
		w, ok := e.(protocol.AskWithdrawn)
		return ok && w.RequestID == "r1"
	})
	require.ErrorIs(t, s.Deny("r1", "no", false), ErrWithdrawn)
	next(s, func(e protocol.Event) bool {
		require.IsNotType(t, protocol.AskWithdrawn{}, e, "a withdrawal is told once")
		st, ok := e.(protocol.Status)
		return ok && st.Mode == "got-4"
	})
	got := received(t, dir)
	require.Len(t, got, 4)
	for i, id := range []string{"u1", "u2", "u3", "u4"} {
		require.Contains(t, got[i], `"subtype":"error","request_id":"`+id+`"`)
	}
}

// A line above the limit ends the process: what it said cannot be shown.
func TestTooLongLineKills(t *testing.T) {
	t.Parallel()
	o, _ := fake(t, askLine("r1", "Bash", `{"command":"`+strings.Repeat("x", protocol.MaxLine)+`"}`))
	s := start(t, o)
	x := next[protocol.Exited](s, nil)
	require.ErrorIs(t, x.Err, ErrLineTooLong)
	require.Equal(t, 137, x.Code)

	big, _ := fake(t, askLine("r1", "Bash", `{"command":"`+strings.Repeat("x", protocol.MaxLine/2)+`"}`))
	b := start(t, big)
	a := next[protocol.Ask](b, nil)
	require.Greater(t, len(a.Input), protocol.MaxLine/2)
	var bad *protocol.InputError
	require.ErrorAs(t, b.Allow("r1", json.RawMessage(`{"command":"`+strings.Repeat("x", protocol.MaxLine)+`"}`), nil), &bad)
	require.NoError(t, b.Allow("r1", nil, nil))
	next(b, func(st protocol.Status) bool { return st.Mode == "got-1" })
}

// An ask the driver never saw keeps Close from denying it, and can be recovered.
func TestMissedAskIsRecovered(t *testing.T) {
	t.Parallel()
	o, dir := fake(t, "")
	s := start(t, o)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pending"), []byte(askLine("r1", "Bash", `{"n":9007199254740993}`)), 0o600))
	var busy *BusyError
	require.ErrorAs(t, s.Close(s.ctx()), &busy)
	require.Equal(t, []string{"r1"}, busy.Open)
	require.ErrorIs(t, s.Allow("r1", nil, nil), ErrUnknownAsk)
	asks, err := s.Reinitialize(s.ctx())
	require.NoError(t, err)
	require.Len(t, asks, 1)
	require.Equal(t, `{"n":9007199254740993}`, string(asks[0].Input))
	require.NoError(t, s.Allow("r1", nil, nil))
	next(s, func(st protocol.Status) bool { return st.Mode == "got-1" })
	require.NoFileExists(t, filepath.Join(dir, "eof"))
}

// Right after a prompt, before the CLI reported anything, Close must not end the
// input either: the ask to come would be denied.
func TestCloseAfterPromptIsRefused_D1_07(t *testing.T) {
	t.Parallel()
	o, dir := fake(t, "")
	s := start(t, o)
	require.NoError(t, s.Prompt(protocol.TextBlock("go")))
	var busy *BusyError
	require.ErrorAs(t, s.Close(s.ctx()), &busy)
	require.NotEmpty(t, busy.State)
	require.NoFileExists(t, filepath.Join(dir, "eof"))
}

// OnEvent may wait for a reply, since replies do not pass through it.
func TestOnEventMayCallBack(t *testing.T) {
	t.Parallel()
	o, _ := fake(t, askLine("r1", "Bash", `{}`))
	result := make(chan error, 1)
	procs := make(chan *Proc, 1)
	o.OnEvent = func(e protocol.Event) {
		if _, ok := e.(protocol.Ask); ok {
			p := <-procs
			result <- p.SetMode(context.Background(), "plan")
		}
	}
	p, err := Start(t.Context(), o)
	require.NoError(t, err)
	defer func() { p.Kill(); p.Wait() }()
	procs <- p
	select {
	case err := <-result:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "the callback hangs")
	}
}

func TestStartIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Start(ctx, Options{Executable: "/bin/sleep", OnEvent: func(protocol.Event) {}, Guard: []string{self(t), GuardCommand}, Env: []string{}})
	require.Error(t, err) // sleep does not know the flags, or is too slow
	cat := filepath.Join(t.TempDir(), "mute")
	require.NoError(t, os.WriteFile(cat, []byte("#!/bin/sh\nexec sleep 600\n"), 0o700))
	_, err = Start(ctx, Options{Executable: cat, OnEvent: func(protocol.Event) {}, Guard: []string{self(t), GuardCommand}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestStartRefusesToGiveUpTheGate_D1_09(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]Options{
		"PermissionMode": {PermissionMode: "bypassPermissions"},
		"Args":           {Args: []string{"--dangerously-skip-permissions"}},
		"ResumeID":       {SessionID: "a", ResumeID: "b"},
		"OnEvent":        {},
	} {
		o.Executable = self(t)
		_, err := Start(t.Context(), o)
		var bad *protocol.InputError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, field, bad.Field)
	}
	var bad *protocol.InputError
	_, err := Start(t.Context(), Options{Args: []string{"--permission-mode=bypassPermissions"}})
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "Args", bad.Field)
	args, err := arguments(Options{})
	require.NoError(t, err)
	require.Contains(t, strings.Join(args, " "), "--permission-mode default")
}

func TestUserEnv(t *testing.T) {
	t.Parallel()
	got := UserEnv([]string{
		"HOME=/h", "BANKSMAN_DATA=/d", "NATS_URL=x", "nats_creds=y", "CLAUDECODE=1",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=secret", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=b", "OTEL_METRICS_EXPORTER=otlp", "ANTHROPIC_API_KEY=k", "PATH=/p",
	})
	require.Equal(t, []string{"HOME=/h", "OTEL_METRICS_EXPORTER=otlp", "ANTHROPIC_API_KEY=k", "PATH=/p"}, got)
}

// A form of an MCP server goes through the real CLI and back.
func TestCLIElicitation(t *testing.T) {
	t.Parallel()
	api := m.New(t,
		m.Step{UserText: "go", Reply: []m.Block{m.ToolUse("toolu_f1", "mcp__gate__deploy", `{}`)}},
		m.Step{Results: []m.Result{{ToolUseID: "toolu_f1", Content: `{"action":"accept","content":{"env":"staging","replicas":3}}`}}, Reply: []m.Block{m.Text("ok")}})
	o := real(t, api)
	cfg, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"gate": map[string]any{"command": self(t), "args": []string{"__mcp"}}}})
	require.NoError(t, err)
	o.Args = []string{"--strict-mcp-config", "--mcp-config", string(cfg)}
	s := start(t, o)
	// The CLI connects to servers in the background.
	require.Eventually(t, func() bool {
		r, err := s.request(s.ctx(), "mcp_status", func(id string) []byte {
			return fmt.Appendf(nil, `{"type":"control_request","request_id":%q,"request":{"subtype":"mcp_status"}}`, id)
		})
		return err == nil && bytes.Contains(r.Response, []byte(`"status":"connected"`))
	}, patience, 50*time.Millisecond)
	s.say("go")
	a := ask(s, "toolu_f1")
	require.Equal(t, "mcp__gate__deploy", a.ToolName)
	require.Equal(t, "gate", a.MCPServer)
	require.NoError(t, s.Allow(a.RequestID, a.Input, nil))
	e := next[protocol.Elicitation](s, nil)
	require.Equal(t, "gate", e.Server)
	require.Equal(t, "form", e.Mode)
	require.Equal(t, "Where to?", e.Message)
	require.Contains(t, string(e.Schema), `"replicas":{"type":"integer"}`)
	require.NoError(t, s.AnswerElicitation(e.RequestID, protocol.Accept, json.RawMessage(`{"env":"staging","replicas":3}`)))
	s.endTurn()
}
