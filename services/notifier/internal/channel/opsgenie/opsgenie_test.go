package opsgenie

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

const apiKey = "KEYSECRET-1"

// provider is a double that keeps the aliases of what was created and closed.
func provider(created, closed *[]string) channeltest.Provider {
	return channeltest.Provider{
		Make: func(t *testing.T, url string) channel.Channel {
			t.Helper()
			c, err := New(Options{Key: apiKey, URL: url + "/", AllowPrivate: true, Source: "https://banksman.test"})
			require.NoError(t, err)
			return c
		},
		Read: func(t *testing.T, r *http.Request, body []byte) channeltest.Received {
			if r.Header.Get("Authorization") != "GenieKey "+apiKey {
				t.Error("no key")
			}
			if rest, ok := strings.CutPrefix(r.URL.Path, "/v2/alerts/"); ok {
				var c closing
				id, ok := strings.CutSuffix(rest, "/close")
				if err := json.Unmarshal(body, &c); err != nil || !ok || r.URL.Query().Get("identifierType") != "alias" {
					t.Errorf("not a closing: %s %s", r.URL, body)
				}
				*closed = append(*closed, id)
				return channeltest.Received{ID: id, Text: c.Note, Changes: id}
			}
			var a alert
			if err := json.Unmarshal(body, &a); err != nil || len([]rune(a.Message)) > maxMessage || !strings.HasPrefix(a.Priority, "P") {
				t.Errorf("not an alert: %s", body)
			}
			*created = append(*created, a.Alias)
			return channeltest.Received{ID: a.Alias, Text: a.Message + "\n" + a.Description}
		},
		Reply: func(w http.ResponseWriter, a channeltest.Answer, _ channeltest.Received) {
			switch a {
			case channeltest.Later:
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusTooManyRequests)
			case channeltest.Refuse:
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = w.Write([]byte(`{"message":"ERRORSECRET"}`))
			default:
				w.WriteHeader(http.StatusAccepted)
				_, _ = w.Write([]byte(`{"result":"Request will be processed","requestId":"43a29c5c"}`))
			}
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	var created, closed []string
	channeltest.Run(t, channeltest.Options{
		New: provider(&created, &closed).New, Secrets: []string{"KEYSECRET", "ERRORSECRET"}, Keyed: true, Updates: true,
		Can: []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Silent},
	})
}

// The end closes the alert that the first message created and a reminder
// repeated; digests to one person are one alert.
func TestEndClosesTheAlert_B67(t *testing.T) {
	t.Parallel()
	var created, closed []string
	r := provider(&created, &closed).New(t)
	c := r.Channel(t)
	for _, typ := range []string{channel.Opened, channel.Reminder, channel.Closed} {
		_, err := c.Send(t.Context(), channeltest.Alert(typ))
		require.NoError(t, err)
	}
	require.Len(t, created, 2)
	require.Equal(t, created[0], created[1])
	require.Equal(t, created[:1], closed)
	one, two := channeltest.Alert(channel.Digest), channeltest.Alert(channel.Digest)
	two.Key = "digest.other"
	require.Equal(t, alias(&one), alias(&two))
	require.NotEqual(t, created[0], alias(&one))
	_, err := New(Options{})
	require.ErrorContains(t, err, "token: missing")
}
