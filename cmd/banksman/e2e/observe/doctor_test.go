package observe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
)

type finding struct {
	Check, Problem, Fix string
	Note                bool
}

// doctor runs banksman doctor and returns what it found.
func (tm *team) doctor(args ...string) (healthy bool, found []finding) {
	tm.t.Helper()
	out, code := tm.run(append([]string{"doctor", "--json", "--data", tm.data}, args...)...)
	var r struct {
		Healthy  bool
		Findings []finding
	}
	require.NoError(tm.t, json.Unmarshal([]byte(out), &r), out)
	want := 0
	if !r.Healthy {
		want = 1
	}
	require.Equal(tm.t, want, code, out)
	return r.Healthy, r.Findings
}

// finds is doctor, which must find this, with a fix, and call nothing healthy.
func (tm *team) finds(check, problem, fix string, args ...string) {
	tm.t.Helper()
	healthy, found := tm.doctor(args...)
	require.False(tm.t, healthy)
	require.True(tm.t, slices.ContainsFunc(found, func(f finding) bool {
		return f.Check == check && !f.Note && strings.Contains(f.Problem, problem) && strings.Contains(f.Fix, fix)
	}), "%s: %s (fix: %s) is not among %+v", check, problem, fix, found)
}

// fakeCLI puts a program that is called claude, and a key, into the environment.
func (tm *team) fakeCLI() {
	dir := tm.t.TempDir()
	require.NoError(tm.t, os.WriteFile(filepath.Join(dir, "claude"), []byte("#!/bin/sh\n"), 0o755))
	tm.env = append(slices.Clone(tm.env), "PATH="+dir+":"+os.Getenv("PATH"), "ANTHROPIC_API_KEY=none")
}

// picture is all files below the data directory, the server's store apart: names,
// modes, sizes and times.
func (tm *team) picture() string {
	var b strings.Builder
	require.NoError(tm.t, filepath.WalkDir(tm.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "store" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return err
	}))
	return b.String()
}

// provisioner may change the streams.
func (tm *team) provisioner() jetstream.JetStream {
	tm.t.Helper()
	c, err := bus.LoadCredentials(tm.creds("provisioner.json"))
	require.NoError(tm.t, err)
	auth, err := c.Auth()
	require.NoError(tm.t, err)
	nc, err := nats.Connect(c.URLs[0], auth)
	require.NoError(tm.t, err)
	tm.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(tm.t, err)
	return js
}

func (tm *team) alter(name string, change func(*jetstream.StreamConfig)) {
	tm.t.Helper()
	js := tm.provisioner()
	s, err := js.Stream(tm.t.Context(), name)
	require.NoError(tm.t, err)
	c := s.CachedInfo().Config
	change(&c)
	_, err = js.UpdateStream(tm.t.Context(), c)
	require.NoError(tm.t, err)
}

