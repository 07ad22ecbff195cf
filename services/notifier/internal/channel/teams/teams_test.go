package teams

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

func TestConformance(t *testing.T) {
	t.Parallel()
	p := channeltest.Provider{
		Make: func(t *testing.T, url string) channel.Channel {
			t.Helper()
			c, err := New(url+"/workflows/PATHSECRET?sig=QUERYSECRET", true)
			require.NoError(t, err)
			return c
		},
		Read: func(t *testing.T, _ *http.Request, body []byte) channeltest.Received {
			var m message
			if err := json.Unmarshal(body, &m); err != nil || len(m.Attachments) != 1 || m.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
				t.Errorf("not a message: %s", body)
				return channeltest.Received{}
			}
			c := m.Attachments[0].Content
			var text []string
			for _, b := range c.Body {
				if b.Type != "RichTextBlock" {
					t.Errorf("%s knows markup", b.Type)
				}
				var line string
				for _, r := range b.Inlines {
					line += r.Text
				}
				text = append(text, line)
			}
			for _, a := range c.Actions {
				text = append(text, a.Type, a.URL)
			}
			return channeltest.Received{Text: strings.Join(text, "\n")}
		},
		Reply: func(w http.ResponseWriter, a channeltest.Answer, _ channeltest.Received) {
			switch a {
			case channeltest.Later:
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusTooManyRequests)
			case channeltest.Refuse:
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"error":{"code":"WorkflowTriggerIsNotEnabled","message":"ERRORSECRET"}}`))
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		},
	}
	channeltest.Run(t, channeltest.Options{
		New: p.New, Secrets: []string{"PATHSECRET", "QUERYSECRET", "ERRORSECRET"},
		Can: []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Silent},
	})
	r := p.New(t)
	r.Next(channeltest.Refuse)
	_, err := r.Channel(t).Send(t.Context(), channeltest.Alert(channel.Opened))
	require.ErrorContains(t, err, "WorkflowTriggerIsNotEnabled")
	_, err = New("", false)
	require.ErrorContains(t, err, "url: missing")
}
