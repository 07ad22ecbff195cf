package slack

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "xoxb-TOKENSECRET"

// read takes a message apart as Slack would show it.
func read(t *testing.T, _ *http.Request, body []byte) (got channeltest.Received) {
	var m struct {
		TS, Text string
		Blocks   []struct {
			Text   object
			Fields []object
		}
		Mrkdwn *bool
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Mrkdwn == nil || *m.Mrkdwn {
		t.Errorf("not a message: %s", body)
		return got
	}
	text := []string{m.Text}
	for _, b := range m.Blocks {
		text = append(text, b.Text.Text)
		for _, f := range b.Fields {
			text = append(text, f.Text)
		}
	}
	unescape := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace
	return channeltest.Received{Text: unescape(strings.Join(text, "\n")), Changes: m.TS, Marked: len(m.Blocks) > 0}
}

func bot(t *testing.T, url string) channel.Channel {
	t.Helper()
	b, err := NewBot(token, url+"/api/", true, Buttons{})
	require.NoError(t, err)
	return b
}

func TestBotConformance(t *testing.T) {
	t.Parallel()
	p := channeltest.Provider{
		Make: bot,
		Read: func(t *testing.T, r *http.Request, body []byte) channeltest.Received {
			got := read(t, r, body)
			want := map[bool]string{false: "/api/chat.postMessage", true: "/api/chat.update"}[got.Changes != ""]
			if r.URL.Path != want || r.Header.Get("Authorization") != "Bearer "+token || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
				t.Errorf("a wrong call: %s %v", r.URL, r.Header)
			}
			return got
		},
		Reply: func(w http.ResponseWriter, a channeltest.Answer, _ channeltest.Received) {
			body := map[channeltest.Answer]string{
				channeltest.Take: `{"ok":true,"channel":"C123","ts":"1772452800.000100"}`, channeltest.Refuse: `{"ok":false,"error":"msg_too_long"}`,
				channeltest.Gone: `{"ok":false,"error":"is_archived"}`, channeltest.Plain: `{"ok":false,"error":"invalid_blocks"}`,
			}[a]
			if a == channeltest.Later {
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusTooManyRequests)
				body = `{"ok":false,"error":"ratelimited"}`
			}
			_, _ = w.Write([]byte(body))
		},
	}
	channeltest.Run(t, channeltest.Options{
		New: p.New, Secrets: []string{"TOKENSECRET"}, Updates: true,
		Can: []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Gone, channeltest.Silent, channeltest.Plain},
	})
}

func TestHookConformance(t *testing.T) {
	t.Parallel()
	p := channeltest.Provider{
		Make: func(t *testing.T, url string) channel.Channel {
			t.Helper()
			h, err := NewHook(url+"/services/T0/B0/PATHSECRET", true)
			require.NoError(t, err)
			return h
		},
		Read: read,
		Reply: func(w http.ResponseWriter, a channeltest.Answer, _ channeltest.Received) {
			code, body := http.StatusOK, "ok"
			switch a {
			case channeltest.Later:
				w.Header().Set("Retry-After", "20")
				code, body = http.StatusTooManyRequests, "rate_limited"
			case channeltest.Refuse:
				code, body = http.StatusForbidden, "action_prohibited"
			case channeltest.Gone:
				code, body = http.StatusNotFound, "no_service"
			case channeltest.Plain:
				code, body = http.StatusBadRequest, "invalid_blocks"
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		},
	}
	channeltest.Run(t, channeltest.Options{
		New: p.New, Secrets: []string{"PATHSECRET"},
		Can: []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Gone, channeltest.Silent, channeltest.Plain},
	})
}

// Nothing of what an agent wrote is where Slack looks for markup: it stands in
// plain_text objects, and in the text only escaped.
func TestAgentsTextIsNoMarkup_invariant10(t *testing.T) {
	t.Parallel()
	a := channeltest.Alert(channel.Opened)
	a.Data.Headline = "<!channel> <https://evil.test|click> & *go*"
	for _, marked := range []bool{true, false} {
		m := compose(&a, marked)
		require.NotContains(t, m.Text, "<")
		require.Contains(t, m.Text, "&lt;!channel&gt; &lt;https://evil.test|click&gt; &amp; *go*")
		for _, b := range m.Blocks {
			b := b.(block)
			if b.Text != nil && b.Text.Type == "mrkdwn" {
				require.Equal(t, "<https://banksman.test/#/i/t.o.i|Review>", b.Text.Text)
			}
		}
	}
	raw, err := json.Marshal(compose(&a, true).Blocks)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(raw), "mrkdwn"))
	a.Data.Headline = strings.Repeat("x", 200)
	require.Equal(t, "section", compose(&a, true).Blocks[0].(block).Type, "a header takes 150 characters")
}

// What Slack says decides what follows.
func TestErrorsOfSlack(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]channel.Problem{
		"channel_not_found": {Class: channel.Refused}, "not_in_channel": {Class: channel.Refused}, "invalid_auth": {Class: channel.Refused},
		"is_archived": {Class: channel.Gone}, "token_revoked": {Class: channel.Gone}, "account_inactive": {Class: channel.Gone},
		"ratelimited": {}, "internal_error": {Unknown: true}, "never heard of": {Class: channel.Refused},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			r := channeltest.Provider{
				Make: bot, Read: read,
				Reply: func(w http.ResponseWriter, _ channeltest.Answer, _ channeltest.Received) {
					_, _ = w.Write([]byte(`{"ok":false,"error":"` + code + `"}`))
				},
			}.New(t)
			_, err := r.Channel(t).Send(t.Context(), channeltest.Alert(channel.Opened))
			var p *channel.Problem
			require.ErrorAs(t, err, &p)
			require.Equal(t, want.Class, p.Class)
			require.Equal(t, want.Unknown, p.Unknown)
			if !strings.Contains(code, " ") {
				require.ErrorContains(t, err, code)
			}
		})
	}
	r := channeltest.Provider{
		Make: bot, Read: read,
		Reply: func(w http.ResponseWriter, _ channeltest.Answer, _ channeltest.Received) {
			_, _ = w.Write([]byte("<html>a login page of the hotel</html>"))
		},
	}.New(t)
	_, err := r.Channel(t).Send(t.Context(), channeltest.Alert(channel.Opened))
	require.ErrorContains(t, err, "no_answer_of_slack")
}

func TestNewNamesTheField(t *testing.T) {
	t.Parallel()
	_, err := NewBot("", "", false, Buttons{})
	require.ErrorContains(t, err, "token: missing")
	_, err = NewBot("t", "http://slack.test", false, Buttons{})
	require.ErrorContains(t, err, "url: must begin with https")
	_, err = NewHook("", false)
	require.ErrorContains(t, err, "url: missing")
	for _, to := range []string{"C0123ABCD", "U0123ABCD", "#ops", "ops-team"} {
		require.Empty(t, CheckTo(to))
	}
	for _, to := range []string{"", "@ada", "<!channel>", "a b"} {
		require.NotEmpty(t, CheckTo(to))
	}
}
