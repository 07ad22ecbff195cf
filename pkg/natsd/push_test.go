package natsd_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/bus/credential"
	"github.com/banksman/banksman/pkg/natsd"
)

// One key of pushes serves all notifiers and stays; an installation from before gets it
// with its next write, and gateways have its public half alone.
func TestTheKeyOfPushesIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := natsd.Plan{Dir: dir, Port: natsd.RandomPort, Tenants: []string{"default", "acme"}, Owners: []natsd.Owner{{Name: "agents"}}}
	require.NoError(t, natsd.Write(p))
	load := func(r bus.Role, tenant, name string) *bus.Credentials {
		c, err := bus.LoadCredentials(natsd.CredentialsFile(dir, r, tenant, name))
		require.NoError(t, err)
		return c
	}
	key := load(bus.RoleNotifier, "default", "").PushKey
	require.NotEmpty(t, key)
	public, err := credential.PushPublicKey(key)
	require.NoError(t, err)
	require.Equal(t, public, load(bus.RoleGateway, "", "").PushPublicKey)
	require.Equal(t, key, load(bus.RoleNotifier, "acme", "").PushKey)
	require.Empty(t, load(bus.RoleOwner, "default", "agents").PushKey)
	info, err := os.Stat(natsd.PushKeyFile(dir))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	// As before there were pushes.
	for _, c := range []*bus.Credentials{load(bus.RoleNotifier, "default", ""), load(bus.RoleGateway, "", "")} {
		c.PushKey, c.PushPublicKey = "", ""
		require.NoError(t, c.Save(natsd.CredentialsFile(dir, c.Role, "", "")))
	}
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir}))
	require.Equal(t, key, load(bus.RoleNotifier, "default", "").PushKey)
	require.Equal(t, public, load(bus.RoleGateway, "", "").PushPublicKey)

	require.NoError(t, os.WriteFile(natsd.PushKeyFile(dir), []byte("SECRET nonsense\n"), 0o600))
	err = natsd.Write(natsd.Plan{Dir: dir})
	require.ErrorContains(t, err, "push.key")
	require.NotContains(t, err.Error(), "SECRET")
}
