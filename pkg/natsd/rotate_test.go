package natsd_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/natsd"
)

func load(t *testing.T, dir string, role bus.Role, tenant, name string) *bus.Credentials {
	t.Helper()
	c, err := bus.LoadCredentials(natsd.CredentialsFile(dir, role, tenant, name))
	require.NoError(t, err)
	return c
}

// written is what Write and its like have made, without the server's store.
func written(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, text := range files(t, filepath.Join(dir, "creds")) {
		all["creds/"+name] = text
	}
	for _, name := range []string{"nats/accounts.conf", "nats/plan.json", "nats/server.conf"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		all[name] = string(raw)
	}
	return all
}

// Old and new key count beside each other, with the same rights, and nobody
// notices a reload; then the old one is refused and cut off.
func TestKeysAreRotatedWithoutARestart(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	bystander := n.connect(t, bus.RoleOwner, "u", "pool")
	for _, id := range []struct {
		role         bus.Role
		tenant, name string
		file         string
		publish      string
	}{
		{bus.RoleOwner, "t", "pool", "owner-t.pool", "hitl.req.t.pool."},
		{bus.RoleCaller, "t", "ci", "caller-t.ci", ""},
		{bus.RoleGateway, "", "", "gateway", "hitl.dec.t.pool."},
		{bus.RoleNotifier, "t", "", "notifier-t", ""},
		{bus.RoleProvisioner, "", "", "provisioner", "hitl.evt.t.pool."},
	} {
		t.Run(id.file, func(t *testing.T) {
			before := written(t, n.dir)
			oldCreds := load(t, n.dir, id.role, id.tenant, id.name)
			old := connect(t, oldCreds)
			require.NoError(t, natsd.RotateKey(n.dir, id.file))
			require.NoError(t, n.srv.Reload())
			after := written(t, n.dir)
			changed := slices.DeleteFunc(slices.Sorted(maps.Keys(after)), func(f string) bool { return after[f] == before[f] })
			require.Equal(t, []string{"creds/" + id.file + ".json", "nats/accounts.conf", "nats/plan.json"}, changed)
			fresh := load(t, n.dir, id.role, id.tenant, id.name)
			require.NotEqual(t, oldCreds.Seed, fresh.Seed)
			require.Equal(t, oldCreds.DecisionKeys, fresh.DecisionKeys)
			require.Equal(t, oldCreds.SigningKey, fresh.SigningKey)

			// The connection that is there, one with the old key, one with the new.
			for i, c := range []*client{old, connect(t, oldCreds), connect(t, fresh)} {
				if id.publish != "" {
					c.store(t, id.publish+id.file[:5]+string(rune('a'+i)), "x")
				}
				c.mustBeContent(t)
			}
			require.NoError(t, natsd.Write(natsd.Plan{Dir: n.dir}))
			require.Equal(t, after["nats/accounts.conf"], written(t, n.dir)["nats/accounts.conf"], "the next start keeps both")

			require.NoError(t, natsd.DropOldKeys(n.dir, id.file))
			require.NoError(t, n.srv.Reload())
			require.Eventually(t, func() bool { return !old.IsConnected() }, patience, 10*time.Millisecond)
			auth, err := oldCreds.Auth()
			require.NoError(t, err)
			_, err = nats.Connect(oldCreds.URLs[0], auth)
			require.ErrorIs(t, err, nats.ErrAuthorization)
			connect(t, fresh).mustBeContent(t)
			require.ErrorIs(t, natsd.DropOldKeys(n.dir, id.file), natsd.ErrNothingOld)
		})
	}
	bystander.store(t, "hitl.box.u.pool.id1.req", "request")
	require.Zero(t, bystander.Stats().Reconnects)
}

func TestRotateRefuses(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "none")
	_, err := natsd.RotateDecisionKey(empty)
	require.ErrorIs(t, err, natsd.ErrNoPlan)
	require.ErrorIs(t, natsd.RotateKey(empty, "gateway"), natsd.ErrNoPlan)
	require.NoDirExists(t, empty, "a wrong directory is not filled")

	dir := t.TempDir()
	require.NoError(t, natsd.Write(testPlan(dir)))
	before := files(t, dir)
	for _, name := range []string{"", "owner-nobody", "owner-t.pool.json", "../gateway", "decision-key"} {
		require.ErrorIs(t, natsd.RotateKey(dir, name), natsd.ErrUnknownIdentity, name)
		require.ErrorIs(t, natsd.DropOldKeys(dir, name), natsd.ErrUnknownIdentity, name)
	}
	require.ErrorIs(t, natsd.DropOldKeys(dir, "gateway"), natsd.ErrNothingOld)
	_, err = natsd.DropDecisionKeys(dir)
	require.ErrorIs(t, err, natsd.ErrNothingOld)
	require.Equal(t, before, files(t, dir), "a refusal changes nothing")

	// A file that was moved elsewhere is written anew; not the gateway's, with
	// which the decision key would go.
	require.NoError(t, os.Remove(natsd.CredentialsFile(dir, bus.RoleOwner, "t", "pool")))
	require.NoError(t, natsd.RotateKey(dir, "owner-t.pool"))
	c := load(t, dir, bus.RoleOwner, "t", "pool")
	require.Equal(t, load(t, dir, bus.RoleGateway, "", "").DecisionKeys, c.DecisionKeys)
	require.NoError(t, os.Remove(natsd.CredentialsFile(dir, bus.RoleGateway, "", "")))
	require.ErrorIs(t, natsd.RotateKey(dir, "gateway"), natsd.ErrNoGatewayFile)
	for _, step := range []func(string) (natsd.DecisionKeys, error){natsd.AnnounceDecisionKey, natsd.RotateDecisionKey, natsd.DropDecisionKeys} {
		_, err := step(dir)
		require.ErrorIs(t, err, natsd.ErrNoGatewayFile)
	}
}

