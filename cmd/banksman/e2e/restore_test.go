package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/hitltest/modelapi"
	"github.com/banksman/banksman/pkg/wire"
)

// keep copies a part of the data directory of a product that does not run.
func (h *home) keep(part ...string) (copied string) {
	h.t.Helper()
	copied = filepath.Join(h.t.TempDir(), "copy")
	require.NoError(h.t, os.CopyFS(copied, os.DirFS(filepath.Join(append([]string{h.data}, part...)...))))
	return copied
}

// putBack replaces it by the copy.
func (h *home) putBack(copied string, part ...string) {
	h.t.Helper()
	dir := filepath.Join(append([]string{h.data}, part...)...)
	require.NoError(h.t, os.RemoveAll(dir))
	require.NoError(h.t, os.CopyFS(dir, os.DirFS(copied)))
}

// begin starts a session.
func (i *instance) begin(token, runtime, prompt string) {
	i.t.Helper()
	code, body := i.loaded(http.MethodPost, "/api/sessions", token, map[string]any{"runtime": runtime, "prompt": prompt, "cwd": i.home.work})
	require.Less(i.t, code, 300, body)
}

// loaded is call for a product that has just started: it may still load what is
// open, or wait for its worker's first sign of life.
func (i *instance) loaded(method, path, token string, in any) (code int, body string) {
	i.t.Helper()
	require.Eventually(i.t, func() bool {
		code, body = i.call(method, path, token, in)
		return code != http.StatusServiceUnavailable
	}, patience, 20*time.Millisecond)
	return code, body
}

// noted waits until the CLI has text in the conversation that it keeps on disk.
// One that ends before cannot go on from there.
func (h *home) noted(text string) {
	h.t.Helper()
	var dir string
	for _, kv := range h.env {
		if d, ok := strings.CutPrefix(kv, "CLAUDE_CONFIG_DIR="); ok {
			dir = d
		}
	}
	require.NotEmpty(h.t, dir)
	require.Eventually(h.t, func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "projects", "*", "*.jsonl"))
		return err == nil && slices.ContainsFunc(files, func(f string) bool {
			raw, err := os.ReadFile(f)
			return err == nil && strings.Contains(string(raw), text)
		})
	}, patience, 10*time.Millisecond, "the CLI never kept %s", text)
}

func (i *instance) interaction(token, key string) wire.Interaction {
	i.t.Helper()
	code, body := i.loaded(http.MethodGet, "/api/interactions/"+key, token, nil)
	require.Equal(i.t, 200, code, body)
	var ix wire.Interaction
	require.NoError(i.t, json.Unmarshal([]byte(body), &ix))
	return ix
}

// trail waits for the agent's word on a decision.
func (i *instance) trail(token, key, stage string) hitl.Ack {
	i.t.Helper()
	var found hitl.Ack
	defer func() {
		if i.t.Failed() {
			_, sessions := i.call(http.MethodGet, "/api/sessions", token, nil)
			i.t.Logf("%s of %+v\n%s", stage, i.interaction(token, key).Trail, sessions)
		}
	}()
	require.Eventually(i.t, func() bool {
		for _, a := range i.interaction(token, key).Trail {
			if a.Stage == stage {
				found = a
				return true
			}
		}
		return false
	}, patience, 50*time.Millisecond)
	return found
}

// used counts the uses of approvals in the worker's ledger.
func (h *home) used() int {
	h.t.Helper()
	return len(lines(h.t, filepath.Join(h.data, "agent", "approvals.jsonl")))
}

