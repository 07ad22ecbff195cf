package settings

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/settings"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway"
)

func credentials(t *testing.T) string {
	t.Helper()
	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	pub, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	id := hitl.KeyID(pub)
	path := filepath.Join(t.TempDir(), "gateway.json")
	require.NoError(t, (&bus.Credentials{
		V: 1, Role: bus.RoleGateway, Tenant: "default", Name: "gateway", URLs: []string{"nats://127.0.0.1:1"}, Seed: string(seed),
		DecisionKeys: map[string]string{id: base64.StdEncoding.EncodeToString(pub)},
		SigningKey:   base64.StdEncoding.EncodeToString(key.Seed()), SigningKeyID: id,
	}).Save(path))
	return path
}

func TestFlagsBecomeOptions(t *testing.T) {
	t.Parallel()
	o, err := Parse([]string{
		"-creds", credentials(t), "-listen", "127.0.0.1:9", "-base-url", "https://h.example", "-allow-remote",
		"-origin", "https://wiki.example.org", "-origin", "http://localhost:5173",
		"-trusted-proxy", "10.0.0.0/8", "-trusted-proxy", "proxy",
		"-orphan-after", "1m", "-critical", "/data", "-critical", "banksman decide", "-cwd", "/src", "-person", "Ada", "-login",
		"-quota-open", "7", "-quota-open-mib", "2", "-quota-day-mib", "0",
	}, nil, &bytes.Buffer{})
	require.NoError(t, err)
	require.True(t, o.Login)
	require.Equal(t, bus.RoleGateway, o.Credentials.Role)
	require.Equal(t, "127.0.0.1:9", o.Addr)
	require.Equal(t, "https://h.example", o.BaseURL)
	require.True(t, o.AllowRemote)
	require.Equal(t, []string{"https://wiki.example.org", "http://localhost:5173"}, o.Origins)
	require.Equal(t, []string{"10.0.0.0/8", "proxy"}, o.TrustedProxies)
	require.Equal(t, time.Minute, o.OrphanAfter)
	require.Equal(t, []string{"/data", "banksman decide"}, o.Critical)
	require.Equal(t, "/src", o.DefaultCwd)
	require.Equal(t, "Ada", o.PersonName)
	require.Equal(t, &gateway.Quota{Open: 7, OpenBytes: 2 << 20, DayTalk: gateway.DefaultQuota().DayTalk, Sessions: gateway.DefaultQuota().Sessions, DayRefusals: gateway.DefaultQuota().DayRefusals}, o.Quota)
	require.NotNil(t, o.Logger)
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	creds := credentials(t)
	for text, args := range map[string][]string{
		"-creds is missing":    {},
		"unexpected argument":  {"-creds", creds, "extra"},
		"no such file":         {"-creds", creds + ".none"},
		"must not be negative": {"-creds", creds, "-quota-open", "-1"},
		"is empty":             {"-creds", creds, "-critical", " "},
		"not defined":          {"-nonsense"},
	} {
		_, err := Parse(args, nil, &bytes.Buffer{})
		require.ErrorContains(t, err, text)
	}
	_, err := Parse([]string{"-h"}, nil, &bytes.Buffer{})
	require.ErrorIs(t, err, flag.ErrHelp)
}

func TestIssuerFlags(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("s3cret\n"), 0o600))
	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.WriteFile(open, []byte("s3cret\n"), 0o644))
	read := func(args ...string) (*gateway.OIDC, error) {
		fs := settings.New("t")
		fs.SetOutput(io.Discard)
		f := &issuerFlags{}
		f.add(fs)
		if err := fs.Parse(args, nil); err != nil {
			return nil, err
		}
		return f.read()
	}
	none, err := read()
	require.NoError(t, err)
	require.Nil(t, none)
	o, err := read("-oidc-issuer", "https://login.example", "-oidc-client-id", "b", "-oidc-secret-file", secret,
		"-oidc-role", "ops=approver:shop,bank", "-oidc-role", "ops=responder:*", "-oidc-role", "*=viewer:*", "-oidc-role", "acme=admin@acme:*")
	require.NoError(t, err)
	require.Equal(t, "s3cret", o.Secret)
	require.Equal(t, map[string][]wire.Grant{
		"ops":  {{Role: "approver", Projects: []string{"shop", "bank"}}, {Role: "responder", Projects: []string{"*"}}},
		"*":    {{Role: "viewer", Projects: []string{"*"}}},
		"acme": {{Role: "admin", Projects: []string{"*"}, Tenants: []string{"acme"}}},
	}, o.Roles)
	for name, args := range map[string][]string{
		"a role without an issuer":     {"-oidc-role", "ops=approver:shop"},
		"a role without a project":     {"-oidc-issuer", "https://login.example", "-oidc-role", "ops=approver"},
		"a role without a group":       {"-oidc-issuer", "https://login.example", "-oidc-role", "=approver:shop"},
		"a secret that others read":    {"-oidc-issuer", "https://login.example", "-oidc-secret-file", open},
		"a secret that is not there":   {"-oidc-issuer", "https://login.example", "-oidc-secret-file", secret + "x"},
		"a client id without anything": {"-oidc-client-id", "b"},
	} {
		_, err := read(args...)
		require.Error(t, err, name)
	}
}
