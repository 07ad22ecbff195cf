package e2e

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
)

// Whoever presses "Notify this browser" in a team that starts from the files as they are
// shipped is told: gateway and notifier are processes of their own. The push service is a
// double on loopback, which the file does not welcome as it is: that one word is added.
func TestTheShippedFileTellsTheBrowsersOfATeam(t *testing.T) {
	t.Parallel()
	pushed := make(chan http.Header, 20)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pushed <- r.Header
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(srv.Close)
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "notify.yaml"))
	require.NoError(t, err)
	const to = `to: "*"}`
	require.Equal(t, 1, strings.Count(string(raw), to))
	file := filepath.Join(t.TempDir(), "notify.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(raw), to, `to: "*", allow_private: true}`, 1)), 0o600))

	h := newHome(t)
	tm := newTeam(t, h)
	n := start(t, h.env, "banksman-notifier", "--creds", h.creds("notifier.json"), "--config", file, "--base-url", tm.gateways[0].url)
	n.line(`notifier is running`)
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(t, err)
	e := base64.RawURLEncoding.EncodeToString
	code, body := tm.gateways[1].call("POST", "/api/push", tm.tokens[1], wire.PushSubscription{
		Endpoint: srv.URL + "/browser", Keys: wire.PushKeys{P256dh: e(key.PublicKey().Bytes()), Auth: e(make([]byte, 16))},
	})
	require.Equal(t, http.StatusOK, code, body)
	asker := h.ask("--tool", "Bash", "--input", `{"command":"make release"}`, "--title", "Release")
	next := func() http.Header {
		t.Helper()
		select {
		case head := <-pushed:
			return head
		case <-time.After(patience):
			t.Fatal("no push: " + n.output())
			return nil
		}
	}
	opened := next()
	require.Equal(t, "aes128gcm", opened.Get("Content-Encoding"))
	ix := h.pending()[0]
	code, body = tm.gateways[0].call("POST", "/api/interactions/"+ix.ID+"/decision", tm.tokens[0], map[string]any{"decision": "deny", "digest": ix.Digest})
	require.Equal(t, http.StatusOK, code, body)
	require.Equal(t, 1, asker.wait())
	ended := next()
	require.Equal(t, opened.Get("Topic"), ended.Get("Topic"), "its end takes its place")
	require.Equal(t, "low", ended.Get("Urgency"))
}

// Without a file, a test tries what banksman up does by itself: a log, and the browsers
// that want pushes. The one here is at an address to which no push goes by default: so it
// is seen that it was found and tried.
func TestNotifyTestTriesWhatUpDoesByItself(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	token := filepath.Join(t.TempDir(), "token")
	in := h.up("--test-login", token)
	raw, err := os.ReadFile(token)
	require.NoError(t, err)
	r := h.run("notify", "test")
	require.Equal(t, 2, r.code, r.stderr)
	require.Regexp(t, `(?m)^log +taken: logged$`, r.stdout)
	require.Regexp(t, `(?m)^browser +FAILED: no browser of anybody wants pushes \(Settings, Notify this browser\)$`, r.stdout)
	require.Contains(t, r.stderr, "what banksman up does without --notify")
	require.Contains(t, r.stderr, in.url+"/", "the link of the message")
	r = h.run("notify", "test", "log")
	require.Zero(t, r.code, r.stderr)

	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(t, err)
	e := base64.RawURLEncoding.EncodeToString
	code, body := in.call("POST", "/api/push", strings.TrimSpace(string(raw)), wire.PushSubscription{
		Endpoint: "https://127.0.0.1:1/browser", Keys: wire.PushKeys{P256dh: e(key.PublicKey().Bytes()), Auth: e(make([]byte, 16))},
	})
	require.Equal(t, http.StatusOK, code, body)
	r = h.run("notify", "test", "browser")
	require.Equal(t, 2, r.code, r.stderr)
	require.Regexp(t, `(?m)^browser +FAILED: .*127\.0\.0\.1`, r.stdout)
	in.interrupt()
	require.Zero(t, in.wait(), in.output())
}
