package modelapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// recorder stands in for testing.TB, to see a test fail without failing.
type recorder struct {
	cleanups []func()
	failures []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...) }
func (r *recorder) Failed() bool                      { return len(r.failures) > 0 }
func (r *recorder) finish() {
	for _, f := range r.cleanups {
		f()
	}
}

type reply struct {
	status int
	kinds  []string // event types in order
	text   string
	inputs map[string]string // tool use id -> raw input
	stop   string
}

// post sends a request with the given messages and reads the whole stream.
func post(t *testing.T, s *Server, session, messages string) reply {
	t.Helper()
	r, err := tryPost(t.Context(), s, session, messages)
	require.NoError(t, err)
	return r
}

func tryPost(ctx context.Context, s *Server, session, messages string) (reply, error) {
	out := reply{inputs: map[string]string{}}
	body := `{"model":"m","stream":true,"system":[{"type":"text","text":"You are a test."}],"tools":[{"name":"Bash"}],"messages":` + messages + `}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/v1/messages?beta=true", strings.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set("X-Claude-Code-Session-Id", session)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }()
	out.status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		_, err := io.Copy(io.Discard, resp.Body)
		return out, err
	}
	ids := map[int]string{}
	sc := bufio.NewScanner(resp.Body)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string
			Index int
			Block struct{ ID string } `json:"content_block"`
			Delta struct {
				Text  string
				Input string `json:"partial_json"`
				Stop  string `json:"stop_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return out, err
		}
		out.kinds = append(out.kinds, e.Type)
		switch e.Type {
		case "content_block_start":
			ids[e.Index] = e.Block.ID
		case "content_block_delta":
			out.text += e.Delta.Text
			if id := ids[e.Index]; id != "" {
				out.inputs[id] += e.Delta.Input
			}
		case "message_delta":
			out.stop = e.Delta.Stop
		}
	}
	return out, sc.Err()
}

func user(text string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, text) }

func called(id string) string {
	return fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":"Bash","input":{}}]}`, id)
}

