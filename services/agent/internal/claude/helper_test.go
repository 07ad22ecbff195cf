package claude

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
)

// onePixel is a valid PNG.
var onePixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\xab\xce6\x89\x00\x00\x00\x00IEND\xaeB`\x82")

// fake prepares a process that plays the CLI's part with the given lines, for
// what the real one cannot be made to write. It answers initialize, writes the
// lines, reports the n-th answer it gets as a change to mode "got-n", and marks
// the end of its input with the file "eof". A request in the file "pending" is
// one that its driver missed.
func fake(t *testing.T, lines string) (Options, string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "out"), []byte(lines), 0o600))
	return Options{
		Executable: self(t), Dir: dir,
		Env: []string{"TEST_FAKE_CLI=" + dir, "PATH=" + os.Getenv("PATH")},
	}, dir
}

func fakeMain(dir string) int {
	out, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil {
		return 3
	}
	in, err := os.OpenFile(filepath.Join(dir, "in"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 3
	}
	br := bufio.NewReader(os.Stdin)
	started, got := false, 0
	for {
		b, err := br.ReadBytes('\n')
		if err != nil {
			if os.WriteFile(filepath.Join(dir, "eof"), nil, 0o600) != nil {
				return 3
			}
			return 0
		}
		var l struct {
			Type      string `json:"type"`
			RequestID string `json:"request_id"`
		}
		if json.Unmarshal(b, &l) != nil {
			return 4
		}
		switch l.Type {
		case "control_request":
			state, pending := "idle", ""
			if b, err := os.ReadFile(filepath.Join(dir, "pending")); err == nil {
				state, pending = "requires_action", strings.TrimSpace(string(b))
			}
			fmt.Printf(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{"pid":%d,"session_state":%q},"pending_permission_requests":[%s]}}`+"\n", l.RequestID, os.Getpid(), state, pending)
			if !started {
				started = true
				if _, err := os.Stdout.Write(out); err != nil {
					return 5
				}
			}
		default:
			if _, err := in.Write(b); err != nil {
				return 3
			}
			got++
			fmt.Printf(`{"type":"system","subtype":"status","permissionMode":"got-%d"}`+"\n", got)
		}
	}
}

func received(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "in"))
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// driverOrder tells the driver part what to start.
type driverOrder struct {
	Executable, Dir string
	Env, Guard      []string
	Prompt          string
	AllowID         string // the tool use to allow; the driver hangs at the next ask
}

// driverMain starts a CLI, reports the pids at the first ask it must not answer
// (or at once, without a prompt), and then hangs until it is killed.
func driverMain(args []string) int {
	var o driverOrder
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return 3
	}
	asks := make(chan protocol.Ask, 16)
	p, err := Start(context.Background(), Options{
		Executable: o.Executable, Dir: o.Dir, Env: o.Env, Guard: o.Guard,
		OnEvent: func(e protocol.Event) {
			if a, ok := e.(protocol.Ask); ok {
				asks <- a
			}
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	if o.Prompt != "" {
		if err := p.Prompt(protocol.TextBlock(o.Prompt)); err != nil {
			return 3
		}
		for a := range asks {
			if a.ToolUseID != o.AllowID {
				break
			}
			if err := p.Allow(a.RequestID, nil, nil); err != nil {
				return 3
			}
		}
	}
	fmt.Println(p.Info().PID, p.cmd.Process.Pid)
	p.Wait()
	return 4
}

// mcpMain is a minimal MCP server with one tool, which asks by a form and
// returns what it got.
func mcpMain() int {
	br := bufio.NewReader(os.Stdin)
	var call json.RawMessage // id of the tool call that waits
	for {
		b, err := br.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var in struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version string `json:"protocolVersion"`
			} `json:"params"`
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(b, &in) != nil {
			return 3
		}
		reply := func(id json.RawMessage, result string) {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
		}
		switch in.Method {
		case "initialize":
			reply(in.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"gate","version":"1"}}`, in.Params.Version))
		case "tools/list":
			reply(in.ID, `{"tools":[{"name":"deploy","description":"Deploys","inputSchema":{"type":"object","properties":{}}}]}`)
		case "tools/call":
			call = in.ID
			fmt.Println(`{"jsonrpc":"2.0","id":"form-1","method":"elicitation/create","params":{"message":"Where to?","requestedSchema":{"type":"object","properties":{"env":{"type":"string","enum":["staging","prod"]},"replicas":{"type":"integer"}},"required":["env"]}}}`)
		case "":
			text, err := json.Marshal(string(in.Result))
			if err != nil {
				return 3
			}
			reply(call, fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text))
		default:
			if in.ID != nil {
				reply(in.ID, `{}`)
			}
		}
	}
}