// A healthy team has no finding; then one thing after the other goes wrong.
func TestDoctorOfATeam(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	tm.fakeCLI()
	hook := newHook(t)
	config := hook.config(t)

	// Nothing runs yet but the server.
	for check, fix := range map[string]string{"gateway": "banksman-gateway", "notifier": "banksman-notifier", "agent worker": "banksman-agent"} {
		tm.finds(check, "no "+check+" runs", fix)
	}
	g, n, w := tm.gateway(), tm.notifier(config), tm.agent()
	all := []string{"--url", g.url, "--notify", config, "--status", g.status, "--status", n.status, "--status", w.status}
	before, stored := tm.picture(), g.scrape()
	require.Eventually(t, func() bool { // until all of them listen
		healthy, found := tm.doctor(all...)
		return healthy && len(found) == 0
	}, patience, tick)
	require.Equal(t, before, tm.picture(), "it writes no file")
	after := g.scrape()
	for name, v := range stored {
		if strings.HasPrefix(name, "banksman_stream_messages") {
			require.Equal(t, v, after[name], "it stores nothing: %s", name)
		}
	}
	out, code := tm.run(append([]string{"doctor", "--data", tm.data}, all...)...)
	require.Zero(t, code)
	require.Contains(t, out, "Nothing is wrong")
	require.NotContains(t, out, "WRONG")

	t.Run("files that others can read", func(t *testing.T) {
		for _, f := range []string{tm.creds("gateway.json"), config} {
			require.NoError(t, os.Chmod(f, 0o644))
			tm.finds("files", f, "chmod 600 "+f, all...)
			require.NoError(t, os.Chmod(f, 0o600))
		}
		// One without secrets, as it is in a checkout, is for everybody.
		healthy, found := tm.doctor("--notify", filepath.Join(root, "deploy", "notify.yaml"))
		require.True(t, healthy, "%+v", found)
		// A file that it names has the secrets, and is the one to mend.
		dir := t.TempDir()
		word, named := filepath.Join(dir, "hook.secret"), filepath.Join(dir, "notify.yaml")
		require.NoError(t, os.WriteFile(word, []byte("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="), 0o644))
		require.NoError(t, os.WriteFile(named, []byte("channels:\n  - {name: a, type: webhook, url: 'https://hook.example', secrets_file: hook.secret}\n"), 0o644))
		tm.finds("files", word+" is 0644", "the file that the message names", "--notify", named)
		require.NoError(t, os.Chmod(word, 0o600))
		healthy, found = tm.doctor("--notify", named)
		require.True(t, healthy, "%+v", found)
	})
	t.Run("an owner that only asks", func(t *testing.T) {
		out, code := tm.run("creds", "--data", tm.data, "--owner", "ci", "--provision")
		require.Zero(t, code, out)
		healthy, found := tm.doctor(all...)
		require.True(t, healthy, "%+v", found)
		require.Len(t, found, 1)
		require.Equal(t, "agent worker", found[0].Check)
		require.Contains(t, found[0].Problem, "no agent worker runs for the pool ci")
		require.Contains(t, found[0].Fix, "nothing, if ci only asks")
		// A session that waits for a worker says that there should be one.
		_, err := tm.provisioner().Publish(t.Context(), "hitl.work.default.ci", []byte("{}"))
		require.NoError(t, err)
		tm.finds("agent worker", "the pool ci: sessions cannot be started, and 1 order waits", "owner-ci.json", all...)
		work, err := tm.provisioner().Stream(t.Context(), "HITL_WORK")
		require.NoError(t, err)
		require.NoError(t, work.Purge(t.Context()))
	})
	t.Run("the agent's program or key", func(t *testing.T) {
		tm.finds("agent CLI", "not found", "npm install", "--claude", "/nowhere/claude")
		empty := filepath.Join(t.TempDir(), "key")
		require.NoError(t, os.WriteFile(empty, nil, 0o600))
		tm.finds("agent CLI", "has no key", "put the API key", "--claude-key-file", empty)
	})
	t.Run("a notifier's configuration that cannot be read", func(t *testing.T) {
		bad := filepath.Join(t.TempDir(), "notify.yaml")
		require.NoError(t, os.WriteFile(bad, []byte("channels:\n  - {name: a, type: pigeon}\n"), 0o600))
		tm.finds("channels", "channels[0].type", "mend the place", "--notify", bad)
	})
	t.Run("versions that differ", func(t *testing.T) {
		old := service(t, tm.env, "old-agent", "--creds", tm.creds("owner-agents.json"), "--data", t.TempDir())
		tm.finds("versions", "banksman-agent: v0.1.0", "one version", "--status", old.status)
	})
	t.Run("a status that is not there", func(t *testing.T) {
		tm.finds("status", "cannot be reached", "start the service", "--status", fmt.Sprint("127.0.0.1:", freePort(t)))
	})
	t.Run("the address people use", func(t *testing.T) {
		tm.address(t, g)
	})
	t.Run("a channel", func(t *testing.T) {
		hook.status.Store(http.StatusInternalServerError)
		ask(tm.t, tm.client("owner-cli.json"), request("k1")) // it waits on in what follows
		n.shows(`banksman_notifier_channels{channel="webhook",state="failing"}`, 1)
		tm.finds("channels", "over webhook failed", "banksman notify test", "--status", n.status)
		hook.status.Store(http.StatusGone)
		n.shows(`banksman_notifier_channels{channel="webhook",state="gone"}`, 1)
		tm.finds("channels", "wants no more messages", "another name, address or token", "--status", n.status)
	})
	t.Run("a stream that is nearly full", func(t *testing.T) {
		s, err := tm.provisioner().Stream(t.Context(), "HITL_REQUESTS")
		require.NoError(t, err)
		was := s.CachedInfo().Config.MaxBytes
		require.Positive(t, s.CachedInfo().State.Bytes, "one waits")
		tm.alter("HITL_REQUESTS", func(c *jetstream.StreamConfig) { c.MaxBytes = int64(s.CachedInfo().State.Bytes) * 11 / 10 })
		tm.finds("store", "HITL_REQUESTS is 9", "larger")
		tm.alter("HITL_REQUESTS", func(c *jetstream.StreamConfig) { c.MaxBytes = was })
	})
	t.Run("streams that lost a guarantee", func(t *testing.T) {
		tm.alter("HITL_EVENTS", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 })
		tm.finds("streams", "max_msgs is 1000", "provisioner's credential")
		tm.alter("HITL_EVENTS", func(c *jetstream.StreamConfig) { c.MaxMsgs = -1 })
		require.NoError(t, tm.provisioner().DeleteStream(t.Context(), "HITL_WORK"))
		tm.finds("streams", "stream HITL_WORK is missing", "banksman creds --provision")
	})
	t.Run("another installation's credentials", func(t *testing.T) {
		other := &team{t: t, data: filepath.Join(t.TempDir(), "data"), env: tm.env}
		out, code := other.run("creds", "--data", other.data, "--port", fmt.Sprint(tm.port))
		require.Zero(t, code, out)
		other.finds("server", "refuses the credential", "accounts.conf")
	})
	t.Run("no server", func(t *testing.T) {
		tm.nats.kill()
		tm.finds("server", "cannot be reached", "nats-server")
		tm.finds("gateway", "is not ready", "mend", "--url", g.url)
		g.kill()
		tm.finds("address", "cannot be reached", "start the gateway", "--url", g.url)
	})
}

