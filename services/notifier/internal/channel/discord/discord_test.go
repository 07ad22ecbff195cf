package discord

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, url string) channel.Channel {
	t.Helper()
	c, err := New(url+"/api/webhooks/1/PATHSECRET?thread_id=7", true)
	require.NoError(t, err)
	return c
}

var escaped = regexp.MustCompile(`\\([^a-zA-Z0-9 ])`)

// read takes a message apart as Discord would show it.
func read(t *testing.T, r *http.Request, body []byte) (got channeltest.Received) {
	var m struct {
		Content  string
		Embeds   []embed
		Mentions struct{ Parse *[]string } `json:"allowed_mentions"`
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Mentions.Parse == nil || len(*m.Mentions.Parse) != 0 || m.Embeds == nil {
		t.Errorf("not a message, or mentions are admitted: %s", body)
	}
	text := []string{m.Content}
	for _, e := range m.Embeds {
		text = append(text, e.Title, e.URL, strings.ReplaceAll(e.Description, "**", ""))
	}
	got = channeltest.Received{Text: escaped.ReplaceAllString(strings.Join(text, "\n"), "$1"), Marked: len(m.Embeds) > 0}
	switch r.Method + " " + r.URL.String() {
	case "POST /api/webhooks/1/PATHSECRET?thread_id=7&wait=true":
	case "PATCH /api/webhooks/1/PATHSECRET/messages/99?thread_id=7":
		got.Changes = "99"
	default:
		t.Errorf("a wrong call: %s %s", r.Method, r.URL)
	}
	return got
}

func answer(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	p := channeltest.Provider{
		Make: open, Read: read,
		Reply: func(w http.ResponseWriter, a channeltest.Answer, _ channeltest.Received) {
			switch a {
			case channeltest.Later:
				w.Header().Set("Retry-After", "20")
				answer(w, http.StatusTooManyRequests, `{"message":"You are being rate limited.","retry_after":19.45,"global":false}`)
			case channeltest.Refuse:
				answer(w, http.StatusForbidden, `{"message":"ERRORSECRET","code":50013}`)
			case channeltest.Gone:
				answer(w, http.StatusNotFound, `{"message":"Unknown Webhook","code":10015}`)
			case channeltest.Plain:
				answer(w, http.StatusBadRequest, `{"message":"Invalid Form Body","code":50035}`)
			default:
				answer(w, http.StatusOK, `{"id":"99","channel_id":"5"}`)
			}
		},
	}
	channeltest.Run(t, channeltest.Options{
		New: p.New, Secrets: []string{"PATHSECRET", "ERRORSECRET"}, Updates: true,
		Can: []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Gone, channeltest.Silent, channeltest.Plain},
	})
}

// Each character that could be markup or make a link has a backslash before it.
func TestAgentsTextIsNoMarkup_invariant10(t *testing.T) {
	t.Parallel()
	a := channeltest.Alert(channel.Opened)
	a.Data.Headline = "-# **x** <@1> [a](https://evil.test) `b` ~~c~~ ||d|| \\*"
	for _, marked := range []bool{true, false} {
		m := compose(&a, marked)
		text := m.Content
		if marked {
			text = m.Embeds[0].Title + "\n" + m.Embeds[0].Description
		}
		require.Contains(t, text, `\-\# \*\*x\*\* \<\@1\> \[a\]\(https\://evil.test\) \`+"`b\\` "+`\~\~c\~\~ \|\|d\|\| \\\*`)
		require.NotContains(t, text, "](https://evil")
		require.NotContains(t, text, " @everyone")
	}
	a.Data.Link = "https://banksman.test/) [x](https://evil.test"
	require.Contains(t, compose(&a, true).Embeds[0].Description, "[Review](https://banksman.test/%29%20[x]%28https://evil.test)")
	a.Data.Headline = strings.Repeat("*", 500)
	require.LessOrEqual(t, len([]rune(compose(&a, true).Embeds[0].Title)), maxTitle)
	require.LessOrEqual(t, len([]rune(compose(&a, false).Content)), maxContent)
}

// Discord says more exactly in the body when to come back than in the header.
func TestTheLaterTimeCounts(t *testing.T) {
	t.Parallel()
	r := channeltest.Provider{
		Make: open, Read: read,
		Reply: func(w http.ResponseWriter, _ channeltest.Answer, _ channeltest.Received) {
			answer(w, http.StatusTooManyRequests, `{"retry_after":2.5}`)
		},
	}.New(t)
	_, err := r.Channel(t).Send(t.Context(), channeltest.Alert(channel.Opened))
	var p *channel.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, 2500*time.Millisecond, p.RetryAfter)
	_, err = New("", false)
	require.ErrorContains(t, err, "url: missing")
}
