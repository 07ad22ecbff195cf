package creds_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// run is "banksman creds" with a data directory.
func run(t *testing.T, dir string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code = creds.Command(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: &o, Err: &e, DataDir: dir})
	return code, o.String(), e.String()
}

func mustRun(t *testing.T, dir string, args ...string) (out string) {
	t.Helper()
	code, out, errs := run(t, dir, args...)
	require.Zero(t, code, errs)
	require.Empty(t, errs)
	return out
}

// tree reads every file below dir and requires that it is its owner's alone.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		require.Zero(t, info.Mode().Perm()&0o077, "%s is open to others", path)
		if d.IsDir() {
			return nil
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(raw)
		return err
	}))
	return all
}

func load(t *testing.T, dir, name string) *bus.Credentials {
	t.Helper()
	c, err := bus.LoadCredentials(filepath.Join(dir, "creds", name))
	require.NoError(t, err)
	return c
}

func TestCredsOfOneMachine(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data")
	out := mustRun(t, dir, "--port", "-1")
	require.Contains(t, out, natsd.ConfigFile(dir))
	require.Contains(t, out, filepath.Join(dir, "creds"))
	first := tree(t, dir)
	roles := map[string]bus.Role{
		"gateway.json": bus.RoleGateway, "notifier.json": bus.RoleNotifier, "provisioner.json": bus.RoleProvisioner,
		"owner-agents.json": bus.RoleOwner, "owner-cli.json": bus.RoleOwner,
	}
	for name, role := range roles {
		c := load(t, dir, name)
		require.Equal(t, role, c.Role)
		require.NotContains(t, out, c.Seed)
	}
	require.Len(t, tree(t, filepath.Join(dir, "creds")), len(roles))
	require.Contains(t, first["nats/server.conf"], "sync_interval: always")

	mustRun(t, dir)
	require.Equal(t, first, tree(t, dir), "once more changes nothing")

	// Others are added; what is there stays as it is, to the byte.
	mustRun(t, dir, "--owner", "ci", "--owner", "team/ci", "--caller", "bot", "--url", "nats://bus.example:4222")
	second := tree(t, dir)
	require.Equal(t, []string{"nats://bus.example:4222"}, load(t, dir, "owner-ci.json").URLs)
	require.Equal(t, "team", load(t, dir, "owner-team.ci.json").Tenant)
	require.Equal(t, bus.RoleCaller, load(t, dir, "caller-bot.json").Role)
	require.Equal(t, bus.RoleNotifier, load(t, dir, "notifier-team.json").Role)
	for name := range roles {
		require.Contains(t, first["creds/"+name], load(t, dir, name).Seed, "%s keeps its key", name)
	}
	mustRun(t, dir, "--durability", "relaxed", "--host", "127.0.0.1")
	third := tree(t, dir)
	require.NotContains(t, third["nats/server.conf"], "sync_interval: always")
	for name, text := range second {
		if name != "nats/server.conf" && name != "nats/plan.json" {
			require.Equal(t, text, third[name], name)
		}
	}

	code, _, errs := run(t, dir, "--help")
	require.Zero(t, code)
	require.Contains(t, errs, "--provision")
}

func TestCredsRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a dot":                  {[]string{"--owner", "a.b"}, 1, `owners[`},
		"a wildcard":             {[]string{"--caller", ">"}, 1, `not a token`},
		"a path":                 {[]string{"--owner", "../../x"}, 1, `not a token`},
		"a tenant that is none":  {[]string{"--owner", "a b/c"}, 1, `tenant`},
		"no name":                {[]string{"--owner", "team/"}, 1, `name`},
		"65 letters":             {[]string{"--owner", strings.Repeat("x", 65)}, 1, `not a token`},
		"the prefix of hashes":   {[]string{"--owner", "h_1"}, 1, `hashed names`},
		"the notifier's":         {[]string{"--caller", "notifier"}, 1, `notifier`},
		"twice":                  {[]string{"--owner", "ci", "--owner", "ci"}, 1, `already`},
		"owner and caller":       {[]string{"--owner", "ci", "--caller", "ci"}, 1, `already`},
		"the terminal's":         {[]string{"--caller", "cli"}, 1, `already`},
		"no port":                {[]string{"--port", "70000"}, 1, `70000`},
		"no durability":          {[]string{"--durability", "often"}, 1, `often`},
		"a line in the address":  {[]string{"--port", "4333", "--host", "127.0.0.1\nno_auth_user: x"}, 1, `control character`},
		"an address that is not": {[]string{"--url", "http://x"}, 1, `urls[0]`},
		"what nobody knows":      {[]string{"--owners", "x"}, 2, `owners`},
		"a word too much":        {[]string{"everything"}, 2, `everything`},
		"streams, and not made": {
			[]string{"--keep-days", "3650", "--stream-mib", "HITL_DECISIONS=9000", "--replicas", "3", "--restored"},
			2,
			`--provision is missing: without it --keep-days, --replicas, --restored, --stream-mib would do nothing`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			code, out, errs := run(t, dir, append([]string{"--port", "-1"}, c.args...)...)
			require.Equal(t, c.code, code)
			require.Contains(t, errs, c.want)
			require.Empty(t, out)
			require.NoFileExists(t, natsd.ConfigFile(dir))
			require.NoFileExists(t, natsd.AccountsFile(dir))
		})
	}
}

