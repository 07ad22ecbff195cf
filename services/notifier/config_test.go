package notifier_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier"
)

func writeConfig(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "n.json")
	require.NoError(t, os.WriteFile(file, []byte(text), mode))
	return file
}

func TestLoadConfig(t *testing.T) {
	t.Parallel()
	c, err := notifier.LoadConfig(writeConfig(t, `{"ledger_replicas":3,"channels":[
		{"name":"out","type":"log","after":"90s","reminder":false},
		{"name":"ops","type":"webhook","url":"https://example.com/h","secrets":["`+secret+`"]}]}`, 0o600))
	require.NoError(t, err)
	require.Equal(t, 3, c.LedgerReplicas)
	require.Equal(t, 90*time.Second, time.Duration(*c.Channels[0].After))
	require.False(t, *c.Channels[0].Reminder)
	require.Equal(t, "https://example.com/h", string(c.Channels[1].URL))
	require.Equal(t, secret, string(c.Channels[1].Secrets[0]))

	// Printing and encoding a configuration gives nothing away.
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v", c, c, c), string(raw)} {
		require.NotContains(t, shown, "whsec_")
		require.NotContains(t, shown, "example.com")
	}

	_, err = notifier.LoadConfig(writeConfig(t, `{}`, 0o644))
	require.NoError(t, err, "nothing secret, nothing to hide")
}

