package natsd_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/natsd"
)

// files reads everything below dir.
func files(t *testing.T, dir string) map[string]string {
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
		if path != dir { // the test's own
			require.Zero(t, info.Mode().Perm()&0o077, "%s is open to others", path)
		}
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

func TestWriteKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	plan := natsd.Plan{
		Dir: dir, Port: natsd.RandomPort,
		Owners: []natsd.Owner{{Name: "agents", Pool: true}, {Name: "cli", Caller: true}},
	}
	require.NoError(t, natsd.Write(plan))
	first := files(t, dir)
	for _, name := range []string{
		"nats/server.conf", "nats/accounts.conf", "nats/plan.json",
		"creds/gateway.json", "creds/notifier.json", "creds/provisioner.json", "creds/owner-agents.json", "creds/owner-cli.json",
	} {
		require.Contains(t, first, name)
	}
	require.Contains(t, first["nats/server.conf"], "sync_interval: always")
	require.NotContains(t, first["nats/server.conf"], "port: 4222\n")

	require.NoError(t, natsd.Write(plan))
	require.Equal(t, first, files(t, dir), "the same plan again changes nothing")
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir}))
	require.Equal(t, first, files(t, dir), "an empty plan keeps everything")

	require.NoError(t, natsd.AddOwner(dir, natsd.Owner{Name: "late"}))
	second := files(t, dir)
	for name, text := range first {
		if strings.HasPrefix(name, "creds/") || name == "nats/server.conf" {
			require.Equal(t, text, second[name], name)
		}
	}
	added, err := bus.LoadCredentials(natsd.CredentialsFile(dir, bus.RoleOwner, bus.DefaultTenant, "late"))
	require.NoError(t, err)
	key, err := added.PublicNKey()
	require.NoError(t, err)
	require.Contains(t, second["nats/accounts.conf"], key)
	// Every line that is new speaks of the added owner or its account.
	old := map[string]bool{}
	for line := range strings.Lines(first["nats/accounts.conf"]) {
		old[line] = true
	}
	for line := range strings.Lines(second["nats/accounts.conf"]) {
		delete(old, line)
	}
	require.Empty(t, old, "nobody loses a line")

	require.ErrorIs(t, natsd.Remove(dir, "", "nobody"), natsd.ErrUnknownIdentity)
	require.NoError(t, natsd.Remove(dir, "", "late"))
	require.Equal(t, first, files(t, dir))
}

func TestWriteSharesDecisionKeysAndKeepsThemApartFromOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(testPlan(dir)))
	gw, err := bus.LoadCredentials(natsd.CredentialsFile(dir, bus.RoleGateway, "", ""))
	require.NoError(t, err)
	_, secret, err := gw.Signer()
	require.NoError(t, err)
	require.NotEmpty(t, secret)
	seen := map[string]string{}
	for name, text := range files(t, filepath.Join(dir, "creds")) {
		c, err := bus.LoadCredentials(filepath.Join(dir, "creds", name))
		require.NoError(t, err)
		require.Equal(t, gw.DecisionKeys, c.DecisionKeys, name)
		if name != "gateway.json" {
			require.NotContains(t, text, gw.SigningKey)
		}
		require.Empty(t, seen[c.Seed], "%s shares a key with %s", name, seen[c.Seed])
		seen[c.Seed] = name
	}
	require.Len(t, seen, 8)
	var plan struct{ Seal string }
	nats := files(t, filepath.Join(dir, "nats"))
	require.NoError(t, json.Unmarshal([]byte(nats["plan.json"]), &plan))
	require.Greater(t, len(plan.Seal), 26)
	require.Contains(t, nats["accounts.conf"], plan.Seal)
	for name, text := range files(t, filepath.Join(dir, "creds")) {
		require.NotContains(t, text, plan.Seal, name)
	}
	for name, text := range nats {
		for seed := range seen {
			require.NotContains(t, text, seed, name)
		}
	}
}

func TestWriteDoesNotReplaceAMovedCredential(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(testPlan(dir)))
	before := files(t, dir)
	moved := filepath.Join("creds", "owner-t.pool.json")
	require.NoError(t, os.Remove(filepath.Join(dir, moved)))
	require.NoError(t, natsd.Write(testPlan(dir)))
	delete(before, moved)
	require.Equal(t, before, files(t, dir))
}

