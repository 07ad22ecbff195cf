package slack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
	"github.com/banksman/banksman/services/notifier/internal/channel/press"
)

const signing = "SIGNINGSECRET"

var now = time.Unix(1_772_000_000, 0)

// gateway takes the first decision by a token, as the real one does.
type gateway struct {
	mu   sync.Mutex
	used map[string]string
}

func (g *gateway) Call(_ context.Context, verb string, in, out any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	call, rec := in.(wire.DecideCall), out.(*wire.Receipt)
	said := call.Person + " " + call.Decision
	switch have, used := g.used[call.Token]; {
	case verb != wire.VerbDecide || call.Token != "ticket_x" || !call.AsTold:
		rec.Status, rec.Error = hitl.Forbidden, "the token is unknown or has expired"
	case !used:
		g.used[call.Token] = said
		rec.Status = hitl.Accepted
	case have == said:
		rec.Status = hitl.Duplicate
	default:
		rec.Status = hitl.AlreadyDecided
		rec.Decision = &hitl.Decision{Content: hitl.Content{Outcome: hitl.Denied}, Principal: hitl.Principal{Kind: "person", ID: "ada"}, DecidedAt: now}
	}
	return nil
}

func (g *gateway) decided() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used["ticket_x"]
}

// payload is what Slack says of a press by somebody of T1 there.
func payload(account, action, value string) string {
	return payloadIn("T1", "T1", account, action, value)
}

