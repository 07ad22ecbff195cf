package settings_test

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/settings"
)

// program is a set with a flag of each shape.
type program struct {
	*settings.Set
	listen  string
	open    int
	remote  bool
	after   time.Duration
	origins []string
}

func newProgram() *program {
	p := &program{Set: settings.New("banksman-gateway")}
	p.SetOutput(io.Discard)
	p.StringVar(&p.listen, "listen", "127.0.0.1:8080", "")
	p.IntVar(&p.open, "quota-open", 5000, "")
	p.BoolVar(&p.remote, "allow-remote", false, "")
	p.DurationVar(&p.after, "orphan-after", 5*time.Minute, "")
	p.List("origin", "", func(s string) error { p.origins = append(p.origins, s); return nil })
	return p
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestCommandLineThenEnvironmentThenFile(t *testing.T) {
	t.Parallel()
	file := write(t, `
# all but one of these are named before
listen: 127.0.0.1:3
quota-open: 3
orphan-after: 3m
origin: [https://three.example, "https://drei.example"]
allow-remote: true
`)
	p := newProgram()
	require.NoError(t, p.Parse([]string{"-listen", "127.0.0.1:1"}, []string{
		"BANKSMAN_GATEWAY_SETTINGS=" + file, "BANKSMAN_GATEWAY_LISTEN=127.0.0.1:2", "BANKSMAN_GATEWAY_QUOTA_OPEN=2",
		"BANKSMAN_GATEWAY_ORIGIN=https://two.example\n\nhttps://zwei.example\n", "BANKSMAN_GATEWAY_ORPHAN_AFTER=",
		"HOME=/", "BANKSMAN_NOTIFIER_CONFIG=x",
		"BANKSMAN_GATEWAY_SERVICE_HOST=10.0.0.1", "BANKSMAN_GATEWAY_SERVICE_PORT_HTTP=80", "BANKSMAN_GATEWAY_PORT_8080_TCP_ADDR=10.0.0.1",
	}))
	require.Equal(t, "127.0.0.1:1", p.listen)
	require.Equal(t, 2, p.open)
	require.Equal(t, []string{"https://two.example", "https://zwei.example"}, p.origins, "a place replaces the others' lists")
	require.Equal(t, 3*time.Minute, p.after, "an empty variable is none")
	require.True(t, p.remote)
	require.Equal(t, "the command line", p.From("listen"))
	require.Equal(t, "BANKSMAN_GATEWAY_QUOTA_OPEN", p.From("quota-open"))
	require.Equal(t, file+":5:1", p.From("orphan-after"))

	p = newProgram()
	require.NoError(t, p.Parse(nil, nil))
	require.Equal(t, "127.0.0.1:8080", p.listen)
	require.Empty(t, p.From("listen"))
}

func TestMistakesAreNamedWithTheirPlace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args, env []string
		file      string
		want      string
	}{
		"a flag":                   {args: []string{"-lisen", "x"}, want: "-lisen (is -listen meant?)"},
		"an argument":              {args: []string{"listen"}, want: `unexpected argument "listen"`},
		"a variable":               {env: []string{"BANKSMAN_GATEWAY_QUOTA_OPN=1"}, want: "BANKSMAN_GATEWAY_QUOTA_OPN: unknown; is BANKSMAN_GATEWAY_QUOTA_OPEN meant?"},
		"a far variable":           {env: []string{"BANKSMAN_GATEWAY_FROBNICATE=1"}, want: "BANKSMAN_GATEWAY_FROBNICATE: unknown"},
		"a variable's value":       {env: []string{"BANKSMAN_GATEWAY_QUOTA_OPEN=many"}, want: "BANKSMAN_GATEWAY_QUOTA_OPEN: \"many\""},
		"a name in the file":       {file: "listen: x\nquota_open: 1\n", want: "gateway.yaml:2:1: quota_open: unknown; is quota-open meant?"},
		"a value in the file":      {file: "listen: x\norphan-after: soon\n", want: `gateway.yaml:2:1: orphan-after: "soon"`},
		"a list for one value":     {file: "listen: [a, b]\n", want: "gateway.yaml:1:1: listen: takes one value"},
		"a name that stands twice": {file: "listen: a\nlisten: b\n", want: "gateway.yaml:2:1: listen: stands twice"},
		"nesting":                  {file: "listen: {a: b}\n", want: "gateway.yaml:1:9: listen: must be a single value"},
		"no value":                 {file: "listen:\n", want: "listen: must be a single value"},
		"no names":                 {file: "- listen\n", want: "gateway.yaml:1:1: must have named fields"},
		"no YAML":                  {file: "listen: [\n", want: "not YAML"},
		"the file inside the file": {file: "settings: other.yaml\n", want: "settings: unknown"},
		"two documents":            {file: "listen: a\n---\nlisten: b\n", want: "second document"},
		"no file":                  {args: []string{"-settings", "/nonexistent.yaml"}, want: "-settings: stat /nonexistent.yaml"},
		"a variable for the file":  {env: []string{"BANKSMAN_GATEWAY_SETTINGS=/nonexistent.yaml"}, want: "-settings: stat /nonexistent.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := tc.args
			if tc.file != "" {
				args = append(args, "-settings", write(t, tc.file))
			}
			require.ErrorContains(t, newProgram().Parse(args, tc.env), tc.want)
		})
	}
	require.ErrorIs(t, newProgram().Parse([]string{"-h"}, nil), flag.ErrHelp)
}
