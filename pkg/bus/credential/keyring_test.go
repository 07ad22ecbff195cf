package credential_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus/credential"
	"github.com/banksman/banksman/pkg/hitl"
)

func TestKeyringFollowsItsFile(t *testing.T) {
	t.Parallel()
	c := gatewayCredentials(t)
	first := c.SigningKeyID
	path := filepath.Join(t.TempDir(), "gateway.json")
	require.NoError(t, c.Save(path))
	loaded, err := credential.LoadCredentials(path)
	require.NoError(t, err)
	var log bytes.Buffer
	k := credential.NewKeyring(loaded, slog.New(slog.NewTextHandler(&log, nil)))
	signs := func(id string, accepted ...string) {
		t.Helper()
		got, key, err := k.Signer()
		require.NoError(t, err)
		require.Equal(t, id, got)
		require.Equal(t, id, hitl.KeyID(key.Public().(ed25519.PublicKey)))
		require.ElementsMatch(t, accepted, slices.Collect(maps.Keys(k.Public())))
	}
	signs(first, first)

	// Announced, used, and the old one dropped.
	pub, priv, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	second := hitl.KeyID(pub)
	c.DecisionKeys[second] = base64.StdEncoding.EncodeToString(pub)
	c.NextSigningKey = base64.StdEncoding.EncodeToString(priv.Seed())
	require.Equal(t, second, c.NextKeyID())
	require.NoError(t, c.Save(path))
	signs(first, first, second)
	c.SigningKey, c.SigningKeyID, c.NextSigningKey = c.NextSigningKey, second, ""
	require.NoError(t, c.Save(path))
	signs(second, first, second)
	delete(c.DecisionKeys, first)
	require.NoError(t, c.Save(path))
	signs(second, second)
	require.NotContains(t, log.String(), "level=ERROR")
	require.NotContains(t, log.String(), c.SigningKey)

	// What cannot be used changes nothing, and is told once.
	require.NoError(t, os.WriteFile(path, []byte(`{"v":1`), 0o600))
	signs(second, second)
	signs(second, second)
	require.Contains(t, log.String(), "not taken over")
	require.Equal(t, 1, errorsIn(log.String()))
	stranger := gatewayCredentials(t)
	stranger.Name = "another"
	require.NoError(t, stranger.Save(path))
	signs(second, second)
	require.Equal(t, 2, errorsIn(log.String()))
	require.NoError(t, os.Remove(path))
	signs(second, second)
	require.NoError(t, c.Save(path))
	signs(second, second)
	require.NoError(t, os.Chmod(path, 0o644))
	signs(second, second)
	require.Equal(t, 3, errorsIn(log.String()), "%s", log.String())

	// Without a file, and without a key to sign with.
	owner := *gatewayCredentials(t)
	owner.Role, owner.SigningKey, owner.SigningKeyID = credential.RoleOwner, "", ""
	k = credential.NewKeyring(&owner, nil)
	_, _, err = k.Signer()
	require.ErrorIs(t, err, credential.ErrNoSigner)
	require.Equal(t, owner.PublicDecisionKeys(), k.Public())
}

func errorsIn(log string) int { return strings.Count(log, "level=ERROR") }
