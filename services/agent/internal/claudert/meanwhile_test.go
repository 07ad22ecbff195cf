package claudert

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// fakeMain plays the CLI's part where the real one cannot be made to: it asks by a
// form before its start is over, and answers each control request for a byte in the
// pipe "go". What it is told stands in the file "in".
func fakeMain(dir string) int {
	in, err := os.OpenFile(filepath.Join(dir, "in"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 3
	}
	start, err := os.OpenFile(filepath.Join(dir, "go"), os.O_RDWR, 0)
	if err != nil {
		return 3
	}
	br := bufio.NewReader(os.Stdin)
	for {
		b, err := br.ReadBytes('\n')
		if err != nil {
			return 0
		}
		if _, err := in.Write(b); err != nil {
			return 3
		}
		var l struct {
			Type      string `json:"type"`
			RequestID string `json:"request_id"`
		}
		if json.Unmarshal(b, &l) != nil {
			return 4
		}
		if l.Type != "control_request" {
			continue
		}
		fmt.Println(`{"type":"control_request","request_id":"early","request":{"subtype":"elicitation","mcp_server_name":"deployer","message":"Where to?","requested_schema":{"type":"object","properties":{"env":{"type":"string"}}}}}`)
		if _, err := io.ReadFull(start, make([]byte, 1)); err != nil {
			return 5
		}
		fmt.Printf(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{"pid":%d}}}`+"\n", l.RequestID, os.Getpid())
	}
}

// letGo has a fake CLI answer all that it is asked.
func letGo(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "go"), os.O_RDWR, 0) // so that nobody waits for the other end
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	_, err = f.Write(make([]byte, 64))
	require.NoError(t, err)
}

// standIn is a Host that keeps what it is asked.
type standIn struct {
	mu       sync.Mutex
	asks     map[string]gate.Ask
	asked    chan string
	withdraw func(id string)
}

func newStandIn() *standIn {
	return &standIn{asks: map[string]gate.Ask{}, asked: make(chan string, 10), withdraw: func(string) {}}
}

func (*standIn) Emit(runtime.Event) {}

func (h *standIn) Ask(a gate.Ask) {
	h.mu.Lock()
	h.asks[a.ID] = a
	h.mu.Unlock()
	h.asked <- a.ID
}

func (h *standIn) settle(id string, s *gate.Settled) {
	h.mu.Lock()
	a := h.asks[id]
	h.mu.Unlock()
	a.Settle(s)
}

func (h *standIn) Withdraw(id, _ string)        { h.withdraw(id) }
func (*standIn) Remember(json.RawMessage) error { return nil }
func (*standIn) Flush(context.Context) error    { return nil }

// heard is decided, and hears the receipts.
type heard struct {
	decided
	said chan string
}

func (h heard) Ack(_ context.Context, _ subject.Ref, stage, _, detail string) error {
	h.said <- stage + " " + detail
	return nil
}

// approved is an ask that a person allowed, and the receipts of that.
func approved(t *testing.T) (*gate.Settled, chan string) {
	t.Helper()
	said := make(chan string, 10)
	s := settleBy(t, heard{decided{hitl.Content{Outcome: hitl.Allowed}}, said}, ledger(t), bashAsk(t))
	require.Equal(t, "delivered ", <-said)
	return s, said
}

// lateRun is a run that takes an ask up again, with a CLI that starts when it may.
func lateRun(t *testing.T, h *standIn) (r *run, dir string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	dir = t.TempDir()
	memory, err := json.Marshal(memory{CLISession: uuid.NewString(), Begun: true})
	require.NoError(t, err)
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "go"), 0o600))
	got, err := New(Options{Path: exe, Env: []string{"TEST_FAKE_CLI=" + dir, "PATH=" + os.Getenv("PATH")}}).Start(t.Context(), runtime.Spec{
		SessionID: "s1", Cwd: dir, Memory: memory, Open: []gate.Kept{bashAsk(t)}, Logger: slog.New(slog.DiscardHandler),
	}, h)
	require.NoError(t, err)
	t.Cleanup(got.Kill)
	require.Equal(t, "r", <-h.asked)
	return got.(*run), dir
}

// A decision can come in while a person interrupts what is taken up again. Who made
// it is told that nothing came of it.
func TestInterrupt_D0_10_B79_ADecisionAtTheSameTimeIsRefused(t *testing.T) {
	t.Parallel()
	h := newStandIn()
	r, _ := lateRun(t, h)
	s, said := approved(t)
	h.withdraw = func(id string) { h.settle(id, s) }
	require.NoError(t, r.Interrupt(t.Context()))
	select {
	case got := <-said:
		require.Equal(t, "refused "+abandoned, got)
	case <-time.After(30 * time.Second):
		require.Fail(t, "no receipt")
	}
}

// An interrupt while the CLI starts for a decision holds: it is told nothing.
func TestInterrupt_D0_10_HoldsWhileTheCLIStarts(t *testing.T) {
	t.Parallel()
	h := newStandIn()
	r, dir := lateRun(t, h)
	s, said := approved(t)
	h.settle("r", s)
	told := func() string {
		raw, err := os.ReadFile(filepath.Join(dir, "in"))
		if err != nil {
			return ""
		}
		return string(raw)
	}
	require.Eventually(t, func() bool { return strings.Contains(told(), "initialize") }, time.Minute, 5*time.Millisecond)
	require.NoError(t, r.Interrupt(t.Context()))
	require.Equal(t, "refused "+abandoned, <-said)
	letGo(t, dir)
	require.Equal(t, "early", <-h.asked) // the start is over
	r.wg.Wait()
	require.NotContains(t, told(), `"type":"user"`)
}

// A form that an MCP server shows before the CLI's start is over is answered.
func TestForm_WhatIsAskedDuringTheStartIsPutToPeople(t *testing.T) {
	t.Parallel()
	h := newStandIn()
	r, dir := lateRun(t, h)
	letGo(t, dir)
	_, err := r.process(t.Context())
	require.NoError(t, err)
	select {
	case id := <-h.asked:
		require.Equal(t, "early", id)
	case <-time.After(30 * time.Second):
		require.Fail(t, "nobody was asked")
	}
	said := make(chan string, 10)
	h.settle("early", settleBy(t, heard{decided{hitl.Content{Outcome: hitl.Dismissed}}, said}, ledger(t), h.asks["early"].Kept))
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(filepath.Join(dir, "in"))
		return err == nil && strings.Contains(string(raw), `"cancel"`)
	}, time.Minute, 5*time.Millisecond)
}
