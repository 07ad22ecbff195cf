package notify_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/cmd/banksman/internal/notify"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier"
)

func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = notify.Command(t.Context(), args, cli.Stdio{Out: &o, Err: &e})
	return code, o.String(), e.String()
}

func config(t *testing.T, url string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notify.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`channels:
  - {name: log, type: log}
  - {name: hook, type: webhook, url: "`+url+`", secrets: [whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0], allow_private: true}
recipients:
  - {name: ada, channels: [{channel: hook}]}
  - {name: bob, channels: [{channel: log}]}
routes:
  - {name: all, steps: [{to: ada}, {after: 1h, to: bob}, {after: 2h, to: bob}]}
`), 0o600))
	return file
}

func TestTestSaysWhatProvidersAnswered(t *testing.T) {
	t.Parallel()
	status := make(chan int, 2)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(<-status) }))
	t.Cleanup(hook.Close)
	file := config(t, hook.URL+"/PATHSECRET")
	status <- 204
	code, out, errs := run(t, "test", "--config", file)
	require.Equal(t, cli.ExitOK, code, errs)
	require.Regexp(t, `(?m)^ada/hook +taken: status 204$`, out)
	require.Regexp(t, `(?m)^bob/log +taken: logged$`, out)
	status <- 403
	code, out, errs = run(t, "test", "ada", "--config", file)
	require.Equal(t, cli.ExitError, code)
	require.Contains(t, out, "FAILED: POST "+hook.URL+": status 403")
	require.NotContains(t, out, "bob")
	require.Contains(t, errs, "not every message was taken")
	require.NotContains(t, out+errs, "PATHSECRET")
}

