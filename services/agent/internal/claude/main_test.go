package claude

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/hitltest/modelapi"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
)

// The test binary plays several parts: the guard, a driver that gets killed, an
// MCP server, and a stand-in for the CLI where the real one cannot be made to
// write what the test needs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case GuardCommand:
			os.Exit(RunGuard(os.Args[2:]))
		case "__driver":
			os.Exit(driverMain(os.Args[2:]))
		case "__mcp":
			os.Exit(mcpMain())
		}
	}
	if part := os.Getenv("TEST_FAKE_CLI"); part != "" {
		os.Exit(fakeMain(part))
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait. The CLI alone may take 13 s to start on a busy box.
const patience = 90 * time.Second

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return exe
}

// session is one process with its recorded events.
type session struct {
	*Proc
	t      *testing.T
	events chan protocol.Event
}

// start runs the CLI of o in a fresh home, under a guard unless o says
// otherwise, and kills it at the end of the test.
func start(t *testing.T, o Options) *session {
	t.Helper()
	s := &session{t: t, events: make(chan protocol.Event, 1<<14)}
	o.OnEvent = func(e protocol.Event) { s.events <- e }
	if o.Guard == nil {
		o.Guard = []string{self(t), GuardCommand}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := Start(ctx, o)
	require.NoError(t, err)
	s.Proc = p
	t.Cleanup(func() {
		p.Kill()
		p.Wait()
	})
	return s
}

// real gives the options for the pinned CLI in a fresh home and work directory.
func real(t *testing.T, api *modelapi.Server) Options {
	t.Helper()
	exe := modelapi.RequireCLI(t)
	root := t.TempDir()
	home, work := filepath.Join(root, "home"), filepath.Join(root, "work")
	require.NoError(t, os.MkdirAll(home, 0o700))
	require.NoError(t, os.MkdirAll(work, 0o700))
	return Options{Executable: exe, Dir: work, Env: api.Env(os.Getenv("PATH"), home)}
}

// next returns the next event of type T that fits, and drops those before it.
func next[T protocol.Event](s *session, fits func(T) bool) T {
	s.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	var seen []string
	for {
		select {
		case e := <-s.events:
			if v, ok := e.(T); ok && (fits == nil || fits(v)) {
				return v
			}
			seen = append(seen, describe(e))
			if x, ok := e.(protocol.Exited); ok {
				var want T
				require.Failf(s.t, "claude exited", "waiting for %T; exit %+v; saw\n%s", want, x, strings.Join(seen, "\n"))
			}
		case <-limit.C:
			var want T
			require.Failf(s.t, "timeout", "waiting for %T; saw\n%s", want, strings.Join(seen, "\n"))
		}
	}
}

func ask(s *session, toolUseID string) protocol.Ask {
	s.t.Helper()
	return next(s, func(a protocol.Ask) bool { return a.ToolUseID == toolUseID })
}

// turn sends a text, and endTurn waits for the end of the turn.
func (s *session) say(text string) {
	s.t.Helper()
	require.NoError(s.t, s.Prompt(protocol.TextBlock(text)))
}

func (s *session) endTurn() protocol.TurnEnded {
	s.t.Helper()
	e := next[protocol.TurnEnded](s, nil)
	next(s, func(st protocol.SessionState) bool { return st.State == stateIdle })
	return e
}

func (s *session) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	return ctx
}

func describe(e protocol.Event) string {
	switch e := e.(type) {
	case protocol.Ask:
		return "Ask " + e.ToolName + " " + e.ToolUseID
	case protocol.TextDelta, protocol.ToolCallDelta:
		return ""
	case protocol.ToolResult:
		return "ToolResult " + e.ToolUseID + " " + e.Text
	case protocol.SessionState:
		return "SessionState " + e.State
	case protocol.TurnEnded:
		return "TurnEnded " + e.Subtype + " " + e.Reason + " " + e.Text
	case protocol.Text:
		return "Text " + e.Text
	}
	return fmt.Sprintf("%T", e)
}