// What is in the way is named, and left as it is.
func TestCredsOnWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  []string
	}{
		"a credential others can read": {func(t *testing.T, dir string) {
			require.NoError(t, os.Chmod(filepath.Join(dir, "creds", "gateway.json"), 0o644))
		}, []string{"gateway.json", "0644", "chmod 600"}},
		"half a credential": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "creds", "owner-cli.json"), []byte(`{"v":1,`), 0o600))
		}, []string{"owner-cli.json", "not a credential file"}},
		"another's credential": {func(t *testing.T, dir string) {
			raw, err := os.ReadFile(filepath.Join(dir, "creds", "owner-cli.json"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "creds", "notifier.json"), raw, 0o600))
		}, []string{"notifier.json", "role", "owner"}},
		"a directory for a credential": {func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "creds", "owner-cli.json")))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "creds", "owner-cli.json"), 0o700))
		}, []string{"owner-cli.json", "not a regular file"}},
		"half a plan": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "nats", "plan.json"), []byte(`{`), 0o600))
		}, []string{"plan.json"}},
		"a file for the directory": {func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		}, []string{"data"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			mustRun(t, dir, "--port", "-1")
			accounts, err := os.ReadFile(natsd.AccountsFile(dir))
			require.NoError(t, err)
			seed := load(t, dir, "gateway.json").Seed
			c.spoil(t, dir)
			for _, args := range [][]string{{"--owner", "late"}, {"rotate", "owner-agents"}} {
				code, out, errs := run(t, dir, args...)
				require.NotZero(t, code)
				for _, part := range c.want {
					require.Contains(t, errs, part)
				}
				require.NotContains(t, out+errs, seed)
			}
			if now, err := os.ReadFile(natsd.AccountsFile(dir)); err == nil {
				require.Equal(t, string(accounts), string(now))
			}
		})
	}
}

// The streams are made with what was written, as often as one likes, and an
// owner that is added gets its pool.
func TestCredsProvisions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	mustRun(t, dir, "--port", "-1", "--durability", "relaxed")
	url := load(t, dir, "provisioner.json").URLs[0]
	code, _, errs := run(t, dir, "--provision")
	require.Equal(t, 1, code)
	require.Contains(t, errs, url, "nobody listens there yet")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	for range 2 {
		require.Contains(t, mustRun(t, dir, "--provision"), "ready")
	}
	require.Contains(t, mustRun(t, dir, "--owner", "team/ci", "--provision"), "ready")
	gw := load(t, dir, "gateway.json")
	auth, err := gw.Auth()
	require.NoError(t, err)
	closed := make(chan struct{})
	nc, err := nats.Connect(gw.URLs[0], auth, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(t, err)
	defer func() {
		nc.Close()
		<-closed
	}()
	require.NoError(t, journal.Check(ctx, nc, journal.Config{Tenants: []string{"default"}, Pools: []journal.Pool{
		{Tenant: "default", Pool: "agents"}, {Tenant: "team", Pool: "ci"},
	}}))
	m, err := nc.Request("$JS.API.CONSUMER.INFO."+journal.Work+"."+subject.WorkConsumer("team", "ci"), nil, patience)
	require.NoError(t, err)
	require.NotContains(t, string(m.Data), `"error"`)

	// Sizes and ages are chosen once, and stay when something else is provisioned.
	mustRun(t, dir, "--provision", "--keep-days", "400", "--stream-mib", "HITL_DECISIONS=9000")
	mustRun(t, dir, "--provision")
	m, err = nc.Request("$JS.API.STREAM.INFO."+journal.Decisions, nil, patience)
	require.NoError(t, err)
	require.Contains(t, string(m.Data), fmt.Sprintf(`"max_bytes":%d`, 9000<<20))
	require.Contains(t, string(m.Data), fmt.Sprintf(`"max_age":%d`, 400*24*time.Hour))
	require.Contains(t, string(m.Data), `"num_replicas":1`)
	for want, args := range map[string][]string{
		"HITL_NONE is none of": {"--stream-mib", "HITL_NONE=5"}, "for example": {"--stream-mib", "HITL_EVENTS"},
		"want STREAM=MIB": {"--stream-mib", "HITL_EVENTS=0"}, "--keep-days: want": {"--keep-days", "-1"},
		"want 0 to 36500": {"--keep-days", "200000"}, "--replicas: is negative": {"--replicas", "-1"},
	} {
		code, _, errs = run(t, dir, append(args, "--provision")...)
		require.NotZero(t, code, args)
		require.Contains(t, errs, want)
	}
	// Every stream and bucket that can be full can be made larger.
	for _, name := range journal.Refusing() {
		mustRun(t, dir, "--provision", "--stream-mib", name+"=3000")
		m, err = nc.Request("$JS.API.STREAM.INFO."+name, nil, patience)
		require.NoError(t, err)
		require.Contains(t, string(m.Data), fmt.Sprintf(`"max_bytes":%d`, 3000<<20), name)
	}

	require.NoError(t, os.Rename(filepath.Join(dir, "creds", "provisioner.json"), filepath.Join(t.TempDir(), "safe.json")))
	code, _, errs = run(t, dir, "--provision")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "provisioner.json")
}

