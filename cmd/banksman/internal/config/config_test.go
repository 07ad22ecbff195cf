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
