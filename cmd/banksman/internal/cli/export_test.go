package cli_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/wire"
)

// A person who is signed in gets the record's very bytes, without a credential
// that may do more than ask.
func TestExportForThePersonWhoSignedIn(t *testing.T) {
	t.Parallel()
	in := newInstance(t)
	asker := start(t, cli.Ask, in.dir, "", "--tool", "Bash", "--input", `{"command":"make"}`)
	id := asker.id(t)
	login := filepath.Join(in.dir, "cli-login.json")

	r := run(t, cli.Export, in.dir, "", id, "--login", login)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err.String(), "banksman login --cli")
	in.signIn(t, "not-a-token-of-this-gateway-0123456789abcdefgh", time.Now().Add(time.Hour))
	r = run(t, cli.Export, in.dir, "", id, "--login", login)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err.String(), "unknown or has expired")
	in.signIn(t, in.token, time.Now().Add(time.Hour))
	r = run(t, cli.Export, in.dir, "", id, "--login", login)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err.String(), "not decided yet")

	require.Zero(t, run(t, cli.Decide, in.dir, "", id, "deny").code)
	require.Equal(t, 1, asker.wait(t).code)
	r = run(t, cli.Export, in.dir, "", id, "--login", login)
	require.Zero(t, r.code, r.err.String())
	own := decode[wire.Evidence](t, r)
	direct := run(t, cli.Export, in.dir, "", "default.cli."+id)
	require.Zero(t, direct.code, direct.err.String())
	require.Equal(t, decode[wire.Evidence](t, direct), own)
	file := filepath.Join(t.TempDir(), "decision.json")
	for _, key := range []string{id, "default.cli." + id} {
		require.Zero(t, run(t, cli.Export, in.dir, "", key, "--login", login, "--out", file).code)
		require.Zero(t, run(t, cli.Verify, in.dir, "", file).code)
	}
	r = run(t, cli.Export, in.dir, "", "nobody", "--login", login)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err.String(), "no such interaction")

	// Where the gateway's credential is not at hand, that is the way by itself.
	require.NoError(t, os.Remove(natsd.CredentialsFile(in.dir, bus.RoleGateway, "", "")))
	r = run(t, cli.Export, in.dir, "", id)
	require.Zero(t, r.code, r.err.String())
	require.Equal(t, own, decode[wire.Evidence](t, r))
}