func TestLoadConfigNamesTheFieldAndNoSecret(t *testing.T) {
	t.Parallel()
	hook := func(more string) string {
		return `{"channels":[{"name":"a","type":"webhook","url":"https://h.test/PATHSECRET?q=QUERYSECRET","secrets":["` + secret + `"]` + more + `}]}`
	}
	for name, c := range map[string]struct {
		text, want string
		mode       os.FileMode
	}{
		"not JSON":           {text: `{`, want: "n.json"},
		"unknown field":      {text: `{"chanels":[]}`, want: "chanels"},
		"doubled field":      {text: `{"channels":[],"channels":[]}`, want: "channels"},
		"trailing text":      {text: `{} {}`, want: "n.json"},
		"wrong type":         {text: `{"ledger_replicas":"SUPERSECRET"}`, want: "ledger_replicas"},
		"all by a route":     {text: `{"channels":[{"name":"b","type":"push","to":"*"}],"recipients":[{"name":"ada","channels":[{"channel":"b"}]}],"routes":[{"name":"all","steps":[{"to":["ada"]}]}]}`, want: "channels[0].to: is everybody's sign"},
		"all by a recipient": {text: `{"channels":[{"name":"b","type":"push"}],"recipients":[{"name":"ada","channels":[{"channel":"b","to":"*"}]}],"routes":[{"name":"all","steps":[{"to":["ada"]}]}]}`, want: "recipients[0].channels[0].to: is everybody's sign"},
		"all of a chat":      {text: `{"channels":[{"name":"b","type":"telegram","token":"1:SUPERSECRETSUPERSECRET","to":"*"}]}`, want: "channels[0].to: not the id"},
		"replicas":           {text: `{"ledger_replicas":-1}`, want: "ledger_replicas"},
		"no name":            {text: `{"channels":[{"type":"log"}]}`, want: "channels[0].name: missing"},
		"bad name":           {text: `{"channels":[{"name":"a b","type":"log"}]}`, want: "channels[0].name"},
		"same name":          {text: `{"channels":[{"name":"a","type":"log"},{"name":"a","type":"log"}]}`, want: "channels[1].name"},
		"unknown type":       {text: `{"channels":[{"name":"a","type":"pigeon"}]}`, want: "channels[0].type"},
		"log with address":   {text: `{"channels":[{"name":"a","type":"log","url":"https://x"}]}`, want: "channels[0].url: is not known to a channel of the type log"},
		"chat without place": {text: `{"channels":[{"name":"a","type":"telegram","token":"1:SUPERSECRETSUPERSECRET"}]}`, want: "channels[0].to: missing"},
		"bad place":          {text: `{"channels":[{"name":"a","type":"ntfy","to":"a/b"}]}`, want: "channels[0].to: not a topic"},
		"hook with a place":  {text: `{"channels":[{"name":"a","type":"slack","url":"https://h.test/PATHSECRET","to":"C0123"}]}`, want: "channels[0].to: is not known"},
		"readable token":     {text: `{"channels":[{"name":"a","type":"gotify","url":"https://h.test","token":"SUPERSECRET"}]}`, mode: 0o644, want: "chmod 600"},
		"readable password":  {text: `{"channels":[{"name":"a","type":"mail","url":"smtp://h.test","user":"u","password":"SUPERSECRET","from":"a@b.test","to":"a@b.test"}]}`, mode: 0o644, want: "chmod 600"},
		"readable hook":      {text: `{"channels":[{"name":"a","type":"discord","url":"https://h.test/PATHSECRET"}]}`, mode: 0o644, want: "chmod 600"},
		"readable signer":    {text: `{"channels":[{"name":"a","type":"slack","token_file":"/dev/null","to":"C0123","signing_secret":"SUPERSECRET","listen":"127.0.0.1:0"}]}`, mode: 0o644, want: "chmod 600"},
		"readable app":       {text: `{"channels":[{"name":"a","type":"slack","token_file":"/dev/null","to":"C0123","app_token":"xapp-SUPERSECRET"}]}`, mode: 0o644, want: "chmod 600"},
		"foreign field":      {text: `{"channels":[{"name":"a","type":"teams","url":"https://h.test/PATHSECRET","token":"SUPERSECRET"}]}`, want: "channels[0].token: is not known"},
		"bad delay":          {text: `{"channels":[{"name":"a","type":"log","after":"SUPERSECRET"}]}`, want: "n.json:1:47: channels[0].after: not a duration"},
		"negative delay":     {text: `{"channels":[{"name":"a","type":"log","after":"-1s"}]}`, want: "channels[0].after"},
		"readable secrets":   {text: hook(""), mode: 0o644, want: "chmod 600"},
		"no address":         {text: `{"channels":[{"name":"a","type":"webhook"}]}`, want: "channels[0].url: missing"},
		"no secret":          {text: `{"channels":[{"name":"a","type":"webhook","url":"https://h.test/PATHSECRET"}]}`, want: "channels[0].secrets: missing"},
		"bad secret":         {text: strings.Replace(hook(""), secret, "whsec_!SUPERSECRET", 1), want: "channels[0].secrets[0]"},
		"short secret":       {text: strings.Replace(hook(""), secret, "whsec_U1VQRVJTRUNSRVQ=", 1), want: "channels[0].secrets[0]: is 11 bytes"},
		"foreign secret":     {text: strings.Replace(hook(""), secret, "SUPERSECRET", 1), want: "must begin with whsec_"},
		"plain http":         {text: strings.Replace(hook(""), "https", "http", 1), want: "channels[0].url: must begin with https"},
		"another scheme":     {text: strings.Replace(hook(`,"allow_private":true`), "https", "file", 1), want: "channels[0].url"},
		"user in address":    {text: strings.Replace(hook(""), "h.test", "u:SUPERSECRET@h.test", 1), want: "user or password"},
		"broken address":     {text: strings.Replace(hook(""), "h.test", "h test%zz", 1), want: "channels[0].url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mode := c.mode
			if mode == 0 {
				mode = 0o600
			}
			_, err := notifier.LoadConfig(writeConfig(t, c.text, mode))
			var ce *notifier.ConfigError
			require.ErrorAs(t, err, &ce)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "n.json")
			for _, s := range []string{"SUPERSECRET", "PATHSECRET", "QUERYSECRET", secret, "U1VQRVJTRUNSRVQ"} {
				require.NotContains(t, err.Error(), s)
			}
		})
	}
	_, err := notifier.LoadConfig(writeConfig(t, `channels:
  - {name: mail, type: log}
recipients:
  - name: ada
    channels: [{channel: mail}]
    quiet:
      - {from: "22:00", to: "25:00"}
`, 0o600))
	require.ErrorContains(t, err, "n.json:7:29: recipients[0].quiet[0].to: must be a time of the day")
	_, err = notifier.LoadConfig(writeConfig(t, `channels:
  - {name: mail, type: log}
recipients:
  - name: ada
    channels: [{channel: mail}]
routes:
  - name: all
    steps:
      - after: 5s
        to: [ada, ada/mial]
`, 0o600))
	require.ErrorContains(t, err, `n.json:10:13: routes[0].steps[0].to: there is no recipient "ada/mial"`)
	_, err = notifier.LoadConfig(writeConfig(t, "channels:\n  - name: mail\n    typ: log\n", 0o600))
	require.ErrorContains(t, err, `n.json:3:5: channels[0]: unknown field "typ": is "type" meant?`)
	_, err = notifier.LoadConfig(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Every type of channel can be configured, with one address for all or one of
// each recipient.
func TestLoadConfigKnowsAllTypes(t *testing.T) {
	t.Parallel()
	all := `channels:
  - {name: mail, type: mail, url: "smtp://mail.test:587", user: u, password: p, from: "Banksman <b@mail.test>"}
  - {name: slack, type: slack, token: xoxb-1}
  - {name: hook, type: slack, url: "https://hooks.slack.test/services/x"}
  - {name: telegram, type: telegram, token: "1:abcdefghij"}
  - {name: discord, type: discord, url: "https://discord.test/api/webhooks/1/x"}
  - {name: teams, type: teams, url: "https://teams.test/workflows/x"}
  - {name: ntfy, type: ntfy, to: everybody}
  - {name: gotify, type: gotify, url: "https://gotify.test", token: A1}
  - {name: pagerduty, type: pagerduty, token: r1}
  - {name: opsgenie, type: opsgenie, token: k1}
  - {name: desktop, type: desktop}
recipients:
  - name: ada
    channels:
      - {channel: mail, to: ada@mail.test}
      - {channel: slack, to: U0ADA}
      - {channel: hook}
      - {channel: telegram, to: "42"}
      - {channel: discord}
      - {channel: teams}
      - {channel: ntfy}
      - {channel: gotify}
      - {channel: pagerduty}
      - {channel: opsgenie}
      - {channel: desktop}
routes:
  - name: all
    steps: [{to: [ada]}]
`
	c, err := notifier.LoadConfig(writeConfig(t, all, 0o600))
	require.NoError(t, err)
	require.Len(t, c.Channels, 11)
	for change, want := range map[string][2]string{
		`, to: ada@mail.test}`: {"}", "recipients[0].channels[0].to: missing: mail needs an address to send to"},
		`{channel: discord}`:   {`{channel: discord, to: "x"}`, "recipients[0].channels[4].to: is not known"},
		`to: "42"`:             {`to: ada`, "recipients[0].channels[3].to: not the id of a chat"},
	} {
		_, err := notifier.LoadConfig(writeConfig(t, strings.Replace(all, change, want[0], 1), 0o600))
		require.ErrorContains(t, err, want[1])
		require.ErrorContains(t, err, "n.json:", "with its line")
	}
}

// What would never count, or never fit, is refused where it stands, with the words that
// would.
func TestLoadConfigRefusesWhatNeverCounts(t *testing.T) {
	t.Parallel()
	const whole = `channels:
  - {name: out, type: log}
recipients:
  - name: ada
    user: ada
    channels: [{channel: out}]
    bypass: [critical]
routes:
  - name: all
    match: {risk: [high, "c*"], kind: ["*"]}
    steps: [{to: [ada]}]
    repeat: 1
    every: 5m
    remind: [1m]
`
	_, err := notifier.LoadConfig(writeConfig(t, whole, 0o600))
	require.NoError(t, err)
	for _, c := range []struct{ was, is, want string }{
		{"[critical]", "[high, Critical]", `:7:20: recipients[0].bypass[1]: "Critical" is none of low, medium, high, critical`},
		{"[critical]", "[kritisch]", `:7:14: recipients[0].bypass[0]: "kritisch" is none of`},
		{"[critical]", `["*"]`, `:7:14: recipients[0].bypass[0]: "*" is none of`},
		{"[high,", "[hihg,", `:10:20: routes[0].match.risk[0]: "hihg" is none of low, medium, high, critical`},
		{`kind: ["*"]`, "kind: [aproval]", `:10:40: routes[0].match.kind[0]: "aproval" is none of approval, form, question`},
		{`kind: ["*"]`, `kind: ["x*"]`, `routes[0].match.kind[0]: "x*" is none of`},
		{`kind: ["*"]`, "zone: Europe/Berlin", ":10:39: routes[0].match.zone: counts only with time"},
		{"user: ada", "user: ada lovelace", `:5:11: recipients[0].user: "ada lovelace" is not the id of a user`},
		{"repeat: 1", "repeat: 0", ":13:12: routes[0].every: counts only with repeat"},
		{"[1m]", "[1m, 0s]", ":14:18: routes[0].remind[1]: must be more than 0s"},
		{"[1m]", "[0s or 50%]", "routes[0].remind[0]: must be more than 0s"},
		{"type: log}", "type: desktop, url: nonsense}", "channels[0].url: is not the address of a session bus"},
		{"type: log}", "type: log, after: 5s}", "channels[0].after: counts only where there are no routes"},
		{"type: log}", "type: log, reminder: false}", "channels[0].reminder: counts only where there are no routes"},
		{"channels:\n", "ledger_replicas: 6\nchannels:\n", "ledger_replicas: must be 1 to 5, or 0 for the default"},
	} {
		_, err := notifier.LoadConfig(writeConfig(t, strings.Replace(whole, c.was, c.is, 1), 0o600))
		require.ErrorContains(t, err, c.want, c.is)
	}
}
