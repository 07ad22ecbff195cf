package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// waitsFor waits until an interaction is in the list of what is pending.
func (in *instance) waitsFor(t *testing.T, id string) wire.Interaction {
	t.Helper()
	var found wire.Interaction
	require.Eventually(t, func() bool {
		r := run(t, cli.Pending, in.dir, "", "--json")
		require.Equal(t, cli.ExitOK, r.code, r.err.String())
		for _, ix := range decode[[]wire.Interaction](t, r) {
			if ix.ID == id {
				found = ix
			}
		}
		return found.ID != ""
	}, patience, 20*time.Millisecond)
	return found
}

func TestAskIsDecidedFromTheTerminal(t *testing.T) {
	t.Parallel()
	in := newInstance(t)
	r := run(t, cli.Pending, in.dir, "")
	require.Equal(t, "Nothing waits for a decision.\n", r.out.String())

	ask := start(t, cli.Ask, in.dir, "", "--tool", "Bash", "--input", `{"command":"echo \u202eevil \u001b[31m"}`, "--title", "Clean\x1b[2J up")
	id := ask.id(t)
	require.Contains(t, ask.err.String(), in.http)
	ix := in.waitsFor(t, id)

	r = run(t, cli.Pending, in.dir, "")
	require.Contains(t, r.out.String(), id)
	require.NotContains(t, r.out.String(), "\x1b", "B-54")

	r = run(t, cli.Decide, in.dir, "", id, "allow")
	require.Equal(t, cli.ExitError, r.code)
	require.Contains(t, r.err.String(), "run banksman login --cli")
	in.signIn(t, in.token, time.Now().Add(-time.Second))
	r = run(t, cli.Decide, in.dir, "", id, "allow")
	require.Equal(t, cli.ExitError, r.code)
	require.Contains(t, r.err.String(), "expired")
	in.signIn(t, strings.Repeat("x", len(in.token)), time.Now().Add(time.Hour))
	r = run(t, cli.Decide, in.dir, "", id, "allow")
	require.Equal(t, cli.ExitError, r.code)
	require.Equal(t, hitl.Forbidden, decode[wire.Receipt](t, r).Status)

	in.signIn(t, in.token, time.Now().Add(time.Hour))
	r = run(t, cli.Decide, in.dir, "", id, "allow", "--digest", strings.Repeat("0", 64))
	require.Equal(t, cli.ExitError, r.code)
	require.Equal(t, hitl.DigestMismatch, decode[wire.Receipt](t, r).Status)
	r = run(t, cli.Decide, in.dir, "", id, "maybe")
	require.Equal(t, cli.ExitError, r.code)

	r = run(t, cli.Decide, in.dir, "", id, "deny", "--message", "not now", "--digest", ix.Digest)
	require.Equal(t, cli.ExitOK, r.code, r.err.String())
	require.Equal(t, hitl.Accepted, decode[wire.Receipt](t, r).Status)
	require.Contains(t, r.err.String(), "cli wants to run echo")
	require.Contains(t, r.err.String(), "echo ⟦U+202E⟧evil ⟦U+001B⟧[31m")
	require.Contains(t, r.err.String(), "Clean⟦U+001B⟧[2J up")
	require.NotContains(t, r.err.String(), "\x1b")

	require.Equal(t, cli.ExitDenied, ask.wait(t).code)
	d := decode[hitl.Decision](t, ask)
	require.Equal(t, "not now", d.Message)
	require.Equal(t, "Ada", d.Principal.Name)

	r = run(t, cli.Decide, in.dir, "", id, "deny", "--message", "not now")
	require.Equal(t, cli.ExitOK, r.code)
	require.Equal(t, hitl.Duplicate, decode[wire.Receipt](t, r).Status)
	r = run(t, cli.Decide, in.dir, "", id, "allow")
	require.Equal(t, cli.ExitDenied, r.code)
	require.Equal(t, hitl.Denied, decode[wire.Receipt](t, r).Decision.Outcome)
	require.Contains(t, r.err.String(), "Already denied by Ada")

	r = run(t, cli.Pending, in.dir, "", "--state", "closed")
	require.Contains(t, r.out.String(), "denied by Ada")
	r = run(t, cli.Decide, in.dir, "", "00000000-0000-8000-8000-000000000000", "allow")
	require.Equal(t, cli.ExitError, r.code)
	require.Contains(t, r.err.String(), "there is no interaction")
}

