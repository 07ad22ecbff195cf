package credential

import (
	"crypto/ed25519"
	"encoding/base64"
	"testing"

	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"
)

func withPush(t *testing.T, role Role) *Credentials {
	t.Helper()
	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	pub, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	return &Credentials{
		V: CredentialsVersion, Role: role, Tenant: "default", Name: "n", URLs: []string{"nats://127.0.0.1:1"}, Seed: string(seed),
		DecisionKeys: map[string]string{"k": base64.StdEncoding.EncodeToString(pub)},
	}
}

// The key of pushes is a notifier's alone, and nothing that is no key passes.
func TestPushKeyIsANotifiersAlone(t *testing.T) {
	t.Parallel()
	key, err := NewPushKey()
	require.NoError(t, err)
	public, err := PushPublicKey(key)
	require.NoError(t, err)
	raw, err := base64.RawURLEncoding.DecodeString(public)
	require.NoError(t, err)
	require.Len(t, raw, 65)
	for _, role := range []Role{RoleOwner, RoleCaller, RoleProvisioner, RoleNotifier} {
		c := withPush(t, role)
		c.PushKey = key
		require.NotContains(t, c.GoString()+c.String(), key)
		err := c.checkPush()
		if role == RoleNotifier {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "push_key: present in a credential of role")
		require.ErrorContains(t, c.Validate(), "push_key")
	}
	for field, spoil := range map[string]func(*Credentials){
		"push_key: not base64url": func(c *Credentials) { c.PushKey = "SECRET!" },
		"push_key: not a P-256":   func(c *Credentials) { c.PushKey = base64.RawURLEncoding.EncodeToString(make([]byte, 32)) },
		"push_public_key: not the public half": func(c *Credentials) {
			c.PushPublicKey = base64.RawURLEncoding.EncodeToString(make([]byte, 65))
		},
	} {
		c := withPush(t, RoleNotifier)
		spoil(c)
		err := c.Validate()
		require.ErrorContains(t, err, field)
		require.NotContains(t, err.Error(), "SECRET")
	}
}
