package notifier_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// A socket that Slack does not open keeps nobody from being told, and the figures say that
// no button works. Slack is a double: it cannot run here.
func TestARefusedSocketEndsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	slack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/auth.test":
			_, _ = w.Write([]byte(`{"ok":true,"team_id":"T1"}`))
		case "/apps.connections.open":
			_, _ = w.Write([]byte(`{"ok":false,"error":"token_revoked"}`))
		case "/chat.postMessage":
			_, _ = w.Write([]byte(`{"ok":true,"channel":"C0123ABCD","ts":"1"}`))
		default:
			t.Error("a wrong call: " + r.URL.Path)
		}
	}))
	t.Cleanup(slack.Close)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "app"), []byte("xapp-1-APPSECRET\n"), 0o600))
	file := filepath.Join(dir, "notifier.yaml")
	text := `channels: [{name: chat, type: slack, token: xoxb-1, app_token_file: app, to: C0123ABCD, after: 0s, allow_private: true, people: [{account: U1, user: ada}], url: "` + slack.URL + `"}]`
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	cfg, err := notifier.LoadConfig(file)
	require.NoError(t, err)
	n := b.notify(t, notifier.Options{Config: cfg})
	sockets := func() map[string]float64 { return n.gauge(t, "banksman_notifier_sockets") }
	require.Eventually(t, func() bool { return sockets()["refused"] == 1 }, patience, tick)
	require.Equal(t, map[string]float64{"refused": 1, "open": 0, "opening": 0}, sockets())
	ref := newRef(1)
	b.open(t, ref, summary(ref, time.Now()))
	b.awaitAt(t, ref, ledger.StepOpen, "chat", ledger.Sent)
	require.NoError(t, n.Health())
}
