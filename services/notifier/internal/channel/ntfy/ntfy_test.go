package ntfy

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "tk_TOKENSECRET"

// provider is a double of ntfy: as of 2.16, or an older one.
func provider(old bool) channeltest.Provider {
	seen := map[string]bool{}
	return channeltest.Provider{
		Make: func(t *testing.T, url string) channel.Channel {
			t.Helper()
			c, err := New(url, token, true)
			require.NoError(t, err)
			return topic{c}
		},
		Read: func(t *testing.T, r *http.Request, body []byte) (got channeltest.Received) {
			var m message
			if err := json.Unmarshal(body, &m); err != nil || m.Topic != "ops" || m.Priority < 1 || m.Priority > 5 || m.Click == "" || !topics.MatchString(m.Sequence) {
				t.Errorf("not a message: %s", body)
			}
			if r.URL.Path != "/" || r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer "+token {
				t.Errorf("a wrong call: %s %s", r.Method, r.URL)
			}
			got = channeltest.Received{ID: m.Sequence, Text: m.Title + "\n" + m.Message}
			if len(m.Tags) == 1 && m.Tags[0] == "checkered_flag" && seen[m.Sequence] {
				got.Changes = m.Sequence
			}
			seen[m.Sequence] = true
			return got
		},
		Reply: func(w http.ResponseWriter, a channeltest.Answer, got channeltest.Received) {
			switch a {
			case channeltest.Later:
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = w.Write([]byte(`{"code":42901,"http":429,"error":"limit reached: ERRORSECRET"}`))
			case channeltest.Refuse:
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"code":40301,"http":403,"error":"forbidden ERRORSECRET"}`))
			default:
				sequence := `"sequence_id":"` + got.ID + `",`
				if old {
					sequence = ""
				}
				_, _ = w.Write([]byte(`{` + sequence + `"id":"sPs71M8A2T","event":"message"}`))
			}
		},
	}
}

// topic is the channel with the recipient's address that it needs.
type topic struct{ *Channel }

func (c topic) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	a.To = "ops"
	return c.Channel.Send(ctx, a)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, channeltest.Options{
		New: provider(false).New, Secrets: []string{"TOKENSECRET", "ERRORSECRET"}, Keyed: true, Updates: true,
		Can: []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Silent},
	})
}

// A server that knows no sequence ids shows the end as a message of its own.
func TestOlderServerHasNothingToChange(t *testing.T) {
	t.Parallel()
	receipt, err := provider(true).New(t).Channel(t).Send(t.Context(), channeltest.Alert(channel.Opened))
	require.NoError(t, err)
	require.Empty(t, receipt.Ref)
}

func TestPriorityFollowsTheRisk(t *testing.T) {
	t.Parallel()
	var got []int
	p := provider(false)
	read := p.Read
	p.Read = func(t *testing.T, r *http.Request, body []byte) channeltest.Received {
		var m message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		got = append(got, m.Priority)
		return read(t, r, body)
	}
	r := p.New(t)
	c := r.Channel(t)
	a := channeltest.Alert(channel.Opened)
	for _, risk := range []string{"low", "medium", "high", "critical"} {
		a.Data.Risk = risk
		_, err := c.Send(t.Context(), a)
		require.NoError(t, err)
	}
	_, err := c.Send(t.Context(), channeltest.Alert(channel.Closed))
	require.NoError(t, err)
	require.Equal(t, []int{2, 3, 4, 5, 2}, got)
}

func TestNewNamesTheField(t *testing.T) {
	t.Parallel()
	_, err := New("http://ntfy.test", "", false)
	require.ErrorContains(t, err, "url: must begin with https")
	require.Empty(t, CheckTo("ops-1_A"))
	for _, to := range []string{"", "a/b", "a b"} {
		require.NotEmpty(t, CheckTo(to))
	}
}
