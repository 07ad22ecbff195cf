package gotify

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "A.TOKENSECRET"

func TestConformance(t *testing.T) {
	t.Parallel()
	p := channeltest.Provider{
		Make: func(t *testing.T, url string) channel.Channel {
			t.Helper()
			c, err := New(url+"/", token, true)
			require.NoError(t, err)
			return c
		},
		Read: func(t *testing.T, r *http.Request, body []byte) channeltest.Received {
			var m struct {
				Title, Message string
				Priority       int
				Extras         struct {
					Display      struct{ ContentType string }         `json:"client::display"`
					Notification struct{ Click struct{ URL string } } `json:"client::notification"`
				}
			}
			err := json.Unmarshal(body, &m)
			if err != nil || m.Title == "" || m.Message == "" || m.Priority < 0 || m.Priority > 10 || m.Extras.Display.ContentType != "text/plain" ||
				m.Extras.Notification.Click.URL != "https://banksman.test/#/i/t.o.i" {
				t.Errorf("not a message: %s", body)
			}
			if r.URL.String() != "/message" || r.Header.Get("X-Gotify-Key") != token {
				t.Errorf("a wrong call: %s", r.URL)
			}
			return channeltest.Received{Text: m.Title + "\n" + m.Message}
		},
		Reply: func(w http.ResponseWriter, a channeltest.Answer, _ channeltest.Received) {
			switch a {
			case channeltest.Later: // of a proxy before it; Gotify itself does not say so
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusServiceUnavailable)
			case channeltest.Refuse:
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = w.Write([]byte(`{"error":"Unauthorized","errorCode":401,"errorDescription":"ERRORSECRET"}`))
			default:
				_, _ = w.Write([]byte(`{"id":25,"appid":5}`))
			}
		},
	}
	channeltest.Run(t, channeltest.Options{
		New: p.New, Secrets: []string{"TOKENSECRET", "ERRORSECRET"},
		Can: []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Silent},
	})
	_, err := New("https://gotify.test", "", false)
	require.ErrorContains(t, err, "token: missing")
	_, err = New("", token, false)
	require.ErrorContains(t, err, "url: missing")
}
