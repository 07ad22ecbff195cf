package observe

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// Files that are damaged, or not there, are named.
func TestDoctorOfDamagedFiles(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	missing := filepath.Join(t.TempDir(), "missing")
	tm.finds("files", missing, "name the right file", "--notify", missing)
	tm.finds("files", missing, "name the right file", "--claude-key-file", missing)

	damage := func(file, content, problem, fix string) {
		t.Helper()
		was, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		tm.finds("files", problem, fix)
		require.NoError(t, os.WriteFile(file, was, 0o600))
	}
	plan := filepath.Join(tm.data, "nats", "plan.json")
	damage(plan, "{", plan+" cannot be read", "put back a copy")
	for _, name := range []string{"gateway.json", "owner-cli.json"} {
		damage(tm.creds(name), `{"v":1}`, name, "put back a copy of it, or remove it and run banksman creds")
		damage(tm.creds(name), `{"v":9}`, "version 9", "put back a copy of it, or remove it and run banksman creds")
	}
	// A seed that is cut off is no key, and stays out of what is said.
	raw, err := os.ReadFile(tm.creds("gateway.json"))
	require.NoError(t, err)
	seed := regexp.MustCompile(`"seed": ?"(\w+)"`).FindStringSubmatch(string(raw))
	require.NotNil(t, seed)
	damage(tm.creds("gateway.json"), strings.Replace(string(raw), seed[1], seed[1][:40], 1), "seed", "put back a copy of it")
	out, _ := tm.run("doctor", "--data", tm.data)
	require.NotContains(t, out, seed[1][:40])
}

// What doctor says of a full stream or bucket, or of a pool that is missing, mends it.
func TestDoctorsFixesOfStreamsMendThem(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	js := tm.provisioner()
	for name, subject := range map[string]string{"HITL_MAILBOX": "hitl.box.default.cli.id.req", "KV_hitl_push": "$KV.hitl_push.ada"} {
		_, err := js.Publish(t.Context(), subject, make([]byte, 10_000))
		require.NoError(t, err)
		tm.alter(name, func(c *jetstream.StreamConfig) { c.MaxBytes = 11_000 })
		tm.finds("store", name+" is 9", "--stream-mib "+name+"=MIB")
		tm.mends("store", "--stream-mib", name+"=2")
	}
	out, code := tm.run("creds", "--data", tm.data, "--owner", "ci", "--owner", "team/ci")
	require.Zero(t, code, out)
	tm.finds("streams", "consumer team-ci of HITL_WORK is missing", "banksman creds --provision")
	tm.mends("streams")
}

// A chat in which no button works is told. Slack is a double: it cannot run here.
func TestDoctorOfARefusedSocket(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	slack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/auth.test" {
			_, _ = w.Write([]byte(`{"ok":true,"team_id":"T1"}`))
			return
		}
		_, _ = w.Write([]byte(`{"ok":false,"error":"token_revoked"}`))
	}))
	t.Cleanup(slack.Close)
	config := filepath.Join(t.TempDir(), "notify.yaml")
	require.NoError(t, os.WriteFile(config, []byte(`channels: [{name: chat, type: slack, token: xoxb-1, app_token: xapp-1-APPSECRET, to: C0123ABCD,
  allow_private: true, people: [{account: U1, user: ada}], url: "`+slack.URL+`"}]`), 0o600))
	n := tm.notifier(config)
	n.shows(`banksman_notifier_sockets{state="refused"}`, 1)
	tm.finds("channels", "does not take the token of the app", "a new app_token", "--status", n.status)
	out, _ := tm.run("doctor", "--data", tm.data, "--notify", config, "--status", n.status)
	require.NotContains(t, out, "APPSECRET")
}

// mends runs the fix, after which doctor has nothing to say of it.
func (tm *team) mends(check string, flags ...string) {
	tm.t.Helper()
	out, code := tm.run(append([]string{"creds", "--data", tm.data, "--provision"}, flags...)...)
	require.Zero(tm.t, code, out)
	_, found := tm.doctor()
	for _, f := range found {
		require.NotEqual(tm.t, check, f.Check, "%+v", f)
	}
}

// With the command line's credential alone: whether a gateway answers, and the agent's
// program, which has nobody's login and no key.
func TestDoctorOfAPersonsMachine(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	require.NoError(t, os.Remove(tm.creds("gateway.json")))
	tm.finds("gateway", "no gateway answers", "start one: banksman up, or banksman-gateway")
	claude := filepath.Join(t.TempDir(), "claude")
	require.NoError(t, os.WriteFile(claude, []byte("#!/bin/sh\n"), 0o755))
	tm.finds("agent CLI", claude+" has neither a login nor a key", "run claude once and sign in", "--claude", claude)
	_, found := tm.doctor()
	for _, f := range found {
		require.Equal(t, f.Check == "agent CLI", f.Note, "a team's workers run elsewhere: %+v", f)
	}
}

