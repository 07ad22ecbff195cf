package pagerduty

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key32 = "ROUTINGSECRETROUTINGSECRET000000"

func open(t *testing.T, url string) *Channel {
	t.Helper()
	c, err := New(Options{RoutingKey: key32, URL: url + "/v2/enqueue", AllowPrivate: true, Source: "https://banksman.test"})
	require.NoError(t, err)
	return c
}

func TestConformance(t *testing.T) {
	t.Parallel()
	p := channeltest.Provider{
		Make: func(t *testing.T, url string) channel.Channel { t.Helper(); return open(t, url) },
		Read: func(t *testing.T, r *http.Request, body []byte) channeltest.Received {
			var e event
			if err := json.Unmarshal(body, &e); err != nil || e.RoutingKey != key32 || e.Payload == nil || e.Payload.Source == "" || e.Payload.Severity == "" || len(e.DedupKey) > 255 {
				t.Errorf("not an event: %s", body)
				return channeltest.Received{}
			}
			got := channeltest.Received{ID: e.DedupKey, Text: e.Payload.Summary + "\n" + e.ClientURL}
			if e.Action == "resolve" {
				got.Changes = e.DedupKey
			}
			for _, name := range slices.Sorted(maps.Keys(e.Payload.Details)) {
				got.Text += "\n" + e.Payload.Details[name]
			}
			return got
		},
		Reply: func(w http.ResponseWriter, a channeltest.Answer, _ channeltest.Received) {
			switch a {
			case channeltest.Later:
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusTooManyRequests)
			case channeltest.Refuse:
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"status":"invalid event","message":"ERRORSECRET","errors":[]}`))
			default:
				w.WriteHeader(http.StatusAccepted)
				_, _ = w.Write([]byte(`{"status":"success","message":"Event processed","dedup_key":"k"}`))
			}
		},
	}
	channeltest.Run(t, channeltest.Options{
		New: p.New, Secrets: []string{"ROUTINGSECRET", "ERRORSECRET"}, Keyed: true, Updates: true,
		Can: []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Silent},
	})
}

// The end resolves what the first event triggered and a reminder repeated.
func TestEndResolvesTheAlert_B67(t *testing.T) {
	t.Parallel()
	c := open(t, "https://pd.test")
	t.Cleanup(c.Close)
	var actions []string
	keys := map[string]bool{}
	for _, typ := range []string{channel.Opened, channel.Reminder, channel.Closed} {
		a := channeltest.Alert(typ)
		e := c.compose(&a)
		actions = append(actions, e.Action)
		keys[e.DedupKey] = true
		if typ == channel.Closed {
			require.Equal(t, "Denied by Bob: build-7 wants to use Bash", e.Payload.Summary)
		}
	}
	require.Equal(t, []string{"trigger", "trigger", "resolve"}, actions)
	require.Equal(t, map[string]bool{"banksman t.o.i": true}, keys)
	one, two := channeltest.Alert(channel.Digest), channeltest.Alert(channel.Digest)
	two.Key = "digest.other"
	require.Equal(t, key(&one), key(&two), "digests to one person are one alert")

	var got []string
	a := channeltest.Alert(channel.Opened)
	for _, risk := range []string{"low", "medium", "high", "critical"} {
		a.Data.Risk = risk
		got = append(got, c.compose(&a).Payload.Severity)
	}
	require.Equal(t, []string{"info", "warning", "error", "critical"}, got)
}

func TestNewNamesTheField(t *testing.T) {
	t.Parallel()
	_, err := New(Options{})
	require.ErrorContains(t, err, "token: missing")
	_, err = New(Options{RoutingKey: key32, URL: "http://pd.test"})
	require.ErrorContains(t, err, "url: must begin with https")
}
