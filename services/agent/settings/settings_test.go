package settings

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/natsd"
)

func TestSettingsOfAWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir, Port: natsd.RandomPort, Owners: []natsd.Owner{{Name: "agents", Pool: true}}}))
	creds := filepath.Join(dir, "creds", "owner-agents.json")
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	a, err := Parse([]string{"-creds", creds, "-data", dir, "-ask-timeout", "1m"}, []string{
		"BANKSMAN_AGENT_DATA_SHARED=true", "BANKSMAN_AGENT_CLAUDE_KEY_FILE=" + file("key", "sk-1\n"),
	}, &bytes.Buffer{})
	require.NoError(t, err)
	require.True(t, a.SharedData)
	require.Equal(t, time.Minute, a.Timeouts.Expires)
	require.Contains(t, a.ClaudeEnv, "ANTHROPIC_API_KEY=sk-1")

	a, err = Parse([]string{"-creds", creds, "-data", dir, "-claude-key-file", "/dev/null"}, nil, &bytes.Buffer{})
	require.NoError(t, err)
	require.Nil(t, a.ClaudeEnv, "no key: the CLI's own sign-in")

	for want, args := range map[string][]string{
		"-creds is missing":     {"-data", dir},
		"-data is missing":      {"-creds", creds},
		"no such file":          {"-creds", creds + "x", "-data", dir},
		"is less than 0":        {"-creds", creds, "-data", dir, "-ask-timeout", "-1s"},
		"holds more than a key": {"-creds", creds, "-data", dir, "-claude-key-file", file("two", "sk-1 sk-2")},
		"-claude-key-file":      {"-creds", creds, "-data", dir, "-claude-key-file", dir + "/none"},
	} {
		_, err := Parse(args, nil, &bytes.Buffer{})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "sk-1")
	}
}