// An address that cannot be meant, and one of something else, are told with what to
// give in their place.
func TestDoctorOfWrongAddresses(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	g := tm.gateway()
	for _, url := range []string{"banksman.example", "ftp://banksman.example", "https://", "http://a b"} {
		tm.finds("address", "is no address of a gateway", "https://host[:port]", "--url", url)
	}
	dir := t.TempDir()
	missing, empty := filepath.Join(dir, "missing.pem"), filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("no certificate"), 0o600))
	tm.finds("certificate", missing, "certificates in PEM", "--url", g.url, "--ca", missing)
	tm.finds("certificate", empty+" has no certificate", "certificates in PEM", "--url", g.url, "--ca", empty)
	// The address of people is not that of -status.
	tm.finds("status", g.url+"/metrics has nothing of a service", "-status", "--status", g.url)
	tm.nats.kill()
	g.shows(`banksman_ready{part="gateway"}`, 0)
	tm.finds("status", "says: not ready: not connected to NATS", "ready again by itself", "--status", g.status)
}

// Accounts of another version on the server, which lack what a gateway needs.
func TestDoctorOfAGatewayWithoutItsRights(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	without := func(subject string) {
		tm.withServer(func(s, a string) (string, string) {
			return s, regexp.MustCompile(`(?m)^\s*"?`+regexp.QuoteMeta(subject)+`"?,?\n`).ReplaceAllString(a, "")
		})
	}
	without("$JS.API.INFO")
	tm.finds("permissions", "does not let a gateway use its streams", "banksman creds")
	without("$JS.API.STREAM.INFO.*")
	tm.finds("streams", `the streams cannot be read: nats: permissions violation: Permissions Violation for Publish to "$JS.API.STREAM.INFO.`, "banksman creds")
}

// A server of a cluster that is alone answers clients and stores nothing.
func TestDoctorOfAServerWithoutItsCluster(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	tm.withServer(func(s, a string) (string, string) {
		return s + fmt.Sprintf(`
server_name: alone
cluster { name: banksman, listen: "127.0.0.1:%d", routes: ["nats://127.0.0.1:%d", "nats://127.0.0.1:%d"] }
`, freePort(t), freePort(t), freePort(t)), a
	})
	tm.finds("streams", "as one of a cluster whose majority is away", "start its other servers")
	tm.nats.line("JetStream cluster.* no .*leader|JetStream is not yet|no metadata leader|Waiting for routing")
	require.Eventually(t, func() bool { // it answers so from some seconds on
		_, found := tm.doctor()
		for _, f := range found {
			if f.Check == "streams" && strings.Contains(f.Problem, "10008") {
				return true
			}
		}
		return false
	}, patience, time.Second)
	tm.finds("streams", "as one of a cluster whose majority is away", "start its other servers")
}

// A clock that is another one than the server's is told, and which way: this machine's,
// and a gateway's, which one can be on another machine.
func TestDoctorOfClocksThatDiffer(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	server := fmt.Sprint("127.0.0.1:", tm.port)
	slow, fast := otherTime(t, server, -90*time.Second), otherTime(t, server, 90*time.Second)
	tm.finds("clock", "ahead of the NATS server's", "time service", "--nats", slow)
	tm.finds("clock", "behind the NATS server's", "time service", "--nats", fast)
	// Two seconds less what the question takes: the gateway is ready still.
	raw, err := os.ReadFile(tm.creds("gateway.json"))
	require.NoError(t, err)
	moved := filepath.Join(t.TempDir(), "gateway.json")
	text := strings.ReplaceAll(string(raw), server, otherTime(t, server, -2*time.Second))
	require.NotEqual(t, string(raw), text)
	require.NoError(t, os.WriteFile(moved, []byte(text), 0o600))
	g := tm.gateway("--creds", moved)
	require.Eventually(t, func() bool { return g.scrape()["banksman_clock_offset_seconds"] > 1 }, patience, tick)
	tm.finds("clock", "the clock of the gateway at "+g.status+" is ", "time service", "--status", g.status)
}

// otherTime passes a server on and moves the time that it says by whole seconds. It stands for
// a server on a machine with another clock: no process can be given a clock of its own
// here.
func otherTime(t *testing.T, server string, by time.Duration) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				_ = in.Close()
				continue
			}
			end := func() { _, _ = in.Close(), out.Close() } // what is closed already is fine
			all.Go(func() {
				defer end()
				_, _ = io.Copy(out, in)
			})
			all.Go(func() {
				defer end()
				lines := bufio.NewReader(out)
				for {
					line, err := lines.ReadBytes('\n')
					if _, gone := in.Write(move(line, by)); err != nil || gone != nil {
						return
					}
				}
			})
		}
	})
	return l.Addr().String()
}

var told = regexp.MustCompile(`"ts":"([^".]+)(\.\d+)?Z"`)

// move keeps the length of a line: the protocol says it before.
func move(line []byte, by time.Duration) []byte {
	return told.ReplaceAllFunc(line, func(ts []byte) []byte {
		m := told.FindSubmatch(ts)
		at, err := time.Parse("2006-01-02T15:04:05", string(m[1]))
		if err != nil {
			return ts
		}
		return fmt.Appendf(nil, `"ts":"%s%sZ"`, at.Add(by).Format("2006-01-02T15:04:05"), m[2])
	})
}
