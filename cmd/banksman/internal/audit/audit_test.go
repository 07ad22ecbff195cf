package audit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/shown"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

const patience = 30 * time.Second

// record is an installation with some decisions, and its data directory.
func record(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed, Owners: []natsd.Owner{{Name: "cli", Caller: true}},
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	require.NoError(t, journal.Provision(ctx, connect(t, dir, bus.RoleProvisioner), journal.Config{}))
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(dir, bus.RoleGateway, "", ""))
	require.NoError(t, err)
	_, key, err := cred.Signer()
	require.NoError(t, err)
	j := journal.New(connect(t, dir, bus.RoleGateway), journal.Options{Signer: journal.NewSigner(key)})
	for i := range n {
		r := &hitl.Request{
			V: 1, Key: fmt.Sprint(i), Kind: hitl.KindApproval, Tenant: "default", Owner: "cli", SessionID: "s", Title: "t",
			Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"make"}`)},
		}
		r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
		raw, err := hitl.Marshal(r)
		require.NoError(t, err)
		c := &hitl.Card{V: shown.Version, Headline: "cli wants to run make", Risk: "medium", RiskReason: "runs a command", Named: true}
		if i%2 == 1 { // as versions recorded that kept no card
			c = nil
		}
		_, won, err := j.Decide(ctx, subject.NewRef(r.Tenant, r.Owner, r.ID), &hitl.Decision{
			V: 1, DecisionID: "d-" + r.ID, InteractionID: r.ID, Digest: hitl.Digest(raw), Content: hitl.Content{Outcome: hitl.Allowed},
			Principal: hitl.Principal{Kind: "person", ID: "ada"}, Channel: "web", Shown: shown.Digest(r, c), Card: c,
			DecidedAt: time.Now().UTC(), RequestSeq: uint64(i + 1), RequestedAt: time.Now().UTC(),
			RequestB64: base64.StdEncoding.EncodeToString(raw),
		})
		require.NoError(t, err)
		require.True(t, won)
	}
	return dir
}

func connect(t *testing.T, dir string, role bus.Role) *nats.Conn {
	t.Helper()
	cred, err := bus.LoadCredentials(natsd.CredentialsFile(dir, role, "", ""))
	require.NoError(t, err)
	option, err := cred.Auth()
	require.NoError(t, err)
	nc, err := nats.Connect(cred.URLs[0], option)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// run runs banksman audit.
func run(t *testing.T, dir string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code = Command(ctx, args, cli.Stdio{Out: &o, Err: &e, DataDir: dir})
	return code, o.String(), e.String()
}

// chain links lines anew, as somebody would who knows the format.
func chain(lines []string) []string {
	prev := first
	var out []string
	for i, l := range lines {
		l = regexp.MustCompile(`"n":\d+,"prev":"[0-9a-f]{64}"`).ReplaceAllString(l, fmt.Sprintf(`"n":%d,"prev":"%s"`, i, prev))
		prev = digest([]byte(l))
		out = append(out, l)
	}
	return out
}

func TestAuditExportAndVerify(t *testing.T) {
	t.Parallel()
	dir := record(t, 5)
	code, file, told := run(t, dir, "export")
	require.Equal(t, cli.ExitOK, code, told)
	last := regexp.MustCompile(`--head ([0-9a-f]{64})`).FindStringSubmatch(told)
	require.Len(t, last, 2, told)
	lines := strings.Split(strings.TrimSuffix(file, "\n"), "\n")
	require.Len(t, lines, 7)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	check := func(t *testing.T, text string, args ...string) (int, string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		code, out, errs := run(t, dir, append([]string{"verify", path}, args...)...)
		return code, out + errs
	}
	code, out := check(t, file, "--head", last[1])
	require.Equal(t, cli.ExitOK, code, out)
	require.Contains(t, out, "decisions  5")
	require.Contains(t, out, "VALID")
	require.NotContains(t, out, "other words")

	// What was shown of one, with what the gateway said; of an old one that it was not kept.
	var d hitl.Decision
	var kept, old string
	for _, l := range lines[1:6] {
		var one struct {
			Decision wire.Evidence `json:"decision"`
		}
		require.NoError(t, json.Unmarshal([]byte(l), &one))
		require.NoError(t, json.Unmarshal(one.Decision.Decision, &d))
		if d.Card != nil {
			kept = d.InteractionID
		} else {
			old = d.InteractionID
		}
		d = hitl.Decision{}
	}
	code, out = check(t, file, "--show", kept)
	require.Equal(t, cli.ExitOK, code, out)
	require.Contains(t, out, "headline   cli wants to run make\n")
	require.Contains(t, out, "risk       medium: runs a command\n")
	require.Regexp(t, `shown      [0-9a-f]{64} \(with these words\)`, out)
	code, out = check(t, file, "--show", old)
	require.Equal(t, cli.ExitOK, code, out)
	require.Contains(t, out, "were not kept by that version")
	require.NotContains(t, out, "headline   ")

	text := func(lines []string) string { return strings.Join(lines, "\n") + "\n" }
	without := func(i int) []string { return append(append([]string{}, lines[:i]...), lines[i+1:]...) }
	edited := append([]string{}, lines...)
	edited[3] = strings.Replace(edited[3], `"signer":"`, `"signer":"x`, 1)
	// A byte of the decision itself.
	forged := append([]string{}, lines...)
	at := strings.Index(forged[3], `"decision_b64":"`) + 40
	forged[3] = forged[3][:at] + string('A'+('z'-forged[3][at])%20) + forged[3][at+1:]
	swapped := append([]string{}, lines...)
	swapped[2], swapped[3] = swapped[3], swapped[2]
	for name, c := range map[string]struct{ file, says string }{
		"a line left out":                    {text(without(3)), "does not follow"},
		"left out and linked anew":           {text(chain(without(3))), "of the record are missing"},
		"the last decision left out, linked": {text(chain(without(5))), "it says 5 decisions, there are 4"},
		"a line changed":                     {text(edited), "does not follow"},
		"a line changed and linked anew":     {text(chain(edited)), "none of the keys"},
		"a decision changed, linked anew":    {text(chain(forged)), "signature"},
		"two lines swapped":                  {text(swapped), "does not follow"},
		"swapped and linked anew":            {text(chain(swapped)), "does not follow"},
		"no end":                             {text(lines[:6]), "end: it is missing"},
		"more after the end":                 {text(chain(append(append([]string{}, lines...), lines[3]))), "after the end"},
		"a line twice":                       {text(chain(append(append(append([]string{}, lines[:4]...), lines[3]), lines[4:]...))), "does not follow"},
		"not JSON":                           {text(append(append([]string{}, lines[:3]...), "x")), "line 4"},
		"an unknown field":                   {text(chain(append([]string{strings.Replace(lines[0], `{"n"`, `{"more":1,"n"`, 1)}, lines[1:]...))), "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			path = filepath.Join(t.TempDir(), "audit.jsonl")
			code, out := check(t, c.file)
			require.NotEqual(t, cli.ExitOK, code, out)
			require.Contains(t, out, c.says)
			require.NotContains(t, strings.ReplaceAll(out, "NOT VALID", ""), "VALID")
		})
	}
	t.Run("another whole file", func(t *testing.T) {
		path = filepath.Join(t.TempDir(), "audit.jsonl")
		code, out := check(t, file, "--head", strings.Repeat("a", 64))
		require.Equal(t, cli.ExitDenied, code)
		require.Contains(t, out, "head: ")
	})
	t.Run("cut in a line", func(t *testing.T) {
		path = filepath.Join(t.TempDir(), "audit.jsonl")
		code, out := check(t, file[:len(file)-10])
		require.Equal(t, cli.ExitError, code, out)
		require.Contains(t, out, "has no end")
	})
	t.Run("some time of it", func(t *testing.T) {
		path = filepath.Join(t.TempDir(), "audit.jsonl")
		code, part, errs := run(t, dir, "export", "--since", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		require.Equal(t, cli.ExitOK, code, errs)
		require.Contains(t, errs, "0 decisions")
		code, out := check(t, part)
		require.Equal(t, cli.ExitOK, code, out)
		code, _, errs = run(t, dir, "export", "--since", "2026-01-02", "--until", "2026-01-01")
		require.Equal(t, cli.ExitError, code)
		require.Contains(t, errs, "--since")
	})
}