func payloadIn(team, home, account, action, value string) string {
	user := map[string]string{"id": account, "name": "ada"}
	if home != "" {
		user["team_id"] = home
	}
	p := map[string]any{
		"type": "block_actions", "user": user, "team": nil, "channel": map[string]string{"id": "C1"},
		"actions": []map[string]string{{"type": "button", "action_id": action, "block_id": "decide", "value": value}},
	}
	if team != "" {
		p["team"] = map[string]string{"id": team, "domain": "example"}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// form is how it is posted.
func form(payload string) string { return url.Values{"payload": {payload}}.Encode() }

func sign(secret, stamp, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "v0:%s:%s", stamp, body)
	return "v0=" + hex.EncodeToString(mac.Sum(nil))
}

// A press counts with Slack's own signature, fresh, of an account on the list, once;
// whoever pressed is told what came of it, and nobody else.
func TestButtonsOfSlack_B57_B64_B65_B73(t *testing.T) {
	t.Parallel()
	told := make(chan message, 100) // what whoever pressed was told
	slackAPI := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var m message
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil || r.URL.Path != "/api/chat.postEphemeral" || r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("a wrong call: %s %v", r.URL, err)
		}
		told <- m
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	t.Cleanup(slackAPI.Close)
	b, err := NewBot(token, slackAPI.URL+"/api/", true, Buttons{Secret: signing, Listen: "127.0.0.1:0", Team: "T1", Clock: func() time.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	g := &gateway{used: map[string]string{}}
	d := &press.Desk{Gateway: func() press.Gateway { return g }, People: map[string]string{"U1": "ada", "U2": "bob"}, Logger: slog.New(slog.DiscardHandler)}
	listen := func() (at string, stop func()) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- b.serve(ctx, l, d) }()
		return "http://" + l.Addr().String(), func() {
			cancel()
			require.NoError(t, <-done)
		}
	}
	at, stop := listen()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	post := func(method, path, stamp, signature, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("X-Slack-Request-Timestamp", stamp)
		req.Header.Set("X-Slack-Signature", signature)
		res, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	deny := form(payload("U1", "deny", "ticket_x"))
	old, soon := strconv.FormatInt(now.Add(-6*time.Minute).Unix(), 10), strconv.FormatInt(now.Add(6*time.Minute).Unix(), 10)
	for name, c := range map[string]struct {
		method, path, stamp, signature, body string
		status                               int
	}{
		"forged":         {"POST", Path, stamp, sign("another", stamp, deny), deny, 401},
		"no signature":   {"POST", Path, stamp, "", deny, 401},
		"an older hash":  {"POST", Path, stamp, strings.Replace(sign(signing, stamp, deny), "v0=", "v1=", 1), deny, 401},
		"replayed late":  {"POST", Path, old, sign(signing, old, deny), deny, 401},
		"from later":     {"POST", Path, soon, sign(signing, soon, deny), deny, 401},
		"no time":        {"POST", Path, "", sign(signing, "", deny), deny, 401},
		"edited":         {"POST", Path, stamp, sign(signing, stamp, deny), form(payload("U2", "allow", "ticket_x")), 401},
		"moved in time":  {"POST", Path, soon, sign(signing, stamp, deny), deny, 401},
		"GET":            {"GET", Path, stamp, sign(signing, stamp, deny), deny, 404},
		"elsewhere":      {"POST", "/", stamp, sign(signing, stamp, deny), deny, 404},
		"no payload":     {"POST", Path, stamp, sign(signing, stamp, "a=b"), "a=b", 400},
		"another action": {"POST", Path, stamp, sign(signing, stamp, "payload=%7B%22type%22%3A%22view_submission%22%7D"), "payload=%7B%22type%22%3A%22view_submission%22%7D", 200},
	} {
		require.Equal(t, c.status, post(c.method, c.path, c.stamp, c.signature, c.body), name)
	}
	require.Empty(t, g.decided())
	press := func(account, action, value, want string) {
		body := form(payload(account, action, value))
		require.Equal(t, 200, post("POST", Path, stamp, sign(signing, stamp, body), body))
		select {
		case m := <-told:
			require.Equal(t, []string{"C1", account, want}, []string{m.Channel, m.User, m.Text})
		case <-time.After(20 * time.Second):
			t.Fatal("nobody was told")
		}
	}
	press("U3", "deny", "ticket_x", "Nothing was decided: you are not on the list of those who decide here.")
	press("U1", "review", "ticket_x", "Nothing was decided: this is no button of ours.")
	press("U1", "deny", "ticket_forged", "Nothing was decided: the token is unknown or has expired.")
	require.Empty(t, g.decided())
	// The line was cut in between.
	stop()
	at, stop = listen()
	press("U1", "deny", "ticket_x", "You have denied it.")
	press("U1", "deny", "ticket_x", "You had denied it already.") // sent twice
	press("U2", "allow", "ticket_x", "Too late: denied by ada at "+now.UTC().Format("15:04 UTC")+".")
	require.Equal(t, "ada deny", g.decided())
	stop()
	require.Empty(t, told)
}

// What is none of Slack's by its head is refused before its body has come, and of the
// rest only so much is read at a time.
func TestStrangersDoNotFillTheMemory_B73(t *testing.T) {
	t.Parallel()
	b, err := NewBot(token, "https://slack.test", false, Buttons{Secret: signing, Listen: "127.0.0.1:0", Team: "T1", Clock: func() time.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.serve(ctx, l, &press.Desk{Logger: slog.New(slog.DiscardHandler)}) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	// What is sent is a head; the server says 100 when it begins to read the body.
	said := func(stamp time.Time, signature string, length int) string {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\nX-Slack-Request-Timestamp: %d\r\nX-Slack-Signature: %s\r\n\r\n", Path, length, stamp.Unix(), signature)
		require.NoError(t, err)
		line := make([]byte, len("HTTP/1.1 100"))
		_, err = io.ReadFull(c, line)
		require.NoError(t, err)
		return strings.TrimPrefix(string(line), "HTTP/1.1 ")
	}
	formed := sign("guess", "", "")
	require.Equal(t, "401", said(now, "", 100))
	require.Equal(t, "401", said(now.Add(-6*time.Minute), formed, 100))
	require.Equal(t, "413", said(now, formed, maxPayload+1))
	for range maxReads {
		require.Equal(t, "100", said(now, formed, 100))
	}
	require.Equal(t, "503", said(now, formed, 100))
}

// Buttons stand below what they decide, and go with the decision.
func TestButtonsStandBelowWhatTheyDecide(t *testing.T) {
	t.Parallel()
	a := channeltest.Alert(channel.Opened)
	text := func() string {
		raw, err := json.Marshal(compose(&a, true))
		require.NoError(t, err)
		return string(raw)
	}
	require.NotContains(t, text(), `"actions"`)
	a.Act = &channel.Act{Token: "ticket_x", Text: "make test"}
	require.Contains(t, text(), `"action_id":"deny"`)
	require.NotContains(t, text(), `"action_id":"allow"`)
	require.NotContains(t, text(), "make test")
	a.Act.Allow = true
	require.Contains(t, text(), `"action_id":"allow"`)
	require.Less(t, strings.Index(text(), `What is asked:\nmake test`), strings.Index(text(), `"action_id"`))
	require.NotContains(t, strings.ToLower(fmt.Sprint(compose(&a, false).Blocks)), "button", "text alone has none")
}

func TestListenAndSecretBelongTogether(t *testing.T) {
	t.Parallel()
	for _, b := range []Buttons{{Secret: signing}, {Listen: "127.0.0.1:1"}, {Secret: signing, Listen: "nowhere"}} {
		_, err := NewBot(token, "https://slack.test", false, b)
		require.ErrorContains(t, err, "listen: ")
		require.NotContains(t, err.Error(), signing)
	}
	for problem, b := range map[string]Buttons{
		"app_token: stands beside": {Secret: signing, Listen: "127.0.0.1:1", AppToken: appToken},
		"app_token: is not":        {AppToken: "xoxb-APPSECRET"},
	} {
		_, err := NewBot(token, "https://slack.test", false, b)
		require.ErrorContains(t, err, problem)
		require.NotContains(t, err.Error(), "SECRET")
	}
	for team, b := range map[string]Buttons{"none arrive": {Team: "T1"}, "not the id": {Secret: signing, Listen: "127.0.0.1:1", Team: "acme"}} {
		_, err := NewBot(token, "https://slack.test", false, b)
		require.ErrorContains(t, err, "team: ")
		require.ErrorContains(t, err, team)
	}
}

// A port that another one has ends nothing but waits until it is free.
func TestAPortThatIsTakenIsTriedAgain(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := other.Addr().String()
	b, err := NewBot(token, "http://127.0.0.1:1", true, Buttons{Secret: "s", Listen: at, Team: "T1"})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	log := &logged{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Listen(ctx, &press.Desk{Logger: slog.New(slog.NewTextHandler(log, nil))}) }()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "setting=listen") }, 30*time.Second, time.Millisecond)
	require.NoError(t, other.Close())
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	stop()
	require.NoError(t, <-done)
}

// Where serving ends by itself, nobody waits for Slack to say whose the bot is.
func TestServingThatFailsWaitsForNobody(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	b, err := NewBot(token, "http://127.0.0.1:1", true, Buttons{Secret: "s", Listen: l.Addr().String()}) // nobody answers there
	require.NoError(t, err)
	t.Cleanup(b.Close)
	done := make(chan error, 1)
	go func() { done <- b.serve(context.Background(), l, &press.Desk{Logger: slog.New(slog.DiscardHandler)}) }()
	require.Error(t, got(t, done))
}