// An owner that was added while no server ran has its pool as soon as the streams are
// made, and so have all of them after the streams came back from nothing.
func TestProvisionMakesThePoolsOfThePlan(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	mustRun(t, dir, "--port", "-1", "--owner", "ci", "--caller", "other/bot")
	mustRun(t, dir, "--owner", "team/ci")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	mustRun(t, dir, "--provision")
	gw := load(t, dir, "gateway.json")
	auth, err := gw.Auth()
	require.NoError(t, err)
	closed := make(chan struct{})
	nc, err := nats.Connect(gw.URLs[0], auth, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(t, err)
	defer func() {
		nc.Close()
		<-closed
	}()
	require.NoError(t, journal.Check(ctx, nc, journal.Config{Tenants: []string{"other"}, Pools: []journal.Pool{
		{Tenant: "default", Pool: "agents"}, {Tenant: "default", Pool: "ci"}, {Tenant: "team", Pool: "ci"},
	}}))
}

func TestRotateCommand(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "none")
	code, _, errs := run(t, empty, "rotate", "decision-key")
	require.Equal(t, 2, code)
	require.Contains(t, errs, empty)
	require.NoDirExists(t, empty)

	dir := filepath.Join(t.TempDir(), "data")
	mustRun(t, dir, "--port", "-1", "--owner", "team/ci")
	before := tree(t, dir)
	for want, args := range map[string][]string{
		"one thing":       {},
		"one  thing":      {"gateway", "notifier"},
		"different steps": {"decision-key", "--announce", "--drop-old"},
		"--announce is":   {"gateway", "--announce"},
		"no old key":      {"gateway", "--drop-old"},
		"no  old key":     {"--drop-old", "decision-key"},
		"no such owner":   {"owner-nobody"},
		"no  such owner":  {"../creds/gateway"},
		"not defined":     {"gateway", "--now"},
	} {
		code, out, errs := run(t, dir, append([]string{"rotate"}, args...)...)
		require.Equal(t, 2, code, args)
		require.Contains(t, errs, strings.Replace(want, "  ", " ", 1), "%q", args)
		require.Empty(t, out)
	}
	require.Equal(t, before, tree(t, dir), "a refusal changes nothing")
	code, _, errs = run(t, dir, "rotate", "--help")
	require.Zero(t, code)
	require.Contains(t, errs, "decision-key")

	// Each step tells which key counts for what, and what is to be done next.
	old := load(t, dir, "gateway.json")
	silent := func(out string) {
		t.Helper()
		gw := load(t, dir, "gateway.json")
		for _, secret := range []string{gw.Seed, gw.SigningKey, gw.NextSigningKey, old.Seed, old.SigningKey, load(t, dir, "owner-team.ci.json").Seed} {
			if secret != "" {
				require.NotContains(t, out, secret)
			}
		}
	}
	keyLine := func(out, id, says string) {
		t.Helper()
		require.Regexp(t, "(?m)^"+id+"  [A-Za-z0-9+/]{43}=  "+says+"$", out)
		silent(out)
	}
	out := mustRun(t, dir, "rotate", "decision-key", "--announce")
	next := load(t, dir, "gateway.json").NextKeyID()
	keyLine(out, old.SigningKeyID, "signs")
	keyLine(out, next, "accepted, will sign next")
	require.Contains(t, out, "banksman creds rotate decision-key\n")
	out = mustRun(t, dir, "rotate", "decision-key")
	keyLine(out, next, "signs")
	keyLine(out, old.SigningKeyID, "accepted, no longer signs")
	require.Contains(t, out, "--drop-old")
	out = mustRun(t, dir, "rotate", "--drop-old", "decision-key")
	keyLine(out, next, "signs")
	keyLine(out, old.SigningKeyID, "dropped")
	require.Contains(t, out, "banksman verify --key")

	out = mustRun(t, dir, "rotate", "owner-team.ci")
	silent(out)
	require.Contains(t, out, filepath.Join(dir, "creds", "owner-team.ci.json"))
	require.Contains(t, out, "banksman creds rotate owner-team.ci --drop-old\n")
	require.NotContains(t, before["creds/owner-team.ci.json"], load(t, dir, "owner-team.ci.json").Seed)
	require.Contains(t, mustRun(t, dir, "rotate", "owner-team.ci", "--drop-old"), "no longer counts")
	tree(t, dir) // and every file is private still
}

