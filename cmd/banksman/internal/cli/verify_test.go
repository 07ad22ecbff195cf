package cli_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

func TestExportedDecisionIsVerified_invariant2_invariant5(t *testing.T) {
	t.Parallel()
	in := newBus(t)
	r := &hitl.Request{
		V: 1, Tenant: bus.DefaultTenant, Owner: "cli", Key: "k", Kind: hitl.KindApproval, SessionID: "s",
		Title: "Run it\nVALID\x1b[2J", Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"echo 9007199254740993"}`)},
	}
	r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
	ref := subject.NewRef(r.Tenant, r.Owner, r.ID)
	raw, err := hitl.Marshal(r)
	require.NoError(t, err)
	decide := func(ref subject.Ref, id, request string) {
		_, won, err := in.journal.Decide(t.Context(), ref, &hitl.Decision{
			V: 1, DecisionID: "d", InteractionID: id, Digest: hitl.Digest(raw),
			Content: hitl.Content{Outcome: hitl.Denied, Message: "not today"}, Principal: hitl.Principal{Kind: "person", ID: "ada", Name: "Ada"},
			Channel: "web", Assurance: "session", DecidedAt: time.Now(), RequestSeq: 1, RequestedAt: time.Now(), RequestB64: request,
		})
		require.NoError(t, err)
		require.True(t, won)
	}
	decide(ref, r.ID, base64.StdEncoding.EncodeToString(raw))
	run := func(fn func(args []string, io cli.Stdio) int, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := fn(args, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errs, DataDir: in.dir})
		return code, out.String(), errs.String()
	}
	export := func(args []string, io cli.Stdio) int { return cli.Export(t.Context(), args, io) }
	verify := func(args []string, io cli.Stdio) int { return cli.Verify(t.Context(), args, io) }
	file := filepath.Join(t.TempDir(), "decision.json")

	// By the gateway's credential, and the owner's own.
	code, _, errs := run(export, ref.String(), "--out", file)
	require.Zero(t, code, errs)
	owner := filepath.Join(in.dir, "creds", "owner-cli.json")
	code, text, errs := run(export, r.ID, "--creds", owner)
	require.Zero(t, code, errs)
	var own, whole wire.Evidence
	require.NoError(t, json.Unmarshal([]byte(text), &own))
	stored, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(stored, &whole))
	require.Equal(t, whole, own)
	require.Equal(t, "1", own.Seq)
	code, _, errs = run(export, ref.String(), "--creds", filepath.Join(in.dir, "creds", "owner-agents.json"))
	require.Equal(t, 2, code)
	require.Contains(t, errs, "may not read that decision")
	code, _, errs = run(export, "default.cli.none")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "has no decision")
	code, _, errs = run(export, "nonsense")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "tenant.owner.id")

	code, text, errs = run(verify, file)
	require.Zero(t, code, text+errs)
	require.True(t, strings.HasSuffix(text, "\nVALID\n"), text)
	require.Equal(t, 1, strings.Count(text, "\nVALID"), "an agent's text is no line of the report")
	require.NotContains(t, text, "\x1b")
	for _, part := range []string{"echo 9007199254740993", "denied", "Ada (person ada), via web, assurance session", "not today", hitl.Digest(raw)} {
		require.Contains(t, text, part)
	}
	cred := credentials(t, in.dir, bus.RoleOwner, "cli")
	for _, key := range cred.PublicDecisionKeys() {
		code, _, _ = run(verify, file, "--key", base64.StdEncoding.EncodeToString(key))
		require.Zero(t, code)
	}

	// A second decision, to take parts of.
	other := subject.NewRef(bus.DefaultTenant, "cli", "other")
	decide(other, "other", base64.StdEncoding.EncodeToString(raw))
	code, text, errs = run(export, other.String())
	require.Zero(t, code, errs)
	var second wire.Evidence
	require.NoError(t, json.Unmarshal([]byte(text), &second))
	stranger, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)

	for name, c := range map[string]struct {
		change func(e *wire.Evidence)
		args   []string
		want   []string
	}{
		"the body": {change: func(e *wire.Evidence) { e.Decision = bytes.Replace(e.Decision, []byte("denied"), []byte("allowed"), 1) }, want: []string{"signature:"}},
		"the request": {change: func(e *wire.Evidence) {
			evil := base64.StdEncoding.EncodeToString(bytes.Replace(raw, []byte("echo"), []byte("evil"), 1))
			e.Decision = bytes.Replace(e.Decision, []byte(base64.StdEncoding.EncodeToString(raw)), []byte(evil), 1)
		}, want: []string{"signature:", "digest:"}},
		"the request's base64": {change: func(e *wire.Evidence) {
			e.Decision = bytes.Replace(e.Decision, []byte(`"request_b64":"`), []byte(`"request_b64":"!`), 1)
		}, want: []string{"signature:", "request:"}},
		"the request taken out": {change: func(e *wire.Evidence) {
			e.Decision = bytes.Replace(e.Decision, []byte(`"request_b64"`), []byte(`"x"`), 1)
		}, want: []string{"signature:", "request: it is missing"}},
		"the subject":        {change: func(e *wire.Evidence) { e.Subject = subject.Decision(other) }, want: []string{"signature:", "interaction:", "request:"}},
		"no subject":         {change: func(e *wire.Evidence) { e.Subject = subject.Request(ref) }, want: []string{"subject:", "signature:"}},
		"the signature":      {change: func(e *wire.Evidence) { e.Signature = second.Signature }, want: []string{"signature:"}},
		"no signature":       {change: func(e *wire.Evidence) { e.Signature = "" }, want: []string{"signature:"}},
		"another signer":     {change: func(e *wire.Evidence) { e.Signer = "0123456789abcdef" }, want: []string{"key:"}},
		"another key counts": {args: []string{"--key", base64.StdEncoding.EncodeToString(stranger)}, want: []string{"key:"}},
		"another decision":   {change: func(e *wire.Evidence) { e.Decision = second.Decision }, want: []string{"signature:", "interaction:"}},
		"a signed decision with another's request": {change: func(e *wire.Evidence) { *e = second }, want: []string{"request: it is that of " + ref.String()}},
		"no decision": {change: func(e *wire.Evidence) { e.Decision = []byte(`{}`) }, want: []string{"signature:", "decision:"}},
	} {
		t.Run("tampered: "+name, func(t *testing.T) {
			e := whole
			if c.change != nil {
				c.change(&e)
			}
			out, err := json.Marshal(e)
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "tampered.json")
			require.NoError(t, os.WriteFile(file, out, 0o600))
			code, text, errs := run(verify, append([]string{file}, c.args...)...)
			require.Equal(t, 1, code, text+errs)
			var found []string
			for _, l := range strings.Split(text, "\n") {
				if rest, ok := strings.CutPrefix(l, "NOT VALID: "); ok {
					found = append(found, rest)
				}
			}
			require.Len(t, found, len(c.want), "%q", found)
			for i := range c.want {
				require.True(t, strings.HasPrefix(found[i], c.want[i]), "%q", found)
			}
			require.NotContains(t, text, "\nVALID")
		})
	}
	for text, content := range map[string]string{
		"not an exported decision": `{"v":1,"more":1}`, "duplicate": `{"v":1,"v":1}`, "unknown version": `{"v":2}`, "unexpected EOF": `{`,
	} {
		file := filepath.Join(t.TempDir(), "bad.json")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		code, _, errs := run(verify, file)
		require.Equal(t, 2, code)
		require.Contains(t, errs, text)
	}
	code, _, errs = run(verify, file, "--key", "x")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "not base64")
}