func TestAnswersFromTheTerminal(t *testing.T) {
	t.Parallel()
	in := newInstance(t)
	in.signIn(t, in.token, time.Now().Add(time.Hour))
	question := []string{"--question", "Which?", "--option", "A", "--option", "B"}
	form := []string{"--schema", `{"type":"object","properties":{"n":{"type":"integer"}}}`}
	for _, tt := range []struct {
		name   string
		ask    []string
		answer string
		code   int
		want   hitl.Content
	}{
		{"map", question, `{"answers":{"0":"B"}}`, cli.ExitOK, hitl.Content{Outcome: hitl.Answered, Answers: []hitl.Answer{{QuestionID: "0", Values: []string{"B"}}}}},
		{"bare map", question, `{"Which?":"A"}`, cli.ExitOK, hitl.Content{Outcome: hitl.Answered, Answers: []hitl.Answer{{QuestionID: "0", Values: []string{"A"}}}}},
		{"list", question, `[{"question_id":"0","values":["A"]}]`, cli.ExitOK, hitl.Content{Outcome: hitl.Answered, Answers: []hitl.Answer{{QuestionID: "0", Values: []string{"A"}}}}},
		{"clarify", question, `{"action":"clarify","message":"C"}`, cli.ExitNoAnswer, hitl.Content{Outcome: hitl.Clarify, Message: "C"}},
		{"dismiss", question, `{"action":"dismiss"}`, cli.ExitNoAnswer, hitl.Content{Outcome: hitl.Dismissed}},
		{"content", form, `{"content":{"n":1}}`, cli.ExitOK, hitl.Content{Outcome: hitl.Answered, Content: json.RawMessage(`{"n":1}`)}},
		{"bare content", form, `{"n":2}`, cli.ExitOK, hitl.Content{Outcome: hitl.Answered, Content: json.RawMessage(`{"n":2}`)}},
	} {
		ask := start(t, cli.Ask, in.dir, "", tt.ask...)
		id := ask.id(t)
		in.waitsFor(t, id)
		for words, bad := range map[string]string{
			`--json: duplicate key "answers"`: `{"answers":{},"answers":{}}`,
			`--json: unknown field "anwser"`:  `{"answers":{},"anwser":1}`,
			"--json: is missing":              "",
		} {
			r := run(t, cli.Answer, in.dir, "", id, "--json", bad)
			require.Equal(t, cli.ExitError, r.code)
			require.Contains(t, r.err.String(), words)
		}
		wrong := `{"answers":{"7":"A"}}`
		if tt.ask[0] == "--schema" {
			wrong = `{"content":{"n":"one"}}`
		}
		r := run(t, cli.Answer, in.dir, "", id, "--json", wrong)
		require.Equal(t, cli.ExitError, r.code, tt.name)
		require.Equal(t, hitl.BadInput, decode[wire.Receipt](t, r).Status)
		require.Contains(t, r.err.String(), "Not decided")

		r = run(t, cli.Answer, in.dir, tt.answer, "--json", "-", id)
		require.Equal(t, cli.ExitOK, r.code, tt.name+": "+r.err.String())
		require.Equal(t, tt.code, ask.wait(t).code, tt.name)
		require.Equal(t, tt.want, decode[hitl.Decision](t, ask).Content, tt.name)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	in := newInstance(t)
	r := run(t, cli.Login, in.dir, "")
	require.Equal(t, cli.ExitOK, r.code, r.err.String())
	require.True(t, strings.HasPrefix(r.out.String(), in.http+"/#login="), r.out.String())

	api := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, in.http+path, bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+in.token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(raw)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	signIn := func(allow string) *running {
		r := start(t, cli.Login, in.dir, "", "--cli")
		require.Eventually(t, func() bool { return strings.HasSuffix(r.out.String(), "\n") }, patience, 5*time.Millisecond)
		code := strings.TrimSpace(r.out.String())
		status, body := api(http.MethodPost, "/api/cli-logins/"+url.PathEscape(code), `{"allow":`+allow+`}`)
		require.Less(t, status, 300, body)
		return r.wait(t)
	}
	file := filepath.Join(in.dir, "cli-login.json")
	r = signIn("false")
	require.Equal(t, cli.ExitError, r.code)
	require.Contains(t, r.err.String(), "refused")
	require.NoFileExists(t, file)

	r = signIn("true")
	require.Equal(t, cli.ExitOK, r.code, r.err.String())
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var l struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	require.NoError(t, json.Unmarshal(raw, &l))
	require.True(t, l.ExpiresAt.After(time.Now()))
	require.NotContains(t, r.out.String()+r.err.String(), l.Token)

	ask := start(t, cli.Ask, in.dir, "", "--tool", "X")
	id := ask.id(t)
	in.waitsFor(t, id)
	r = run(t, cli.Decide, in.dir, "", "allow-is-not-first", "allow")
	require.Equal(t, cli.ExitError, r.code)
	r = run(t, cli.Decide, in.dir, "", id, "allow")
	require.Equal(t, cli.ExitOK, r.code, r.err.String())
	require.Equal(t, cli.ExitOK, ask.wait(t).code)

	require.NoError(t, os.Chmod(file, 0o644))
	r = run(t, cli.Decide, in.dir, "", id, "allow")
	require.Equal(t, cli.ExitError, r.code)
	require.Contains(t, r.err.String(), "lets others read it")
}

func TestReceiptsAndTheirExitCodes(t *testing.T) {
	t.Parallel()
	in := newBus(t)
	in.signIn(t, "token", time.Now().Add(time.Hour))
	reply := make(chan string, 1)
	serve := func(verb string, fn nats.MsgHandler) {
		_, err := in.conn.Subscribe("hitl.svc.*.*.*", func(m *nats.Msg) {
			if strings.HasSuffix(m.Subject, "."+verb) {
				fn(m)
			}
		})
		require.NoError(t, err)
	}
	serve("get", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"id":"i","key":"default.cli.i","state":"pending","digest":"D","kind":"approval"}`))
	})
	calls := make(chan []byte, 8)
	serve("decide", func(m *nats.Msg) {
		calls <- m.Data
		select {
		case body := <-reply:
			_ = m.Respond([]byte(body))
		default:
			_ = m.Respond([]byte(`{"status":"unavailable","error":"later"}`)) // asked again until there is a word
		}
	})
	require.NoError(t, in.conn.Flush())
	for _, tt := range []struct {
		receipt string
		code    int
		words   string
	}{
		{`{"status":"accepted"}`, cli.ExitOK, "Decided."},
		{`{"status":"duplicate"}`, cli.ExitOK, "by you"},
		{`{"status":"already_decided","decision":{"outcome":"allowed","principal":{"kind":"rule","id":"r1"},"channel":"rule"}}`, cli.ExitDenied, "Already allowed by r1"},
		{`{"status":"expired"}`, cli.ExitError, "time is up"},
		{`{"status":"not_found"}`, cli.ExitError, "not_found"},
		{`{"status":"forbidden","error":"no"}`, cli.ExitError, "forbidden: no"},
		{`{"status":"invalid","fields":[{"field":"message","problem":"is \u001b odd"}]}`, cli.ExitError, "message is ⟦U+001B⟧ odd"},
		{`{"error":{"code":"digest_mismatch","error":"changed"}}`, cli.ExitError, "digest_mismatch"},
	} {
		reply <- tt.receipt
		r := run(t, cli.Decide, in.dir, "", "i", "allow")
		require.Equal(t, tt.code, r.code, tt.receipt)
		require.Contains(t, r.err.String(), tt.words)
		require.NotContains(t, r.out.String()+r.err.String(), "\x1b")
		decode[wire.Receipt](t, r)
		require.JSONEq(t, `{"id":"default.cli.i","token":"token","decision":"allow","digest":"D"}`, string(<-calls))
	}
	r := start(t, cli.Decide, in.dir, "", "i", "allow")
	<-calls
	<-calls // nothing was stored, so it tries again
	reply <- `{"status":"accepted"}`
	require.Equal(t, cli.ExitOK, r.wait(t).code)
}
