package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Both kinds of keys are rotated with the commands, while the product runs and
// somebody waits; nothing is restarted.
func TestKeysAreRotatedWhileItRuns_invariant2(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, login, _ := h.upWithLogin()
	decide := func(id, verb string) {
		t.Helper()
		r := h.run("decide", id, verb, "--login", login)
		require.Zero(t, r.code, r.stderr)
	}
	ask := func(args ...string) *process {
		return h.ask(append(args, "--tool", "Bash", "--input", `{"command":"make"}`)...)
	}
	export := func(key string) (file, signer string) {
		t.Helper()
		file = filepath.Join(t.TempDir(), "decision.json")
		r := h.run("export", key, "--out", file)
		require.Zero(t, r.code, r.stderr)
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var e struct{ Signer string }
		require.NoError(t, json.Unmarshal(raw, &e))
		return file, e.Signer
	}

	before := ask("--key", "before")
	first := h.waiting(1)[0]
	decide(first.ID, "allow")
	require.Zero(t, before.wait())
	oldFile, oldSigner := export(first.Key)

	// The decision key: who waits across the rotation gets what the new one signs.
	across := ask("--key", "across")
	second := h.waiting(1)[0]
	r := h.run("creds", "rotate", "decision-key")
	require.Zero(t, r.code, r.stderr)
	public := regexp.MustCompile(oldSigner + `  (\S+)  accepted`).FindStringSubmatch(r.stdout)
	require.NotNil(t, public, r.stdout)
	decide(second.ID, "allow")
	require.Zero(t, across.wait(), across.output())
	newFile, newSigner := export(second.Key)
	require.NotEqual(t, oldSigner, newSigner)
	require.Zero(t, h.run("verify", oldFile).code)
	require.Zero(t, h.run("verify", newFile).code)
	r = h.run("creds", "rotate", "decision-key", "--drop-old")
	require.Zero(t, r.code, r.stderr)
	require.Zero(t, h.run("verify", newFile).code)
	require.Equal(t, 1, h.run("verify", oldFile).code, "the credential files no longer have its key")
	r = h.run("verify", oldFile, "--key", public[1])
	require.Zero(t, r.code, r.stdout)
	// What the old key signed is no answer any more.
	again := ask("--key", "before")
	again.line("ALARM.*" + oldSigner)
	again.interrupt()
	require.Equal(t, 5, again.wait(), again.output())

	// A key to connect with. The copy stands for a program that was not told.
	creds := filepath.Join(h.data, "creds", "owner-cli.json")
	raw, err := os.ReadFile(creds)
	require.NoError(t, err)
	copied := filepath.Join(t.TempDir(), "copy.json")
	require.NoError(t, os.WriteFile(copied, raw, 0o600))
	connected := ask("--key", "connected")
	third := h.waiting(1)[0]
	require.Zero(t, h.run("creds", "rotate", "owner-cli").code)
	require.Eventually(t, func() bool { return h.run("pending").code == 0 }, patience, 50*time.Millisecond, "the server takes it over")
	for _, args := range [][]string{nil, {"--creds", copied}} {
		p := ask(args...)
		require.Eventually(t, func() bool { return len(h.pending()) == 2 }, patience, 50*time.Millisecond)
		p.interrupt()
		h.waiting(1)
	}
	decide(third.ID, "deny")
	require.Equal(t, 1, connected.wait(), "the connection with the old key went on")
	require.Zero(t, h.run("creds", "rotate", "owner-cli", "--drop-old").code)
	require.Eventually(t, func() bool {
		return h.run("pending", "--creds", copied).code != 0
	}, patience, 50*time.Millisecond)
	require.Zero(t, h.run("pending").code)
}