// A service that is asked first is tried as well, with all and by its name.
func TestTestSaysWhetherDecidersAreReached(t *testing.T) {
	t.Parallel()
	status := make(chan int, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(<-status) }))
	t.Cleanup(service.Close)
	file := filepath.Join(t.TempDir(), "notify.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`channels:
  - {name: log, type: log}
deciders:
  - {name: policy, url: "`+service.URL+`/PATHSECRET", secrets: [whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0], allow_private: true, token: TOKENSECRET}
recipients:
  - {name: bob, channels: [{channel: log}]}
routes:
  - {name: all, steps: [{ask: policy}, {to: bob}]}
`), 0o600))
	status <- 204
	code, out, errs := run(t, "test", "--config", file, "--data", t.TempDir())
	require.Equal(t, cli.ExitOK, code, errs)
	require.Regexp(t, `(?m)^bob/log +taken: logged$`, out)
	require.Regexp(t, `(?m)^policy +reachable: status 204$`, out)
	status <- 401
	code, out, errs = run(t, "test", "policy", "--config", file, "--data", t.TempDir())
	require.Equal(t, cli.ExitError, code)
	require.Regexp(t, `(?m)^policy +FAILED: POST `+service.URL+`: status 401$`, out)
	require.NotContains(t, out, "bob")
	require.NotContains(t, out+errs, "SECRET")
}

func TestNotifyRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	file := config(t, "http://127.0.0.1:1")
	for want, args := range map[string][]string{
		"test, explain ID, claim ID, dead":       {},
		"--config: missing":                      {"test", "--data", t.TempDir()},
		"leads nowhere by the name \"eve\"":      {"test", "eve", "--config", file},
		"--as: missing":                          {"claim", "x"},
		"--as: not the name":                     {"claim", "x", "--as", "a b"},
		"--for: must be more":                    {"claim", "x", "--as", "ada", "--for", "0s"},
		"no such file":                           {"explain", "x", "--data", t.TempDir()},
		"flag provided but not defined: -nosuch": {"test", "--nosuch"},
	} {
		code, _, errs := run(t, args...)
		require.Equal(t, cli.ExitError, code)
		require.Contains(t, errs, want)
	}
	code, _, errs := run(t, "--help")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, errs, "explain tells who was told")
}

// With a server, a notifier and a request: what was refused is sent again by hand;
// who was told, who looks after it, and what comes next.
func TestReplayExplainAndClaim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed, Owners: []natsd.Owner{{Name: "agents"}}}))
	srv, err := natsd.Start(t.Context(), natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	connect := func(role bus.Role) (*bus.Credentials, *nats.Conn) {
		cred, err := bus.LoadCredentials(natsd.CredentialsFile(dir, role, "", ""))
		require.NoError(t, err)
		auth, err := cred.Auth()
		require.NoError(t, err)
		nc, err := nats.Connect(cred.URLs[0], auth)
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		return cred, nc
	}
	_, provisioner := connect(bus.RoleProvisioner)
	require.NoError(t, journal.Provision(t.Context(), provisioner, journal.Config{}))
	_, gateway := connect(bus.RoleGateway)
	cred, _ := connect(bus.RoleNotifier)
	var status atomic.Int32
	status.Store(http.StatusBadRequest)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(hook.Close)
	cfg, err := notifier.LoadConfig(config(t, hook.URL))
	require.NoError(t, err)
	n, err := notifier.New(t.Context(), notifier.Options{Credentials: cred, Config: cfg})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- n.Run(t.Context()) }() // the test's context ends before its cleanups
	t.Cleanup(func() { require.NoError(t, <-done) })

	ref := subject.NewRef(bus.DefaultTenant, "agents", hitl.ID(bus.DefaultTenant, "agents", "k", 1))
	code, _, errs := run(t, "explain", ref.ID, "--data", dir)
	require.Equal(t, cli.ExitError, code)
	require.Contains(t, errs, "knows of no such request")
	body, err := hitl.Marshal(wire.Opened{V: 1, RequestSeq: 1, Summary: wire.Summary{
		RequestID: ref.ID, Key: ref.String(), Kind: hitl.KindApproval, SessionID: "s", Owner: "agents", ToolName: "Bash", Title: "t", CreatedAt: time.Now(),
	}})
	require.NoError(t, err)
	_, err = journal.New(gateway, journal.Options{}).WriteEvent(t.Context(), subject.Event(ref, "s", subject.Open), body)
	require.NoError(t, err)
	var out string
	require.Eventually(t, func() bool {
		_, out, _ = run(t, "dead", "--data", dir)
		return bytes.Contains([]byte(out), []byte("status 400"))
	}, time.Minute, 50*time.Millisecond)
	require.Regexp(t, ref.String()+` +step1 +ada/hook +failed +POST http://127.0.0.1:\d+: status 400`, out)
	// Where a step told nobody, the next people are told at once.
	require.Eventually(t, func() bool {
		_, out, _ = run(t, "explain", ref.ID, "--data", dir)
		return regexp.MustCompile(`step2 +bob/log +sent +the provider said logged`).MatchString(out)
	}, time.Minute, 50*time.Millisecond)
	code, _, errs = run(t, "replay", ref.ID, "bob/log", "--data", dir)
	require.Equal(t, cli.ExitError, code)
	require.Contains(t, errs, "no such message")
	status.Store(http.StatusAccepted)
	code, out, errs = run(t, "replay", ref.ID, "--data", dir)
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, out, "1 to be sent again")
	require.Eventually(t, func() bool {
		_, out, _ = run(t, "explain", ref.ID, "--data", dir)
		return bytes.Contains([]byte(out), []byte("status 202"))
	}, time.Minute, 50*time.Millisecond)
	_, dead, _ := run(t, "dead", "--data", dir)
	require.Contains(t, dead, "No message was given up")
	code, _, _ = run(t, "replay", "all", "--data", dir)
	require.Equal(t, cli.ExitError, code)
	require.Contains(t, out, "It waits. It follows the route all.")
	require.Regexp(t, `step1 +ada/hook +sent +the provider said status 202`, out)
	require.Regexp(t, `step3 +bob/log +planned`, out)

	code, out, errs = run(t, "claim", ref.ID, "--as", "ada", "--data", dir)
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, out, "ada looks after it until")
	code, _, errs = run(t, "claim", ref.String(), "--as", "bob", "--data", dir)
	require.Equal(t, cli.ExitError, code)
	require.Contains(t, errs, "ada looks after it until")
	_, out, _ = run(t, "explain", ref.ID, "--data", dir, "--json")
	require.Contains(t, out, `"by": "ada"`)
}
