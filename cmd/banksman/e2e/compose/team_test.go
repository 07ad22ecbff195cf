package compose

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
)

const site = "https://localhost:8443"

// person is somebody who signed in through the proxy, as a browser does.
type person struct {
	t    *testing.T
	http *http.Client
}

func (h *host) signIn(link string) *person {
	h.t.Helper()
	roots := x509.NewCertPool()
	var pem []byte
	require.Eventually(h.t, func() bool {
		var err error
		pem, err = os.ReadFile(filepath.Join(h.volume("proxy-data"), "caddy/pki/authorities/local/root.crt"))
		return err == nil
	}, patience, 50*time.Millisecond)
	require.True(h.t, roots.AppendCertsFromPEM(pem))
	jar, err := cookiejar.New(nil)
	require.NoError(h.t, err)
	p := &person{t: h.t, http: &http.Client{Jar: jar, Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, h.ip("proxy")+":8443")
		},
	}}}
	m := regexp.MustCompile(regexp.QuoteMeta(site) + `/#login=(\S+)`).FindStringSubmatch(link)
	require.NotNil(h.t, m, link)
	code, body := p.call("POST", "/api/login", map[string]any{"token": m[1]})
	require.Equal(h.t, http.StatusOK, code, body)
	return p
}

func (p *person) call(method, path string, in any) (int, string) {
	p.t.Helper()
	code, body, err := p.try(method, path, in)
	require.NoError(p.t, err)
	return code, body
}

func (p *person) try(method, path string, in any) (int, string, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return 0, "", err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequest(method, site+path, body)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", site)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := p.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return res.StatusCode, string(raw), err
}

// waiting is what the list of open interactions says.
type waiting struct {
	Interactions []struct {
		RequestID   string `json:"request_id"`
		Key         string `json:"key"`
		SessionID   string `json:"session_id"`
		RequestType string `json:"request_type"`
		Digest      string `json:"digest"`
		Title       string `json:"title"`
	} `json:"interactions"`
}

// What banksman notify does, under Compose: with the notifier's own credentials, file and
// networks, and nobody else's.
func TestComposeRunsTheNotifiersCommands(t *testing.T) {
	t.Parallel()
	h := newHost(t, project(t, nil, "docker-compose.yml"))
	h.ip("nats")
	h.once("init")
	h.start("nats", "nats").healthy()
	h.once("streams")
	require.Contains(t, h.once("notify", "test", "log"), "taken")
	require.NotContains(t, h.once("notify", "dead"), "log")
	require.Equal(t, "[]\n", h.once("notify", "dead", "--json"))
	none := h.start("none", "notify", "explain", "nothing")
	require.Equal(t, 2, none.wait())
	require.Contains(t, none.output(), "the notifier knows of no such request")
}

// The file as it is, from nothing: keys, streams, two gateways behind TLS, a
// notifier, two workers; a person signs in by a link and decides. Then each
// gateway is stopped and started again while others ask and decide: every ask
// gets its one answer, and nobody at the proxy is told that it is away.
func TestComposeServesATeamThroughRestarts_invariant1_invariant3(t *testing.T) {
	t.Parallel()
	p := project(t, nil, "docker-compose.yml")
	h := newHost(t, p)
	for _, name := range []string{"nats", "gateway-a", "gateway-b", "proxy"} {
		h.ip(name) // what the others call them by
	}
	h.once("init")
	h.once("init") // as at every "up"
	nats := h.start("nats", "nats").healthy()
	h.once("streams")
	gateways := map[string]*container{}
	for _, name := range []string{"gateway-a", "gateway-b"} {
		gateways[name] = h.start(name, name).healthy()
	}
	h.start("proxy", "proxy").healthy()
	h.start("notifier", "notifier").healthy()
	h.start("agent-1", "agent").healthy()
	h.start("agent-2", "agent").healthy()
	workers, err := os.ReadDir(h.volume("agent-data"))
	require.NoError(t, err)
	require.Len(t, workers, 2, "each worker has a directory of its own")

	ada := h.signIn(h.once("cli", "login"))
	code, body := ada.call("GET", "/api/me", nil)
	require.Equal(t, http.StatusOK, code, body)

	cred, err := bus.LoadCredentials(filepath.Join(h.volume("cli"), "creds", "owner-cli.json"))
	require.NoError(t, err)
	cred.URLs = []string{"nats://" + h.ip("nats") + ":4222"}
	client, err := bus.Connect(t.Context(), cred, bus.Options{Name: "load"})
	require.NoError(t, err)
	defer client.Close()

	// Two askers go on asking until both gateways were restarted, and a person
	// decides whatever is there.
	ctx, stop := context.WithCancel(t.Context())
	var asking, deciding sync.WaitGroup
	var asked, allowed atomic.Int64
	over := make(chan struct{})
	for i := range 2 {
		asking.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				asked.Add(1)
				a, err := client.Ask(ctx, &hitl.Request{
					Key: fmt.Sprintf("load-%d-%d", i, n), Kind: hitl.KindApproval, SessionID: "load", Title: fmt.Sprintf("Deploy %d.%d", i, n),
					Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(fmt.Sprintf(`{"command":"make deploy-%d-%d"}`, i, n))},
				})
				if err != nil || a.Decision.Outcome != hitl.Allowed {
					t.Errorf("ask %d.%d: %v, %+v", i, n, err, a)
					return
				}
				allowed.Add(1)
			}
		})
	}
	var away atomic.Bool // the one server of this file: then nobody can decide
	deciding.Go(func() {
		for ctx.Err() == nil {
			code, body, err := ada.try("GET", "/api/interactions?state=pending", nil)
			var list waiting
			if err != nil || code != http.StatusOK || json.Unmarshal([]byte(body), &list) != nil {
				if ctx.Err() == nil && !away.Load() {
					t.Errorf("the list through the proxy: %d %s %v", code, body, err)
				}
				continue
			}
			for _, x := range list.Interactions {
				code, body, err := ada.try("POST", "/api/interactions/"+x.RequestID+"/decision", map[string]any{
					"session_id": x.SessionID, "request_type": x.RequestType, "digest": x.Digest, "decision": "allow",
				})
				// A gateway that is a moment behind lists what another has decided.
				if ctx.Err() == nil && !away.Load() && (err != nil || code != http.StatusOK && code != http.StatusConflict) {
					t.Errorf("a decision through the proxy: %d %s %v", code, body, err)
				}
			}
		}
	})
	defer stop()
	more := func(n int64) {
		from := allowed.Load()
		require.Eventually(t, func() bool { return allowed.Load() >= from+n || t.Failed() }, patience, 20*time.Millisecond)
	}
	more(10)
	for name, g := range gateways {
		g.stop()
		more(10)
		gateways[name] = h.start(name, name).healthy()
		more(10)
	}
	away.Store(true)
	nats.stop()
	h.start("nats", "nats").healthy()
	more(10)
	close(over)
	asking.Wait()
	stop()
	deciding.Wait()
	require.Equal(t, asked.Load(), allowed.Load())
}