// address makes what stands between people and a gateway go wrong.
func (tm *team) address(t *testing.T, g *gateway) {
	target, err := url.Parse(g.url)
	require.NoError(t, err)
	// proxy passes requests on; change makes its mistake.
	proxy := func(change func(*httputil.ProxyRequest)) *httputil.ReverseProxy {
		return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			change(r)
		}}
	}
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	own := func(r *httputil.ProxyRequest) { r.Out.Host = target.Host; r.Out.Header.Set("Origin", g.url) }
	tm.finds("address", "does not answer to the name", "-base-url", "--url", serve(proxy(func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host })))
	tm.finds("WebSocket", "takes no page of the origin", "-base-url", "--url", serve(proxy(func(r *httputil.ProxyRequest) { r.Out.Host = target.Host })))
	tm.finds("WebSocket", "no WebSocket gets through", "Upgrade", "--url", serve(proxy(func(r *httputil.ProxyRequest) {
		own(r)
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
	})))
	tm.finds("address", "something else than a gateway", "--url", "--url", serve(http.NotFoundHandler()))
	gone := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: fmt.Sprint("127.0.0.1:", freePort(t))})
	}}
	tm.finds("address", "reaches no gateway", "start a gateway", "--url", serve(gone))
	late := proxy(own)
	late.ModifyResponse = func(r *http.Response) error {
		r.Header.Set("Date", time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat))
		return nil
	}
	tm.finds("clock", "ahead of the gateway's machine's", "time service", "--url", serve(late))

	tlsOf := func(from, until time.Time) (address, ca string) {
		cert, file := certificate(t, from, until)
		s := httptest.NewUnstartedServer(proxy(own))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL, file
	}
	now := time.Now()
	good, goodCA := tlsOf(now.Add(-time.Hour), now.Add(90*24*time.Hour))
	healthy, found := tm.doctor("--url", good, "--ca", goodCA)
	require.True(t, healthy, "%+v", found)
	tm.finds("certificate", "nobody that this machine trusts", "--ca", "--url", good)
	other := strings.Replace(good, "127.0.0.1", "localhost", 1)
	tm.finds("certificate", "the certificate is not for localhost", "get a certificate for this name", "--url", other, "--ca", goodCA)
	soon, ca := tlsOf(now.Add(-80*24*time.Hour), now.Add(72*time.Hour))
	tm.finds("certificate", "expires in", "renew it", "--url", soon, "--ca", ca)
	over, ca := tlsOf(now.Add(-48*time.Hour), now.Add(-time.Hour))
	tm.finds("certificate", "has expired", "renew it", "--url", over, "--ca", ca)
}

