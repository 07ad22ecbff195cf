package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/cmd/banksman/internal/config"
	"github.com/banksman/banksman/pkg/natsd"
)

func run(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = config.Command(t.Context(), args, cli.Stdio{Out: &stdout, Err: &stderr, DataDir: t.TempDir()})
	return code, stdout.String(), stderr.String()
}

func TestConfigCheckReadsAsTheProgramsDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir, Port: natsd.RandomPort, Owners: []natsd.Owner{{Name: "agents", Pool: true}}}))
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	channels := file("channels.yaml", "channels:\n  - {name: log, type: log}\n")
	for name, args := range map[string][]string{
		"up":       {"up", file("up.yaml", "quota-open: 7\nnotify: "+channels+"\n")},
		"gateway":  {"gateway", file("gateway.yaml", "creds: "+dir+"/creds/gateway.json\nlog-format: json\n")},
		"agent":    {"agent", file("agent.yaml", "creds: "+dir+"/creds/owner-agents.json\ndata: /var/lib/banksman\n")},
		"notifier": {"notifier", file("notifier.yaml", "creds: "+dir+"/creds/notifier.json\nconfig: "+channels+"\n")},
		"channels": {"channels", channels},
	} {
		code, out, err := run(t, append([]string{"check"}, args...)...)
		require.Equal(t, cli.ExitOK, code, "%s: %s", name, err)
		require.Equal(t, "ok\n", out, name)
	}
	bad := file("bad.yaml", "channels:\n  - {name: log, typ: log}\n")
	for want, args := range map[string][]string{
		`bad.yaml:2:17`:                     {"channels", bad},
		`quota-opn: unknown; is quota-open`: {"up", file("1.yaml", "quota-opn: 7\n")},
		`-creds is missing`:                 {"gateway", file("2.yaml", "log: info\n")},
		`-data is missing`:                  {"agent", file("3.yaml", "creds: x\n")},
		`-config:`:                          {"notifier", file("4.yaml", "creds: "+dir+"/creds/notifier.json\nconfig: "+bad+"\n")},
		`is neither text nor json`:          {"gateway", file("5.yaml", "creds: "+dir+"/creds/gateway.json\nlog-format: xml\n")},
		`"nobody" is none of`:               {"nobody", bad},
		`want what to check`:                {},
		`check channels: want a file`:       {"channels"},
		`less than 0`:                       {"up", file("6.yaml", "ask-timeout: -1s\n")},
		`no such file`:                      {"gateway", dir + "/none.yaml"},
		`must not be negative`:              {"up", file("7.yaml", "quota-open: -1\n")},
		`"sometimes"`:                       {"up", file("8.yaml", "demo: sometimes\n")},
	} {
		code, out, err := run(t, append([]string{"check"}, args...)...)
		require.Equal(t, cli.ExitError, code, want)
		require.Contains(t, err, want)
		require.Empty(t, out)
	}
}