// The server's data are put back to a copy from before an approval whose tool has
// run, and the worker was killed before it could note that. The same request is
// open again, and a person approves it again: the tool does not run, and that
// person is told why.
func TestRestoredStore_D4_05_B48_AToolRunsOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t,
		modelapi.Step{Conv: "marker-back", UserText: "marker-back", Reply: []modelapi.Block{
			modelapi.ToolUse("toolu_b", "Bash", `{"command":"echo ran >> ran.txt","description":"Run once"}`),
		}},
		// The product is stopped while it waits; the approval comes behind that.
		modelapi.Step{Conv: "marker-back", UserText: "without a new question", Results: nil, Respond: again("toolu_b2"), Optional: true},
		modelapi.Step{Conv: "marker-back", UserText: "without a new question", Results: []modelapi.Result{{ToolUseID: "toolu_b", Any: true}}, Respond: again("toolu_b2"), Optional: true},
		modelapi.Step{Conv: "marker-back", UserText: "without a new question", Results: []modelapi.Result{{ToolUseID: "toolu_b", Any: true, IsError: true}}, Respond: again("toolu_b2"), Optional: true},
		modelapi.Step{Name: "ran", Conv: "marker-back", Results: []modelapi.Result{{ToolUseID: "toolu_b2", Any: true}}, Reply: []modelapi.Block{modelapi.Text("It ran.")}},
		// Even a model that does not check first has to ask again.
		modelapi.Step{Conv: "marker-back", UserText: "Whether it ran is unknown", Respond: again("toolu_b3")},
	)
	in, _, token := h.upWithLogin()
	in.begin(token, "claude", "marker-back")
	first := in.waiting(token, 1)[0]
	h.noted(`"toolu_b"`)
	in.interrupt()
	store, sessions := h.keep("nats", "store"), h.keep("agent", "sessions")

	in, _, token = h.upWithLogin()
	require.Equal(t, first.Key, in.waiting(token, 1)[0].Key)
	code, body := in.decide(token, &first, hitl.VerbAllow)
	require.Equal(t, 200, code, body)
	in.trail(token, first.Key, hitl.Applied)
	h.served("ran")
	h.noted("It ran.")
	require.Equal(t, []string{"ran"}, lines(t, h.file("ran.txt")))
	once := in.interaction(token, first.Key).Decision.DecisionID
	in.kill()
	h.putBack(store, "nats", "store")
	h.putBack(sessions, "agent", "sessions")

	in, _, token = h.upWithLogin()
	open := in.waiting(token, 1)[0]
	require.Equal(t, first.Key, open.Key, "people are asked again: nobody there knows of the first decision")
	code, body = in.decide(token, &open, hitl.VerbAllow)
	require.Equal(t, 200, code, body)
	require.Equal(t, "another approval of the same request was already used", in.trail(token, first.Key, hitl.Refused).Detail)
	twice := in.interaction(token, first.Key)
	require.NotEqual(t, once, twice.Decision.DecisionID)
	for _, a := range twice.Trail {
		require.NotEqual(t, hitl.Applied, a.Stage)
	}
	next := in.waiting(token, 1)[0]
	require.NotEqual(t, first.Key, next.Key, "another run is another question")
	require.Equal(t, []string{"ran"}, lines(t, h.file("ran.txt")), "exactly once")
	require.Equal(t, 1, h.used())
}

// The same with a worker that knows what it did: the request that is open again is
// taken away from people, with the reason, and the session goes on where it was.
func TestRestoredStore_D4_05_B48_WhatWasUsedIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in, _, token := h.upWithLogin()
	in.begin(token, "demo", "show me")
	first := in.waiting(token, 1)[0]
	in.interrupt()
	store := h.keep("nats", "store")

	in, _, token = h.upWithLogin()
	in.waiting(token, 1)
	code, body := in.decide(token, &first, hitl.VerbAllow)
	require.Equal(t, 200, code, body)
	in.trail(token, first.Key, hitl.Applied)
	second := in.waiting(token, 1)[0]
	require.NotEqual(t, first.Key, second.Key)
	in.interrupt()
	h.putBack(store, "nats", "store")

	in, _, token = h.upWithLogin()
	require.Eventually(t, func() bool { return in.interaction(token, first.Key).State == "closed" }, patience, 50*time.Millisecond)
	ended := in.interaction(token, first.Key)
	require.Equal(t, hitl.Cancelled, ended.Outcome)
	require.Contains(t, ended.Decision.Message, "put back to an older copy")
	code, body = in.decide(token, &first, hitl.VerbAllow)
	require.Equal(t, 409, code, body)
	require.True(t, strings.Contains(body, string(hitl.AlreadyDecided)), body)
	// Asked anew under the same key, the second is the same interaction.
	again := in.waiting(token, 1)[0]
	require.Equal(t, second.Key, again.Key)
	code, body = in.decide(token, &again, hitl.VerbAllow)
	require.Equal(t, 200, code, body)
	in.trail(token, again.Key, hitl.Applied)
	require.Equal(t, 2, h.used())
}