func TestStepsOfADecisionKeysRotation_invariant2(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(testPlan(dir)))
	first := load(t, dir, bus.RoleGateway, "", "").SigningKeyID
	check := func(keys natsd.DecisionKeys, signing, next string, accepted, gatewayOnly []string) {
		t.Helper()
		require.Equal(t, signing, keys.Signing)
		require.Equal(t, next, keys.Next)
		require.ElementsMatch(t, accepted, slices.Collect(maps.Keys(keys.Accepted)))
		require.ElementsMatch(t, gatewayOnly, slices.Collect(maps.Keys(keys.Dropped)))
		// The next start changes nothing of it.
		for range 2 {
			for name := range files(t, filepath.Join(dir, "creds")) {
				c, err := bus.LoadCredentials(filepath.Join(dir, "creds", name))
				require.NoError(t, err)
				if c.Role != bus.RoleGateway {
					require.Equal(t, keys.Accepted, c.DecisionKeys, name)
					continue
				}
				require.Equal(t, signing, c.SigningKeyID)
				require.Equal(t, next, c.NextKeyID())
				require.ElementsMatch(t, slices.Concat(accepted, gatewayOnly), slices.Collect(maps.Keys(c.DecisionKeys)))
			}
			require.NoError(t, natsd.Write(testPlan(dir)))
		}
	}
	keys, err := natsd.AnnounceDecisionKey(dir)
	require.NoError(t, err)
	second := keys.Next
	check(keys, first, second, []string{first, second}, nil)
	again, err := natsd.AnnounceDecisionKey(dir)
	require.NoError(t, err)
	require.Equal(t, keys, again, "announced once")
	keys, err = natsd.RotateDecisionKey(dir)
	require.NoError(t, err)
	check(keys, second, "", []string{first, second}, nil)
	// Another one before the first is dropped.
	keys, err = natsd.RotateDecisionKey(dir)
	require.NoError(t, err)
	third := keys.Signing
	check(keys, third, "", []string{first, second, third}, nil)
	keys, err = natsd.DropDecisionKeys(dir)
	require.NoError(t, err)
	check(keys, third, "", []string{third}, []string{first, second})
	// Dropping does not touch what is announced.
	keys, err = natsd.RotateDecisionKey(dir)
	require.NoError(t, err)
	fourth := keys.Signing
	keys, err = natsd.AnnounceDecisionKey(dir)
	require.NoError(t, err)
	fifth := keys.Next
	keys, err = natsd.DropDecisionKeys(dir)
	require.NoError(t, err)
	check(keys, fourth, fifth, []string{fourth, fifth}, []string{first, second, third})
}

// A rotation that was cut off between its files is brought to an end by the
// next write, and the old key was never forgotten.
func TestARotationThatWasCutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(testPlan(dir)))
	old := load(t, dir, bus.RoleOwner, "t", "pool")
	oldKey, err := old.PublicNKey()
	require.NoError(t, err)
	before := files(t, dir)

	// Cut before the credential file: only the plan was written.
	require.NoError(t, natsd.RotateKey(dir, "owner-t.pool"))
	after := files(t, dir)
	put := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var plan map[string]any
	require.NoError(t, json.Unmarshal([]byte(before["nats/plan.json"]), &plan))
	plan["old_keys"] = map[string][]string{"owner-t.pool.json": {oldKey}}
	half, err := json.Marshal(plan)
	require.NoError(t, err)
	put("creds/owner-t.pool.json", before["creds/owner-t.pool.json"])
	put("nats/accounts.conf", before["nats/accounts.conf"])
	put("nats/plan.json", string(half))
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir}))
	require.Equal(t, before["nats/accounts.conf"], files(t, dir)["nats/accounts.conf"], "no key twice")

	// Cut after it.
	put("creds/owner-t.pool.json", after["creds/owner-t.pool.json"])
	put("nats/plan.json", string(half))
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir}))
	require.Equal(t, after["nats/accounts.conf"], files(t, dir)["nats/accounts.conf"])
	start(t, dir)
	connect(t, old)
	connect(t, load(t, dir, bus.RoleOwner, "t", "pool"))
	require.NoError(t, natsd.Remove(dir, "t", "pool"))
	require.NotContains(t, files(t, dir)["nats/accounts.conf"], oldKey)
	require.NotContains(t, files(t, dir)["nats/plan.json"], oldKey)
}
