package agent_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest/modelapi"
)

const mcpCommand = "__mcp"

// mcpServer is a small MCP server on stdin and stdout whose one tool shows a form
// and returns what came back, byte for byte.
func mcpServer() int {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	var call json.RawMessage // id of the tool call that waits for the form
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Params struct {
				Version string `json:"protocolVersion"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			return 1
		}
		switch {
		case m.Method == "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"gate","version":"1"}}}`, m.ID, m.Params.Version)
		case m.Method == "tools/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"deploy","description":"Deploy","inputSchema":{"type":"object","properties":{"id":{"type":"integer"}}}}]}}`, m.ID)
		case m.Method == "tools/call":
			call = m.ID
			say(`{"jsonrpc":"2.0","id":"form-1","method":"elicitation/create","params":{"mode":"form","message":"Please fill the deploy form","requestedSchema":{"type":"object","properties":{"env":{"type":"string","enum":["staging","prod"]},"replicas":{"type":"integer","minimum":1}},"required":["env"]}}}`)
		case string(m.ID) == `"form-1"`:
			text, err := json.Marshal("form: " + string(m.Result))
			if err != nil {
				return 1
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, call, text)
		case len(m.ID) > 0:
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		}
	}
	return 0
}

// A tool of an MCP server is asked about like any other, and the form it shows
// is a form for people.
func TestClaude_D0_05_AnMCPServersToolAndForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.claudeSetup(
		modelapi.Step{Name: "begin", Conv: "scene-form", Reply: []modelapi.Block{modelapi.ToolUse("toolu_f1", "mcp__gate__deploy", `{"id":7}`)}},
		modelapi.Step{
			Name: "filled in", Conv: "scene-form", Results: []modelapi.Result{{ToolUseID: "toolu_f1", Contains: `form: {"action":"accept","content":{"env":"staging","replicas":3}}`}},
			Reply: []modelapi.Block{modelapi.Text("Deployed.")},
		},
	)
	for _, kv := range s.Env {
		if dir, ok := strings.CutPrefix(kv, "CLAUDE_CONFIG_DIR="); ok {
			require.NoError(t, os.MkdirAll(dir, 0o700))
			raw, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
				"gate": map[string]any{"type": "stdio", "command": os.Args[0], "args": []string{mcpCommand}},
			}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".claude.json"), raw, 0o600))
		}
	}
	w.worker(s)
	id := w.begin(hitl.Start{Runtime: "claude", Prompt: "scene-form: go", Cwd: s.Cwd})
	p := w.request("the tool", tool("mcp__gate__deploy", `"id":7`))
	require.Equal(t, "deploy (gate)", p.Title)
	require.Equal(t, "gate", p.Tool.Server)
	w.decide(p, hitl.Response{Decision: "allow"})
	p = w.request("the form", kind(hitl.KindForm))
	require.Equal(t, "Please fill the deploy form", p.Message)
	w.decide(p, hitl.Response{Content: json.RawMessage(`{"env":"staging","replicas":3}`)})
	w.acked(p, hitl.Applied)
	w.saw(id, hitl.EventText, "Deployed.")
}