func result(id, content string, isError bool) string {
	return fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q,"is_error":%t}]}`, id, content, isError)
}

func list(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }

// The stream has the API's shape, and a tool's input leaves as it was scripted.
func TestStream(t *testing.T) {
	t.Parallel()
	const input = `{"n": 9007199254740993, "f":1.0,"long":"éééééééééééééééééééééééééééééééééééééééé<&>\u003c"}`
	s := New(t, Step{UserText: "go", Reply: []Block{Text("Hello, wörld"), ToolUse("toolu_1", "Bash", input), ToolUse("toolu_2", "Bash", `{}`)}},
		Step{Results: []Result{{ToolUseID: "toolu_1", Content: "one"}, {ToolUseID: "toolu_2", Contains: "wo"}}, Reply: []Block{Text("done")}})
	got := post(t, s, "s", list(user("go")))
	require.Equal(t, "Hello, wörld", got.text)
	require.Equal(t, map[string]string{"toolu_1": input, "toolu_2": "{}"}, got.inputs)
	require.Equal(t, "tool_use", got.stop)
	require.Equal(t, "message_start", got.kinds[0])
	require.Equal(t, []string{"message_delta", "message_stop"}, got.kinds[len(got.kinds)-2:])

	// In any order, and only what is new counts.
	got = post(t, s, "s", list(user("go"), called("toolu_1"), result("toolu_2", "two", false), result("toolu_1", "one", false)))
	require.Equal(t, "end_turn", got.stop)
	reqs := s.Requests()
	require.Len(t, reqs, 2)
	require.Equal(t, "You are a test.", reqs[1].System)
	require.Equal(t, []string{"Bash"}, reqs[1].Tools)
	require.Len(t, reqs[1].Results, 2)

	require.NoError(t, s.Add(Step{UserText: "more", Reply: []Block{Text("ok")}}))
	post(t, s, "s", list(user("go"), called("toolu_1"), result("toolu_2", "two", false), result("toolu_1", "one", false), user("more")))
	require.Empty(t, s.Requests()[2].Results)

	resp, err := http.Head(s.URL() + "/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	http.DefaultClient.CloseIdleConnections()
}

// Everything a script did not foresee fails the test.
func TestFaults(t *testing.T) {
	t.Parallel()
	step := Step{Name: "second", Results: []Result{{ToolUseID: "toolu_1", Content: "yes"}}, Reply: []Block{Text("ok")}}
	for name, c := range map[string]struct {
		messages string
		want     string
	}{
		"another text":            {list(user("go"), called("toolu_1"), result("toolu_1", "yes.", false)), `tool result toolu_1 (error=false) "yes." not expected`},
		"an error instead":        {list(user("go"), called("toolu_1"), result("toolu_1", "yes", true)), `(error=true)`},
		"another call":            {list(user("go"), called("toolu_2"), result("toolu_2", "yes", false)), `toolu_2`},
		"one more result":         {list(user("go"), called("toolu_1"), result("toolu_1", "yes", false), result("toolu_2", "x", false)), `toolu_2 (error=false) "x" not expected`},
		"no result":               {list(user("go")), `tool result toolu_1 missing`},
		"a result before a reply": {list(user("go"), called("toolu_1"), result("toolu_1", "denied", true), called("x"), user("go on")), `"denied" not expected`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{}
			s := New(r, step)
			require.Equal(t, http.StatusBadRequest, post(t, s, "s", c.messages).status)
			r.finish()
			require.Len(t, r.failures, 1)
			require.Contains(t, r.failures[0], c.want)
			require.Len(t, s.Faults(), 1)
		})
	}
	t.Run("a request that no step covers", func(t *testing.T) {
		t.Parallel()
		r := &recorder{}
		s := New(r)
		resp, err := http.Get(s.URL() + "/v1/models")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusBadRequest, post(t, s, "s", list(user("hi"))).status)
		http.DefaultClient.CloseIdleConnections()
		r.finish()
		require.Len(t, r.failures, 2)
		require.Contains(t, r.failures[0], "GET /v1/models")
	})
	t.Run("a step that was never asked for", func(t *testing.T) {
		t.Parallel()
		r := &recorder{}
		New(r, step, Step{Optional: true, Reply: []Block{Text("x")}})
		r.finish()
		require.Equal(t, []string{"model API: steps never asked for: step 0 (second)"}, r.failures)
	})
}

// Conversations run side by side, each on its own steps; equal tool use ids and
// results in two of them are two things.
func TestConversations(t *testing.T) {
	t.Parallel()
	s := New(t,
		Step{Conv: "alpha", UserText: "alpha", Reply: []Block{ToolUse("toolu_1", "Bash", `{}`)}},
		Step{Conv: "beta", UserText: "beta", Reply: []Block{ToolUse("toolu_1", "Bash", `{}`)}},
		Step{Conv: "alpha", Results: []Result{{ToolUseID: "toolu_1", Content: "yes"}}, Reply: []Block{Text("to alpha")}},
		Step{Conv: "beta", Results: []Result{{ToolUseID: "toolu_1", Content: "yes"}}, Reply: []Block{Text("to beta")}},
		Step{System: "another prompt", Optional: true, Reply: []Block{Text("never")}},
	)
	reminder := `{"role":"user","content":[{"type":"text","text":"<system-reminder>alpha beta</system-reminder>"},{"type":"text","text":"I am beta"}]}`
	post(t, s, "s", list(reminder))
	post(t, s, "s", list(user("I am alpha")))
	require.Equal(t, "I am beta", s.Requests()[0].FirstText)
	require.Equal(t, "to beta", post(t, s, "s", list(reminder, called("toolu_1"), result("toolu_1", "yes", false))).text)
	require.Equal(t, "to alpha", post(t, s, "s", list(user("I am alpha"), called("toolu_1"), result("toolu_1", "yes", false))).text)
}

// A held reply waits for its signal, from Go or over HTTP, and for nothing else.
func TestHold(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	s := New(t,
		Step{UserText: "one", Hold: hold, Reply: []Block{Text("1")}},
		Step{UserText: "two", Gate: "g2", Reply: []Block{Text("2")}},
		Step{UserText: "three", Reply: []Block{Text("3")}},
	)
	type answer struct {
		r   reply
		err error
	}
	ask := func(text string) chan answer {
		c := make(chan answer, 1)
		go func() {
			r, err := tryPost(context.Background(), s, text, list(user(text)))
			c <- answer{r, err}
		}()
		return c
	}
	one, two := ask("one"), ask("two")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := s.WaitRequests(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, "3", post(t, s, "s", list(user("three"))).text)
	select {
	case <-one:
		require.Fail(t, "not held")
	case <-two:
		require.Fail(t, "not held")
	default:
	}
	resp, err := http.Post(s.URL()+ControlPath+"g2", "", nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	a := <-two
	require.NoError(t, a.err)
	require.Equal(t, "2", a.r.text)
	close(hold)
	a = <-one
	require.NoError(t, a.err)
	require.Equal(t, "1", a.r.text)
}

func TestCloseCutsHeldReplies(t *testing.T) {
	t.Parallel()
	s, err := Start(Options{}, Step{Gate: "never", Reply: []Block{Text("x")}})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := tryPost(context.Background(), s, "s", list(user("go")))
		done <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = s.WaitRequests(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Error(t, <-done)
	require.Empty(t, s.Faults())
	_, err = s.WaitRequests(t.Context(), 1)
	require.NoError(t, err)
}

func TestRepeatAndRespond(t *testing.T) {
	t.Parallel()
	s := New(t, Step{Repeat: true, Respond: func(r *Request) []Block { return []Block{Text(fmt.Sprintf("reply %d", r.Seq))} }},
		Step{Status: http.StatusServiceUnavailable, Optional: true})
	require.Equal(t, "reply 1", post(t, s, "a", list(user("x"))).text)
	require.Equal(t, "reply 2", post(t, s, "b", list(user("y"))).text)
}

func TestBadScriptsAreRefused(t *testing.T) {
	t.Parallel()
	for want, st := range map[string]Step{
		"no reply":            {},
		"not a JSON object":   {Reply: []Block{ToolUse("toolu_1", "Bash", `{"a":`)}},
		"id and name":         {Reply: []Block{ToolUse("", "Bash", `{}`)}},
		"text: invalid UTF-8": {Reply: []Block{Text("\xff")}},
	} {
		_, err := Start(Options{}, st)
		require.ErrorContains(t, err, want)
	}
	_, err := Start(Options{Addr: "0.0.0.0:0"})
	require.ErrorContains(t, err, "loopback")
}

func TestFindCLI(t *testing.T) {
	exe, err := FindCLI()
	require.NoError(t, err)
	require.Contains(t, exe, filepath.Join("tools", "claude", "node_modules"))

	t.Chdir(t.TempDir())
	_, err = FindCLI()
	require.ErrorIs(t, err, ErrNoCLI)
	require.ErrorContains(t, err, "make setup")
	r := &recorder{}
	RequireCLI(r)
	require.True(t, r.Failed(), "a missing CLI fails, it does not skip")

	// Without the platform's own package the wrapper does.
	require.NoError(t, os.MkdirAll("tools/claude/node_modules/.bin", 0o700))
	require.NoError(t, os.WriteFile("tools/claude/node_modules/.bin/claude", nil, 0o700))
	exe, err = FindCLI()
	require.NoError(t, err)
	require.Equal(t, "claude", filepath.Base(exe))
	require.False(t, errors.Is(err, ErrNoCLI))
}
