package notifier_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier"
)

// What is secret may lie in files, and then the configuration may be read by others.
func TestSecretsComeFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), mode))
		require.NoError(t, os.Chmod(file, mode))
		return file
	}
	write("hook.url", "https://h.test/PATHSECRET\n", 0o600)
	write("hook.secrets", secret+"\n"+secret+"\n", 0o400)
	write("bot", " 1:SUPERSECRETSUPERSECRET\n", 0o600)
	absolute := write("password", "SUPERSECRET\n", 0o600)
	write("app", "xapp-1-SUPERSECRET\n", 0o600)
	config := `channels:
  - {name: hook, type: webhook, url_file: hook.url, secrets_file: hook.secrets}
  - name: telegram
    type: telegram
    token_file: bot
    to: "42"
  - {name: mail, type: mail, url: "smtp://h.test", user: u, from: a@b.test, to: a@b.test, password_file: ` + absolute + `}
  - {name: slack, type: slack, token_file: bot, to: C0123ABCD, signing_secret_file: ` + absolute + `, listen: "127.0.0.1:0"}
  - {name: socket, type: slack, token_file: bot, to: C0123ABCD, app_token_file: app}
deciders:
  - {name: policy, url_file: hook.url, secrets_file: hook.secrets, token_file: bot}
`
	c, err := notifier.LoadConfig(write("n.yaml", config, 0o644))
	require.NoError(t, err)
	require.Equal(t, "https://h.test/PATHSECRET", string(c.Channels[0].URL))
	require.Equal(t, []notifier.Secret{secret, secret}, c.Channels[0].Secrets)
	require.Equal(t, "1:SUPERSECRETSUPERSECRET", string(c.Channels[1].Token))
	require.Equal(t, "SUPERSECRET", string(c.Channels[2].Password))
	require.Equal(t, "SUPERSECRET", string(c.Channels[3].SigningSecret))
	require.Equal(t, "xapp-1-SUPERSECRET", string(c.Channels[4].AppToken))
	require.Equal(t, "1:SUPERSECRETSUPERSECRET", string(c.Deciders[0].Token))
	require.Len(t, c.Deciders[0].Secrets, 2)

	write("open", "1:SUPERSECRETSUPERSECRET", 0o644)
	write("empty", "\n", 0o600)
	write("large", strings.Repeat("x", 64<<10+1), 0o600)
	write("wrong", "SUPERSECRET", 0o600)
	for name, c := range map[string]struct{ old, new, want string }{
		"both":                {"token_file: bot\n", "token_file: bot\n    token: SUPERSECRET\n", "channels[1].token_file: stands beside token"},
		"none":                {"token_file: bot\n", "token_file: none\n", "n.yaml:5:17: channels[1].token_file: open"},
		"others read it":      {"token_file: bot\n", "token_file: open\n", "n.yaml:5:17: channels[1].token_file: file mode is too open"},
		"nothing in it":       {"token_file: bot\n", "token_file: empty\n", "is empty"},
		"too much in it":      {"token_file: bot\n", "token_file: large\n", "is larger than"},
		"a directory":         {"token_file: bot\n", "token_file: .\n", "is no file"},
		"no such token":       {"token_file: bot\n", "token_file: wrong\n", "n.yaml:5:17: channels[1].token_file: "},
		"no secret":           {"secrets_file: hook.secrets}\n  - name", "secrets_file: wrong}\n  - name", "n.yaml:2:67: channels[0].secrets_file: must begin with whsec_"},
		"of another type":     {"type: telegram\n    token_file: bot\n    to: \"42\"\n", "type: teams\n    url: https://h.test/x\n    token_file: bot\n", "channels[1].token_file: is not known to a channel of the type teams"},
		"both of a list":      {"secrets_file: hook.secrets}\n  - name", "secrets_file: hook.secrets, secrets: [" + secret + "]}\n  - name", "channels[0].secrets_file: stands beside secrets"},
		"no app's token":      {"app_token_file: app}", "app_token_file: wrong}", "channels[4].app_token_file: is not the token of an app"},
		"of a decider":        {"token_file: bot}", "token_file: none}", "deciders[0].token_file: open"},
		"inside all the same": {"token_file: bot\n", "token: 1:SUPERSECRETSUPERSECRET\n", "chmod 600"},
	} {
		text := strings.Replace(config, c.old, c.new, 1)
		require.NotEqual(t, config, text, name)
		mode := os.FileMode(0o600)
		if strings.Contains(name, "all the same") {
			mode = 0o644
		}
		_, err := notifier.LoadConfig(write("n.yaml", text, mode))
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), "SUPERSECRET", name)
		require.NotContains(t, err.Error(), "PATHSECRET", name)
	}
}