// What the program would refuse when it starts, or misuse, is refused here too, by the
// name of the flag.
func TestConfigCheckRefusesWhatTheProgramsRefuse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir, Port: natsd.RandomPort, Owners: []natsd.Owner{{Name: "agents", Pool: true}}}))
	creds := func(name string) string { return "creds: " + filepath.Join(dir, "creds", name+".json") + "\n" }
	gateway, agent, notifier := creds("gateway"), creds("owner-agents")+"data: "+dir+"\n", creds("notifier")
	issuer := gateway + "oidc-issuer: https://login.example\noidc-client-id: b\n"
	for name, row := range map[string]struct{ what, text, want string }{
		"a gateway for others without TLS": {"gateway", gateway + "listen: 0.0.0.0:8080", "-listen: 0.0.0.0:8080 is no loopback address"},
		"a gateway for others over http":   {"gateway", gateway + "listen: 0.0.0.0:8080\nallow-remote: true\nbase-url: http://h.example", "-allow-remote: "},
		"a gateway without a port":         {"gateway", gateway + "listen: 127.0.0.1", "-listen: "},
		"a gateway on no port":             {"gateway", gateway + "listen: 127.0.0.1:99999", "-listen: "},
		"a base URL that is none":          {"gateway", gateway + "base-url: nonsense", `-base-url: "nonsense"`},
		"every origin":                     {"gateway", gateway + "origin: ['*']", `-origin: "*"`},
		"a proxy that is none":             {"gateway", gateway + "trusted-proxy: 10.0.0.0/99", `-trusted-proxy: "10.0.0.0/99"`},
		"a role that is none":              {"gateway", issuer + "oidc-role: x=emperor:y", "-oidc-role: "},
		"an issuer without TLS":            {"gateway", gateway + "oidc-issuer: http://login.example\noidc-client-id: b\noidc-role: x=viewer:y", "-oidc-issuer: "},
		"an issuer who knows nobody":       {"gateway", issuer, "-oidc-role: "},
		"an issuer who does not know us":   {"gateway", gateway + "oidc-issuer: https://login.example\noidc-role: x=viewer:y", "-oidc-client-id: "},
		"a status that is no address":      {"gateway", gateway + "status: nonsense", `-status: "nonsense": want host:port`},
		"a gateway as a notifier":          {"gateway", notifier, "-creds: they are those of a notifier, want a gateway's"},
		"a drain of less than nothing":     {"gateway", gateway + "drain: -5s", "-drain: -5s is less than 0"},
		"a tenant that is no token":        {"gateway", gateway + "tenant: a b.c", `-tenant: "a b.c" is not a token`},
		"a pool that is no token":          {"gateway", gateway + "pool: a b.c", `-pool: "a b.c" is not a token`},
		"a silence of less than nothing":   {"gateway", gateway + "orphan-after: -1m", "-orphan-after: -1m0s is less than 15s"},
		"a silence of a moment":            {"gateway", gateway + "orphan-after: 5s", "-orphan-after: 5s is less than 15s"},

		"an agent as a gateway":            {"agent", gateway + "data: " + dir, "-creds: they are those of a gateway, want an owner's"},
		"a relative directory of sessions": {"agent", agent + "cwd: here", `-cwd: "here" is not absolute`},
		"an agent's status":                {"agent", agent + "status: 127.0.0.1:a b", "-status: "},

		"a notifier as a gateway":      {"notifier", gateway, "-creds: they are those of a gateway, want a notifier's"},
		"a notifier's links to nobody": {"notifier", notifier + "base-url: nonsense", "-base-url: not an address"},
		"a notifier's status":          {"notifier", notifier + "status: '99'", "-status: "},

		"up for others":                   {"up", "listen: 0.0.0.0:80", "-listen: 0.0.0.0:80 is no loopback address"},
		"up without a port":               {"up", "listen: localhost", "-listen: "},
		"up with a durability of no kind": {"up", "durability: sometimes", `-durability: "sometimes" is neither always nor relaxed`},
		"up with a port that is none":     {"up", "nats-port: 99999", "-nats-port: 99999 is not a port"},
		"up with every origin":            {"up", "origin: ['*']", `-origin: "*"`},
		"up's status":                     {"up", "status: nonsense", "-status: "},
		"up with a silence below nothing": {"up", "orphan-after: -1m", "-orphan-after: -1m0s is less than 15s"},
		"up without a silence":            {"up", "orphan-after: 0s", "-orphan-after: 0s is less than 15s"},
		"up with nobody to tell":          {"up", "notify: " + dir + "/none.yaml", "-notify: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "settings.yaml")
			require.NoError(t, os.WriteFile(path, []byte(row.text), 0o600))
			code, out, err := run(t, "check", row.what, path)
			require.Contains(t, err, row.want)
			require.Equal(t, cli.ExitError, code)
			require.Empty(t, out)
		})
	}
}
