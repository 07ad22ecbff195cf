package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest/modelapi"
	"github.com/banksman/banksman/pkg/wire"
)

// bare runs the CLI and answers what it asks, with nothing between.
func bare(ctx context.Context, s *stage) (answered []time.Time, err error) {
	cmd := exec.CommandContext(ctx, s.cli, "-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json",
		"--permission-prompt-tool", "stdio", "--permission-mode", "default")
	cmd.Dir, cmd.Env = s.work, s.api.Env(os.Getenv("PATH"), s.home)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = in.Close()
		if e := cmd.Wait(); err == nil {
			err = e
		}
	}()
	write := json.NewEncoder(in)
	write.SetEscapeHTML(false)
	if err := write.Encode(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": prompt}, "parent_tool_use_id": nil, "session_id": ""}); err != nil {
		return nil, err
	}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var m struct {
			Type      string `json:"type"`
			RequestID string `json:"request_id"`
			Request   struct {
				Subtype string          `json:"subtype"`
				Input   json.RawMessage `json:"input"`
			} `json:"request"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, err
		}
		if m.Type == "result" {
			if len(answered) != s.tools {
				return nil, fmt.Errorf("the CLI asked for %d tools of %d", len(answered), s.tools)
			}
			return answered, nil
		}
		if m.Type != "control_request" || m.Request.Subtype != "can_use_tool" {
			continue
		}
		if err := think(ctx); err != nil {
			return nil, err
		}
		answered = append(answered, time.Now())
		if err := write.Encode(map[string]any{"type": "control_response", "response": map[string]any{
			"subtype": "success", "request_id": m.RequestID, "response": map[string]any{"behavior": "allow", "updatedInput": m.Request.Input},
		}}); err != nil {
			return nil, err
		}
	}
}

// through runs "banksman up", starts a session as a page does, and allows what it
// asks over a page's socket.
func through(ctx context.Context, s *stage, product string) (answered []time.Time, err error) {
	token := filepath.Join(s.home, "session")
	cmd := exec.Command(product, "up", "--data", s.data, "--listen", "127.0.0.1:0", "--nats-port", "-1", "--claude", s.cli, "--test-login", token)
	cmd.Dir, cmd.Env = s.work, s.api.Env(os.Getenv("PATH"), s.home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent, which stops it
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addr := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if i := strings.Index(lines.Text(), "http://127.0.0.1:"); i >= 0 && strings.Contains(lines.Text(), "/#login=") {
				select {
				case addr <- lines.Text()[i:]:
				default:
				}
			}
		}
		_, _ = io.Copy(io.Discard, r)
	}()
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_ = w.Close()
		<-read
		ended <- err
	}()
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		err = errors.Join(err, <-ended)
	}()
	select {
	case at := <-addr:
		u, err := url.Parse(strings.Fields(at)[0])
		if err != nil {
			return nil, err
		}
		raw, err := os.ReadFile(token)
		if err != nil {
			return nil, err
		}
		return person(ctx, s, u.Host, strings.TrimSpace(string(raw)))
	case err := <-ended:
		ended <- nil
		return nil, fmt.Errorf("banksman ended: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// person starts the session and allows each tool once.
func person(ctx context.Context, s *stage, host, token string) (answered []time.Time, err error) {
	conn, _, err := websocket.Dial(ctx, "ws://"+host+"/api/ws", nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(64 << 20)
	say := func(f wire.Client) error {
		raw, err := hitl.Marshal(f)
		if err != nil {
			return err
		}
		return conn.Write(ctx, websocket.MessageText, raw)
	}
	if err := say(wire.Client{Type: wire.TypeAuth, Token: token}); err != nil {
		return nil, err
	}
	if err := say(wire.Client{
		Type: wire.TypeStartSession, CommandID: "bench-claude-session", Runtime: "claude", Cwd: s.work, Prompt: prompt,
		Response: hitl.Response{Ref: "start"},
	}); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("after %d tools: %w", len(answered), err)
		}
		list := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &list); err != nil {
				return nil, err
			}
		}
		for _, one := range list {
			var f struct {
				Type    string         `json:"type"`
				Status  hitl.Status    `json:"status"`
				Error   string         `json:"error"`
				State   string         `json:"state"`
				Pending []wire.Summary `json:"pending_requests"`
			}
			if err := json.Unmarshal(one, &f); err != nil {
				return nil, err
			}
			switch {
			case f.Type == wire.TypePing:
				if err := say(wire.Client{Type: wire.TypePong}); err != nil {
					return nil, err
				}
			case f.Type == wire.TypeReceipt && f.Status != hitl.Accepted:
				return nil, fmt.Errorf("after %d tools: the receipt says %s: %s", len(answered), f.Status, f.Error)
			case f.Type == wire.TypeProcessState && f.State == hitl.StateUserTurn && len(answered) == s.tools && len(f.Pending) == 0 && over(s.api):
				return answered, nil
			}
			for _, p := range f.Pending {
				if seen[p.Key] {
					continue
				}
				seen[p.Key] = true
				if err := think(ctx); err != nil {
					return nil, err
				}
				answered = append(answered, time.Now())
				if err := say(wire.Client{Type: wire.TypeResponse, Response: hitl.Response{
					Ref: p.Key, SessionID: p.SessionKey, RequestID: p.Key, RequestType: p.RequestType, Digest: p.Digest, Decision: hitl.VerbAllow,
				}}); err != nil {
					return nil, err
				}
			}
		}
	}
}

// over reports that the model has said its last word.
func over(api *modelapi.Server) bool { return len(api.Remaining()) == 0 }