// While an owner floods the server it is cut off: its connection ends, no other one is
// made, and everybody else goes on. It can be let in again, with another key.
func TestRevokeCutsOffAnOwner(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	mustRun(t, dir, "--port", "-1", "--owner", "ci", "--owner", "team/ci")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	require.Contains(t, mustRun(t, dir, "--provision"), "ready")
	connect := func(c *bus.Credentials) (nc *nats.Conn, ended chan struct{}, err error) {
		auth, err := c.Auth()
		require.NoError(t, err)
		ended = make(chan struct{})
		nc, err = nats.Connect(c.URLs[0], auth, nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(ended) }))
		return nc, ended, err
	}
	revoked := load(t, dir, "owner-ci.json")
	evil, cut, err := connect(revoked)
	require.NoError(t, err)
	began, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for i := 0; ; i++ {
			if i == 100 {
				close(began)
			}
			if evil.Publish(fmt.Sprintf("hitl.box.default.ci.x%d.req", i), []byte("{}")) != nil {
				return
			}
		}
	}()
	others := map[string]*nats.Conn{}
	for _, name := range []string{"owner-agents", "owner-team.ci"} {
		nc, ended, err := connect(load(t, dir, name+".json"))
		require.NoError(t, err)
		defer func() {
			nc.Close()
			<-ended
		}()
		others[name] = nc
	}
	<-began
	before := tree(t, dir)
	out := mustRun(t, dir, "revoke", "owner-ci")
	require.Contains(t, out, "owner-ci: revoked")
	require.NotContains(t, out, revoked.Seed)
	require.NoError(t, srv.Reload())
	select {
	case <-cut:
	case <-ctx.Done():
		t.Fatal("it is connected still")
	}
	<-over
	_, _, err = connect(revoked)
	require.ErrorIs(t, err, nats.ErrAuthorization)
	for name, nc := range others {
		subj := "hitl.box." + map[string]string{"owner-agents": "default.agents", "owner-team.ci": "team.ci"}[name] + ".mine.req"
		require.Eventually(t, func() bool { // its turn comes behind what was taken in
			m, err := nc.Request(subj, []byte("{}"), patience)
			return err == nil && !strings.Contains(string(m.Data), `"err_code":10167`)
		}, patience, time.Millisecond, name)
	}
	after := tree(t, filepath.Join(dir, "creds"))
	require.NotContains(t, after, "owner-ci.json")
	for name, text := range after {
		require.Equal(t, before["creds/"+name], text, name)
	}

	// To name a part of the product, or nobody, changes nothing.
	for want, args := range map[string][]string{
		"part of the product": {"gateway"}, "part of the  product": {"notifier"}, "no such owner": {"owner-ci"},
		"one owner or caller": {}, "one owner or  caller": {"owner-cli", "owner-agents"}, "not defined": {"--now", "owner-cli"},
	} {
		code, out, errs := run(t, dir, append([]string{"revoke"}, args...)...)
		require.Equal(t, 2, code, args)
		require.Contains(t, errs, strings.Replace(want, "  ", " ", 1), "%q", args)
		require.Empty(t, out)
	}
	require.Equal(t, after, tree(t, filepath.Join(dir, "creds")))
	empty := filepath.Join(t.TempDir(), "none")
	code, _, errs := run(t, empty, "revoke", "owner-ci")
	require.Equal(t, 2, code)
	require.Contains(t, errs, empty)
	require.NoDirExists(t, empty)
	code, _, errs = run(t, dir, "revoke", "--help")
	require.Zero(t, code)
	require.Contains(t, errs, "owner-ci")

	mustRun(t, dir, "--owner", "ci")
	require.NoError(t, srv.Reload())
	again := load(t, dir, "owner-ci.json")
	require.NotEqual(t, revoked.Seed, again.Seed)
	_, _, err = connect(revoked)
	require.ErrorIs(t, err, nats.ErrAuthorization)
	nc, ended, err := connect(again)
	require.NoError(t, err)
	nc.Close()
	<-ended
}