func TestWriteRefusesAndNamesTheField(t *testing.T) {
	t.Parallel()
	owner := func(o natsd.Owner) func(*natsd.Plan) { return func(p *natsd.Plan) { p.Owners = []natsd.Owner{o} } }
	for name, c := range map[string]struct {
		change      func(*natsd.Plan)
		field, want string
	}{
		"owner name":          {owner(natsd.Owner{Name: "a.b"}), "owners[0].name", "not a token"},
		"empty owner name":    {owner(natsd.Owner{}), "owners[0].name", "not a token"},
		"long owner name":     {owner(natsd.Owner{Name: strings.Repeat("x", 65)}), "owners[0].name", "not a token"},
		"wildcard":            {owner(natsd.Owner{Name: "*"}), "owners[0].name", "not a token"},
		"hash prefix":         {owner(natsd.Owner{Name: "h_x"}), "owners[0].name", "hashed names"},
		"owner tenant":        {owner(natsd.Owner{Tenant: "a b", Name: "x"}), "tenant", "not a token"},
		"reserved name":       {owner(natsd.Owner{Name: "notifier"}), "owners[0].name", "notifier"},
		"caller name":         {func(p *natsd.Plan) { p.Callers = []natsd.Caller{{Name: ">"}} }, "callers[0].name", "not a token"},
		"owner and caller":    {func(p *natsd.Plan) { p.Owners = []natsd.Owner{{Name: "x"}}; p.Callers = []natsd.Caller{{Name: "x"}} }, "callers[0].name", "caller: true"},
		"twice":               {func(p *natsd.Plan) { p.Owners = []natsd.Owner{{Name: "x"}, {Name: "x"}} }, "owners[1].name", "already"},
		"tenant":              {func(p *natsd.Plan) { p.Tenants = []string{"a/b"} }, "tenants[0]", "not a token"},
		"durability":          {func(p *natsd.Plan) { p.Durability = "maybe" }, "durability", "maybe"},
		"port":                {func(p *natsd.Plan) { p.Port = 70000 }, "port", "70000"},
		"line in host":        {func(p *natsd.Plan) { p.Host = "127.0.0.1\nno_auth_user: x"; p.Port = 1 }, "host", "control character"},
		"cluster name":        {func(p *natsd.Plan) { p.Cluster = &natsd.Cluster{ServerName: "a", Port: 1} }, "cluster.name", "not a token"},
		"cluster server name": {func(p *natsd.Plan) { p.Cluster = &natsd.Cluster{Name: "c", Port: 1} }, "cluster.server_name", "not a token"},
		"cluster port":        {func(p *natsd.Plan) { p.Cluster = &natsd.Cluster{Name: "c", ServerName: "a"} }, "cluster.port", "not a port"},
		"open cluster":        {func(p *natsd.Plan) { p.Cluster = &natsd.Cluster{Name: "c", ServerName: "a", Port: 1, Host: "10.0.0.1"} }, "cluster.password", "missing"},
		"no directory":        {func(p *natsd.Plan) { p.Dir = "" }, "dir", "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := natsd.Plan{Dir: filepath.Join(t.TempDir(), "data"), Port: natsd.RandomPort}
			dir := plan.Dir
			c.change(&plan)
			err := natsd.Write(plan)
			var fe *natsd.FieldError
			require.ErrorAs(t, err, &fe)
			require.Contains(t, fe.Field, c.field)
			require.Contains(t, fe.Problem, c.want)
			require.NoFileExists(t, natsd.ConfigFile(dir))
		})
	}
}

func TestWriteSurvivesAwkwardPathsAndOtherSettings(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), `it's "$HOME" \ 100%`)
	plan := natsd.Plan{
		Dir: dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed,
		URLs: []string{"nats://bus.example:4222"}, Owners: []natsd.Owner{{Name: "agents"}}, MaxStore: 1 << 30,
	}
	require.NoError(t, natsd.Write(plan))
	start(t, dir)
	require.DirExists(t, filepath.Join(dir, "nats", "store", "jetstream"))
	opts, err := server.ProcessConfigFile(natsd.ConfigFile(dir))
	require.NoError(t, err)
	require.EqualValues(t, natsd.MaxPayload, opts.MaxPayload)
	require.EqualValues(t, 1<<30, opts.JetStreamMaxStore)
	require.False(t, opts.SyncAlways)
	c, err := bus.LoadCredentials(natsd.CredentialsFile(dir, bus.RoleOwner, bus.DefaultTenant, "agents"))
	require.NoError(t, err)
	require.Equal(t, plan.URLs, c.URLs)

	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir, Durability: natsd.DurabilityAlways}))
	opts, err = server.ProcessConfigFile(natsd.ConfigFile(dir))
	require.NoError(t, err)
	require.True(t, opts.SyncAlways)
}
