package telegram

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "123456:TOKENSECRETTOKENSECRET"

func open(t *testing.T, url string) channel.Channel {
	t.Helper()
	c, err := New(token, url, true)
	require.NoError(t, err)
	return c
}

func read(t *testing.T, r *http.Request, body []byte) (got channeltest.Received) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil || m.Chat == "" || !m.Preview.Off {
		t.Errorf("not a message: %s", body)
	}
	got = channeltest.Received{Text: m.Text, Marked: len(m.Entities) > 0}
	method := "sendMessage"
	if m.ID != 0 {
		got.Changes, method = strconv.FormatInt(m.ID, 10), "editMessageText"
	}
	if r.URL.Path != "/bot"+token+"/"+method {
		t.Errorf("a wrong call: %s", r.URL)
	}
	return got
}

// say answers as Telegram does: an error has its status twice.
func say(w http.ResponseWriter, status int, description, parameters string) {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"ok":false,"error_code":` + strconv.Itoa(status) + `,"description":"` + description + `","parameters":{` + parameters + `}}`))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	edited := map[string]bool{}
	p := channeltest.Provider{
		Make: open, Read: read,
		Reply: func(w http.ResponseWriter, a channeltest.Answer, got channeltest.Received) {
			switch {
			case a == channeltest.Later:
				say(w, http.StatusTooManyRequests, "Too Many Requests: retry after 20", `"retry_after":20`)
			case a == channeltest.Refuse:
				say(w, http.StatusBadRequest, "Bad Request: message is too long", "")
			case a == channeltest.Gone:
				say(w, http.StatusForbidden, "Forbidden: bot was blocked by the user", "")
			case a == channeltest.Plain:
				say(w, http.StatusBadRequest, "Bad Request: can't parse entities: wrong offset", "")
			case got.Changes != "" && edited[got.Changes]:
				say(w, http.StatusBadRequest, "Bad Request: message is not modified: specified new message content is the same", "")
			default:
				edited[got.Changes] = true
				_, _ = w.Write([]byte(`{"ok":true,"result":{"message_id":77,"chat":{"id":42}}}`))
			}
		},
	}
	channeltest.Run(t, channeltest.Options{
		New: p.New, Secrets: []string{"TOKENSECRET"}, Updates: true,
		Can: []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Gone, channeltest.Silent, channeltest.Plain},
	})
}

// Entities say where what stands, counted as Telegram counts, and what an agent
// wrote is code, in which nothing is a link or a mention.
func TestAgentsTextIsNoMarkup_invariant10(t *testing.T) {
	t.Parallel()
	a := channeltest.Alert(channel.Opened)
	a.Data.Title, a.Data.Project = "😀 @ada *x* [a](https://evil.test)", "😀 shop"
	m := compose(&a, true)
	units := utf16.Encode([]rune(m.Text))
	var marked []string
	for _, e := range m.Entities {
		marked = append(marked, e.Type+" "+string(utf16.Decode(units[e.Offset:e.Offset+e.Length])))
	}
	require.Equal(t, []string{
		"bold build-7 wants to use Bash", "code 😀 @ada *x* [a](https://evil.test)", "code high", "code 😀 shop", "code s1", "code 2 Mar 2026, 12:00 UTC",
	}, marked)
	require.True(t, strings.HasSuffix(m.Text, "\nReview: https://banksman.test/#/i/t.o.i"))
	a.Data.Headline = "@ada wants"
	require.Equal(t, "code", compose(&a, true).Entities[0].Type)
}

func TestSentencesOfTelegram(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]struct {
		status int
		class  channel.Class
		words  string
	}{
		"Bad Request: chat not found":                                  {400, channel.Gone, "write to the bot first"},
		"Forbidden: user is deactivated":                               {403, channel.Gone, "the account is gone"},
		"Forbidden: bot was kicked from the supergroup chat":           {403, channel.Gone, "put out of the group"},
		"Bad Request: group chat was upgraded to a supergroup chat":    {400, channel.Refused, "another id now: -1001"},
		"Bad Request: message to edit not found":                       {400, channel.Refused, "was deleted"},
		"Unauthorized":                                                 {401, channel.Refused, "status 401"},
		"Bad Gateway":                                                  {502, channel.Retry, "status 502"},
		"Bad Request: SENTENCESECRET that nobody has ever seen before": {400, channel.Refused, "status 400"},
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			r := channeltest.Provider{
				Make: open, Read: read,
				Reply: func(w http.ResponseWriter, _ channeltest.Answer, _ channeltest.Received) {
					say(w, want.status, said, `"migrate_to_chat_id":-1001`)
				},
			}.New(t)
			_, err := r.Channel(t).Send(t.Context(), channeltest.Alert(channel.Opened))
			var p *channel.Problem
			require.ErrorAs(t, err, &p)
			require.Equal(t, want.class, p.Class)
			require.ErrorContains(t, err, want.words)
			require.NotContains(t, err.Error(), "SENTENCESECRET")
			require.NotContains(t, err.Error(), "TOKENSECRET")
		})
	}
}

func TestNewNamesTheField(t *testing.T) {
	t.Parallel()
	_, err := New("SECRET/../x", "", false)
	require.ErrorContains(t, err, "token: missing or not")
	require.NotContains(t, err.Error(), "SECRET")
	_, err = New(token, "ftp://x", false)
	require.ErrorContains(t, err, "url: must begin")
	for _, to := range []string{"42", "-10012", "@shop_ops"} {
		require.Empty(t, CheckTo(to))
	}
	for _, to := range []string{"", "ada", "@a b", "1 2"} {
		require.NotEmpty(t, CheckTo(to))
	}
	c := open(t, "https://tg.test").(*Channel)
	t.Cleanup(c.Close)
	_, err = c.Update(t.Context(), channel.Receipt{Ref: "42"}, channeltest.Alert(channel.Closed))
	require.ErrorContains(t, err, "names no message")
}
