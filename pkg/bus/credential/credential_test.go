package credential_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus/credential"
	"github.com/banksman/banksman/pkg/hitl"
)

// gatewayCredentials makes a complete credential; the other roles' are this
// one without the signing key.
func gatewayCredentials(t *testing.T) *credential.Credentials {
	t.Helper()
	kp, err := nkeys.CreateUser()
	require.NoError(t, err)
	seed, err := kp.Seed()
	require.NoError(t, err)
	pub, priv, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	id := hitl.KeyID(pub)
	return &credential.Credentials{
		V: 1, Role: credential.RoleGateway, Tenant: credential.DefaultTenant, Name: "gateway",
		URLs: []string{"nats://127.0.0.1:4222"}, Seed: string(seed),
		DecisionKeys: map[string]string{id: base64.StdEncoding.EncodeToString(pub)},
		SigningKey:   base64.StdEncoding.EncodeToString(priv.Seed()), SigningKeyID: id,
	}
}

func TestCredentialsRoundTrip(t *testing.T) {
	t.Parallel()
	c := gatewayCredentials(t)
	path := filepath.Join(t.TempDir(), "gateway.json")
	require.NoError(t, os.WriteFile(path, []byte("older"), 0o644))
	require.NoError(t, c.Save(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "also over a file that was open to others")
	got, err := credential.LoadCredentials(path)
	require.NoError(t, err)
	want, err := json.Marshal(c)
	require.NoError(t, err)
	have, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(have))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file stays")

	id, key, err := got.Signer()
	require.NoError(t, err)
	require.True(t, ed25519.Verify(got.PublicDecisionKeys()[id], []byte("decision"), ed25519.Sign(key, []byte("decision"))))
	require.Len(t, id, 16)

	owner := *c
	owner.Role, owner.SigningKey, owner.SigningKeyID = credential.RoleOwner, "", ""
	require.NoError(t, owner.Validate())
	_, _, err = owner.Signer()
	require.ErrorIs(t, err, credential.ErrNoSigner)
}

func TestCredentialsRefused(t *testing.T) {
	t.Parallel()
	set := func(field string, value any) func(map[string]any) {
		return func(m map[string]any) { m[field] = value }
	}
	drop := func(field string) func(map[string]any) { return func(m map[string]any) { delete(m, field) } }
	asOwner := func(m map[string]any) { m["role"] = "owner" }
	account, err := nkeys.CreateAccount()
	require.NoError(t, err)
	accountSeed, err := account.Seed()
	require.NoError(t, err)
	other := gatewayCredentials(t)

	for name, c := range map[string]struct {
		change      func(map[string]any)
		field, want string
	}{
		"no version":          {drop("v"), "v", "missing"},
		"unknown version":     {set("v", 2), "v", "unknown version 2"},
		"unknown role":        {set("role", "boss"), "role", `unknown role "boss"`},
		"bad tenant":          {set("tenant", "a.b"), "tenant", "not a token"},
		"bad name":            {set("name", ""), "name", "not a token"},
		"no urls":             {drop("urls"), "urls", "missing"},
		"bad url":             {set("urls", []string{"nats://ok:1", "nowhere"}), "urls[1]", "not a server address"},
		"bad scheme":          {set("urls", []string{"http://127.0.0.1:1"}), "urls[0]", "unknown scheme"},
		"no seed":             {drop("seed"), "seed", "missing"},
		"seed of another use": {set("seed", string(accountSeed)), "seed", "not an NKey user seed"},
		"no decision keys":    {drop("decision_keys"), "decision_keys", "missing"},
		"short decision key":  {set("decision_keys", map[string]string{"0011223344556677": "AAAA"}), "decision_keys.0011223344556677", "base64 of 32 bytes"},
		"wrong key id":        {set("decision_keys", map[string]string{"0011223344556677": other.DecisionKeys[other.SigningKeyID]}), "decision_keys.0011223344556677", other.SigningKeyID},
		"no signing key":      {drop("signing_key"), "signing_key", "missing"},
		"no signing key id":   {drop("signing_key_id"), "signing_key_id", "missing"},
		"other signing key":   {set("signing_key", other.SigningKey), "signing_key_id", other.SigningKeyID},
		"owner with a key":    {asOwner, "signing_key", "only a gateway"},
		"owner with the next key": {func(m map[string]any) {
			asOwner(m)
			m["next_signing_key"] = m["signing_key"]
			delete(m, "signing_key")
			delete(m, "signing_key_id")
		}, "signing_key", "only a gateway"},
		"short next key":   {set("next_signing_key", "AAAA"), "next_signing_key", "base64 of 32 bytes"},
		"unknown next key": {set("next_signing_key", other.SigningKey), "decision_keys", "lacks the next signing key"},
		"unknown field":    {set("password", "x"), "", "unknown field"},
		"wrong type":       {set("seed", 7), "", `field "seed"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := gatewayCredentials(t)
			raw, err := json.Marshal(good)
			require.NoError(t, err)
			var m map[string]any
			require.NoError(t, json.Unmarshal(raw, &m))
			c.change(m)
			raw, err = json.Marshal(m)
			require.NoError(t, err)
			path := filepath.Join(t.TempDir(), "c.json")
			require.NoError(t, os.WriteFile(path, raw, 0o600))
			_, err = credential.LoadCredentials(path)
			var ce *credential.CredentialsError
			require.ErrorAs(t, err, &ce)
			require.Equal(t, c.field, ce.Field)
			require.Equal(t, path, ce.Path)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, path)
			require.NotContains(t, err.Error(), good.Seed)
			require.NotContains(t, err.Error(), good.SigningKey)
			require.NotContains(t, err.Error(), other.SigningKey)
		})
	}
}

func TestCredentialsFileModeAndContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "c.json")
	require.NoError(t, gatewayCredentials(t).Save(path))
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := credential.LoadCredentials(path)
		require.ErrorIs(t, err, credential.ErrCredentialsMode)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "chmod 600")
	}
	_, err := credential.LoadCredentials(filepath.Join(dir, "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = credential.LoadCredentials(dir)
	require.Error(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text.json"), []byte(`{"v":1} trailing`), 0o600))
	_, err = credential.LoadCredentials(filepath.Join(dir, "text.json"))
	require.ErrorContains(t, err, "not a credential file")
	require.Error(t, (&credential.Credentials{V: 1}).Save(filepath.Join(dir, "bad.json")))
	require.NoFileExists(t, filepath.Join(dir, "bad.json"))
}

func TestCredentialsKeepTheirSecrets(t *testing.T) {
	t.Parallel()
	c := gatewayCredentials(t)
	var b strings.Builder
	log := slog.New(slog.NewJSONHandler(&b, nil))
	log.Info("connect", "credentials", c)
	log.Info("connect", "credentials", *c)
	fmt.Fprintf(&b, "%v %+v %#v %s %v %+v %#v", *c, *c, *c, *c, c, c, c)
	require.Contains(t, b.String(), "gateway default/gateway")
	require.NotContains(t, b.String(), c.Seed)
	require.NotContains(t, b.String(), c.SigningKey)
}

func TestCredentialsWithABadDecisionKeyVerifyNothing(t *testing.T) {
	t.Parallel()
	c := gatewayCredentials(t)
	c.DecisionKeys["0011223344556677"] = "AAAA"
	require.Empty(t, c.PublicDecisionKeys())
}
