package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

func TestAskExitsByOutcome(t *testing.T) {
	t.Parallel()
	in := newBus(t)
	for _, tt := range []struct {
		content hitl.Content
		code    int
		words   string
	}{
		{hitl.Content{Outcome: hitl.Allowed}, cli.ExitOK, ""},
		{hitl.Content{Outcome: hitl.Answered}, cli.ExitOK, ""},
		{hitl.Content{Outcome: hitl.Denied, Message: "not\x1b[2Jtoday"}, cli.ExitDenied, "denied by Ada: not⟦U+001B⟧[2Jtoday"},
		{hitl.Content{Outcome: hitl.Expired}, cli.ExitExpired, "timed out after 10 minutes"},
		{hitl.Content{Outcome: hitl.Dismissed}, cli.ExitNoAnswer, "dismissed"},
		{hitl.Content{Outcome: hitl.Clarify, Message: "ask Bob"}, cli.ExitNoAnswer, "ask Bob"},
		{hitl.Content{Outcome: hitl.Cancelled}, cli.ExitCancelled, "cancelled"},
		{hitl.Content{Outcome: hitl.Orphaned}, cli.ExitCancelled, "orphaned"},
		{hitl.Content{Outcome: hitl.InvalidIX, Fields: []hitl.Field{{Field: "title", Problem: "is odd"}}}, cli.ExitCancelled, "title is odd"},
	} {
		name := string(tt.content.Outcome)
		r := start(t, cli.Ask, in.dir, "", "--tool", "Bash", "--input", `{"command":"ls"}`)
		id := r.id(t)
		in.decide(t, id, tt.content)
		r.wait(t)
		require.Equal(t, tt.code, r.code, name)
		d := decode[hitl.Decision](t, r)
		require.Equal(t, tt.content.Outcome, d.Outcome)
		require.Equal(t, tt.content.Message, d.Message)
		require.Empty(t, d.RequestB64)
		require.NotContains(t, r.out.String()+r.err.String(), "\x1b", name+": B-54")
		require.Contains(t, r.err.String(), tt.words, name)
		require.ElementsMatch(t, []string{hitl.Delivered, hitl.Applied}, in.acks(t, id), name)
	}
}

func TestAskSendsWhatTheFlagsSay(t *testing.T) {
	t.Parallel()
	in := newBus(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "schema.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`), 0o600))
	for _, tt := range []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{
			"approval", `{"n": 9007199254740993.0}`,
			[]string{
				"--tool", "Deploy", "--input", "-", "--title", "Ship it", "--message", "m", "--reason", "r",
				"--session", "s", "--project", "shop", "--agent", "ci", "--timeout", "90s",
			},
			`"kind":"approval","session_id":"s","project_id":"shop","agent_name":"ci","title":"Ship it","message":"m","reason":"r",
			 "tool":{"name":"Deploy","input":{"n":9007199254740993.0}},"expires_in":"1m30s"`,
		},
		{"the default of a flag is no content", "", []string{"--tool", "X", "--timeout", "10m"}, `"kind":"approval","session_id":"terminal","title":"Use X","tool":{"name":"X","input":{}}`},
		{"for ever", "", []string{"--tool", "X", "--timeout", "0"}, `"kind":"approval","session_id":"terminal","title":"Use X","tool":{"name":"X","input":{}},"expires_in":"0s"`},
		{
			"questions", "",
			[]string{"--question", "Which?", "--option", "A", "--option", "B", "--multi", "--question", "Why?"},
			`"kind":"question","session_id":"terminal","title":"Which?","questions":[
			 {"question":"Which?","options":[{"label":"A"},{"label":"B"}],"multi_select":true},{"question":"Why?","options":[]}]`,
		},
		{
			"form", "",
			[]string{"--schema", "@" + file},
			`"kind":"form","session_id":"terminal","title":"Fill in a form","schema":{"type":"object","properties":{"n":{"type":"integer"}}}`,
		},
		{
			"whole request", `{"kind":"approval","title":"T","risk":"high","tool":{"name":"X","input":{"a":1}},"expires_in":"5m"}`,
			[]string{"--json", "--title", "on top"},
			`"kind":"approval","session_id":"terminal","title":"on top","risk":"high","tool":{"name":"X","input":{"a":1}},"expires_in":"5m0s"`,
		},
	} {
		r := start(t, cli.Ask, in.dir, tt.stdin, append(tt.args, "--key", tt.name)...)
		id := r.id(t)
		require.Equal(t, hitl.ID("default", "cli", tt.name, 1), id)
		m, err := in.journal.Request(t.Context(), subject.NewRef("default", "cli", id))
		require.NoError(t, err)
		key, err := json.Marshal(tt.name)
		require.NoError(t, err)
		want := `{"v":1,"id":"` + id + `","key":` + string(key) + `,"tenant":"default","owner":"cli",` + tt.want + `}`
		got, err := hitl.Canonical(m.Data)
		require.NoError(t, err)
		expected, err := hitl.Canonical([]byte(want))
		require.NoError(t, err)
		require.Equal(t, string(expected), string(got), tt.name)
		r.cancel()
		r.wait(t)
	}
}

func TestAskRefusesWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	in := newBus(t)
	for _, tt := range []struct {
		words, stdin string
		args         []string
	}{
		{`--input: duplicate key "a"`, "", []string{"--tool", "X", "--input", `{"a":1,"a":2}`}},
		{`--json: duplicate key "tool.input.b.c"`, `{"tool":{"input":{"b":{"c":1,"c":1}}}}`, []string{"--json"}},
		{`--json: unknown field "titel"`, `{"titel":"x"}`, []string{"--json"}},
		{`--json: title must not be a JSON number`, `{"title":1}`, []string{"--json"}},
		{"--input: open", "", []string{"--tool", "X", "--input", "@/nowhere/at/all"}},
		{"tool.name", "", []string{"--input", "{}", "--title", "T"}},
		{"title: is missing", "", nil},
		{"questions", "", []string{"--kind", "question", "--title", "T"}},
		{"expires_in", "", []string{"--tool", "X", "--timeout", "-1s"}},
		{"flag provided but not defined: -tol", "", []string{"--tol", "X"}},
		{"comes after a --question", "", []string{"--option", "A"}},
		{`what is "Bash"?`, "", []string{"Bash"}},
		{"the limit is 1048576", "", []string{"--tool", "X", "--input", `"` + strings.Repeat("x", hitl.MaxRequest) + `"`}},
	} {
		r := run(t, cli.Ask, in.dir, tt.stdin, tt.args...)
		require.Equal(t, cli.ExitError, r.code, tt.words)
		require.Contains(t, r.err.String(), tt.words)
		require.Empty(t, r.out.String())
	}
	pos, err := in.journal.Position(t.Context(), journal.Requests)
	require.NoError(t, err)
	require.Zero(t, pos.Last, "nothing was asked")

	r := run(t, cli.Ask, in.dir, "", "-h")
	require.Equal(t, cli.ExitOK, r.code)
	require.Contains(t, r.err.String(), "usage: banksman ask")
}

func TestCtrlCWithdrawsUnlessThereIsAKey(t *testing.T) {
	t.Parallel()
	in := newBus(t)
	withdrawn := func(id string) bool {
		found := false
		require.NoError(t, in.journal.Read(t.Context(), journal.Requests, 1,
			[]string{subject.Withdraw(subject.NewRef("default", "cli", id))},
			func(journal.Message) error { found = true; return nil }))
		return found
	}
	r := start(t, cli.Ask, in.dir, "", "--tool", "X")
	id := r.id(t)
	r.cancel()
	require.Equal(t, cli.ExitCancelled, r.wait(t).code)
	require.True(t, withdrawn(id), "when the command has ended")
	require.Contains(t, r.err.String(), "withdrawn")

	r = start(t, cli.Ask, in.dir, "", "--tool", "X", "--key", "release")
	id = r.id(t)
	r.cancel()
	require.Equal(t, cli.ExitCancelled, r.wait(t).code)
	require.False(t, withdrawn(id))
	require.Contains(t, r.err.String(), "ask again with --key release")

	r = start(t, cli.Ask, in.dir, "", "--tool", "X", "--key", "release")
	require.Equal(t, id, r.id(t))
	require.Contains(t, r.err.String(), "asked again")
	in.decide(t, id, hitl.Content{Outcome: hitl.Allowed})
	require.Equal(t, cli.ExitOK, r.wait(t).code)

	r = run(t, cli.Ask, in.dir, "", "--tool", "X", "--key", "release")
	require.Equal(t, cli.ExitOK, r.code, "the stored decision")
	r = run(t, cli.Ask, in.dir, "", "--tool", "Y", "--key", "release")
	require.Equal(t, cli.ExitError, r.code)
	require.Contains(t, r.err.String(), "other content")
	require.Contains(t, r.err.String(), "release")
}

func TestAskWhoseOutputIsGoneDoesNotApply(t *testing.T) {
	t.Parallel()
	in := newBus(t)
	var stderr output
	code := make(chan int, 1)
	go func() {
		code <- cli.Ask(context.Background(), []string{"--tool", "X"}, cli.Stdio{Out: brokenPipe{}, Err: &stderr, DataDir: in.dir})
	}()
	var id string
	require.Eventually(t, func() bool {
		m := interaction.FindStringSubmatch(stderr.String())
		if m != nil {
			id = m[1]
		}
		return m != nil
	}, patience, 5e6)
	in.decide(t, id, hitl.Content{Outcome: hitl.Allowed})
	require.Equal(t, cli.ExitError, <-code)
	require.ElementsMatch(t, []string{hitl.Delivered, hitl.Refused}, in.acks(t, id))
}

func TestNoInstance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, do := range map[string]commandFunc{"ask": cli.Ask, "pending": cli.Pending, "login": cli.Login} {
		args := map[string][]string{"ask": {"--tool", "X"}}[name]
		r := run(t, do, dir, "", args...)
		require.Equal(t, cli.ExitError, r.code, name)
		require.Contains(t, r.err.String(), "no instance at "+dir+": run banksman up", name)
	}
	in := newBus(t)
	r := run(t, cli.Ask, dir, "", "--tool", "X", "--creds", filepath.Join(in.dir, "creds", "nobody.json"))
	require.Equal(t, cli.ExitError, r.code)
	require.Contains(t, r.err.String(), "nobody.json")

	ask := start(t, cli.Ask, dir, "", "--tool", "X", "--creds", filepath.Join(in.dir, "creds", "owner-cli.json"),
		"--nats", credentials(t, in.dir, bus.RoleOwner, "cli").URLs[0])
	in.decide(t, ask.id(t), hitl.Content{Outcome: hitl.Allowed})
	require.Equal(t, cli.ExitOK, ask.wait(t).code)
}
