package notifier_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier"
)

// Buttons are for channels that have them, and in a chat for the people on its list: no
// list is nobody.
func TestButtonsNeedAListOfPeople_B57(t *testing.T) {
	t.Parallel()
	const slackBot = "{name: chat, type: slack, token: xoxb-x, to: C0123ABCD, "
	for name, c := range map[string]struct{ channel, problem string }{
		"push":                {"{name: chat, type: push}", ""},
		"a push says to whom": {"{name: chat, type: push, from: ops}", "channels[0].from: must begin with mailto:"},
		"slack":               {slackBot + "signing_secret: s, listen: '127.0.0.1:8090', people: [{account: U1, user: ada}]}", ""},
		"nobody":              {slackBot + "signing_secret: s, listen: '127.0.0.1:8090'}", "decide: needs the people of the channel"},
		"no signature":        {slackBot + "people: [{account: U1, user: ada}]}", "channels[0].people: cannot press: that takes app_token, or signing_secret and listen"},
		"a webhook":           {"{name: chat, type: slack, url: 'https://hooks.slack.test/services/x'}", "recipients[0].channels[0].decide: there are no buttons behind an incoming webhook"},
		"a webhook's people":  {"{name: chat, type: slack, url: 'https://hooks.slack.test/services/x', people: [{account: U1, user: ada}]}", "channels[0].people: cannot press: an incoming webhook"},
		"half a signature":    {slackBot + "listen: '127.0.0.1:8090', people: [{account: U1, user: ada}]}", "channels[0].listen: and signing_secret belong together"},
		"over a socket":       {slackBot + "app_token: xapp-1-A, people: [{account: U1, user: ada}]}", ""},
		"both roads":          {slackBot + "app_token: xapp-1-A, signing_secret: s, listen: '127.0.0.1:8090', people: [{account: U1, user: ada}]}", "channels[0].app_token: stands beside"},
		"a bot's token":       {slackBot + "app_token: xoxb-1, people: [{account: U1, user: ada}]}", "channels[0].app_token: is not the token of an app"},
		"of a workspace":      {slackBot + "signing_secret: s, listen: '127.0.0.1:8090', team: T0123, people: [{account: U1, user: ada}]}", ""},
		"of no workspace":     {slackBot + "signing_secret: s, listen: '127.0.0.1:8090', team: acme, people: [{account: U1, user: ada}]}", "channels[0].team: is not the id of a workspace"},
		"telegram":            {"{name: chat, type: telegram, token: '123456:abcdefghijklmnop', to: '42', people: [{account: '42', user: ada}]}", ""},
		"twice":               {"{name: chat, type: telegram, token: '123456:abcdefghijklmnop', to: '42', people: [{account: '42', user: ada}, {account: '42', user: bob}]}", "people[1].account: stands twice"},
		"no account":          {"{name: chat, type: telegram, token: '123456:abcdefghijklmnop', to: '42', people: [{user: ada}]}", "people[0].account: missing"},
		"no user":             {"{name: chat, type: telegram, token: '123456:abcdefghijklmnop', to: '42', people: [{account: '42'}]}", "people[0].user: missing"},
		"no such thing":       {"{name: chat, type: log}", "decide: there are no buttons in a channel of the type log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "notifier.yaml")
			text := "channels: [" + c.channel + "]\nrecipients: [{name: ada, user: ada, channels: [{channel: chat, decide: buttons}]}]\nroutes: [{name: all, steps: [{to: [ada]}]}]\n"
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			_, err := notifier.LoadConfig(file)
			if c.problem == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.problem)
		})
	}
}

// One replica at a time asks for presses; another takes over when that one is gone.
func TestOneReplicaAsksForPresses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := time.Now()
	hold := func(by string, at time.Time) bool {
		mine, err := b.ledger.Hold(t.Context(), "chat", by, at, at.Add(30*time.Second))
		require.NoError(t, err)
		return mine
	}
	require.True(t, hold("a", now))
	require.False(t, hold("b", now.Add(29*time.Second)))
	require.True(t, hold("a", now.Add(29*time.Second)), "it keeps what it has")
	require.False(t, hold("b", now.Add(58*time.Second)))
	require.True(t, hold("b", now.Add(time.Minute)))
	require.False(t, hold("a", now.Add(time.Minute)))
}