func certificate(t *testing.T, from, until time.Time) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: from, NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// withServer runs the server on a configuration that somebody changed.
func (tm *team) withServer(change func(server, accounts string) (string, string)) {
	tm.t.Helper()
	tm.nats.kill()
	dir := tm.t.TempDir()
	server, err := os.ReadFile(filepath.Join(tm.data, "nats", "server.conf"))
	require.NoError(tm.t, err)
	accounts, err := os.ReadFile(filepath.Join(tm.data, "nats", "accounts.conf"))
	require.NoError(tm.t, err)
	s, a := change(string(server), string(accounts))
	require.False(tm.t, s == string(server) && a == string(accounts), "nothing was changed")
	require.NoError(tm.t, os.WriteFile(filepath.Join(dir, "server.conf"), []byte(s), 0o600))
	require.NoError(tm.t, os.WriteFile(filepath.Join(dir, "accounts.conf"), []byte(a), 0o600))
	tm.nats = start(tm.t, tm.env, "nats-server", "-c", filepath.Join(dir, "server.conf"))
	tm.nats.line("Server is ready")
}

// A server that runs, and on another configuration than the one that was written.
func TestDoctorOfAServerOnAnotherConfiguration(t *testing.T) {
	t.Parallel()
	tm := newTeam(t)
	jetStream := regexp.MustCompile(`(?s)jetstream \{.*?\n\}\n`)
	tm.withServer(func(s, a string) (string, string) {
		return jetStream.ReplaceAllString(s, ""), regexp.MustCompile(`(?m)^\s*jetstream: .*$`).ReplaceAllString(a, "")
	})
	tm.finds("streams", "JetStream is off", "server.conf")
	// An older version's accounts, which lack a right that askers need.
	tm.withServer(func(s, a string) (string, string) {
		return s, strings.ReplaceAll(a, `          "$JS.API.DIRECT.GET.HITL_DECISIONS.hitl.dec.default.cli.*"`+"\n", "")
	})
	tm.finds("permissions", "does not let cli read its own decisions", "accounts.conf")
	// All rights for everybody, in one account.
	tm.withServer(func(s, a string) (string, string) {
		key := regexp.MustCompile(`nkey: (U\w+)`)
		var users []string
		for _, m := range key.FindAllStringSubmatch(a, -1) {
			users = append(users, "{ nkey: "+m[1]+" }")
		}
		return s, "accounts { CORE { jetstream: enabled, users: [ " + strings.Join(users, ", ") + " ] } }\n"
	})
	tm.finds("permissions", "look at the stream of decisions", "accounts.conf")
}

// What is there to see of one person's "up", and of one that was killed.
func TestDoctorOfUp(t *testing.T) {
	t.Parallel()
	tm := &team{t: t, data: filepath.Join(t.TempDir(), "data")}
	tm.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	tm.fakeCLI()
	tm.finds("files", "there is no data directory", "banksman up")
	p := start(t, tm.env, "banksman", "up", "--data", tm.data, "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0")
	p.line("Ctrl-C stops it")
	require.Eventually(t, func() bool {
		healthy, found := tm.doctor()
		return healthy && len(found) == 0
	}, patience, tick)
	p.kill()
	tm.finds("server", "cannot be reached", "banksman up")
	tm.finds("address", "cannot be reached", "start the gateway")
}
