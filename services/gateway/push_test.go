package gateway_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// subscription is what a browser would send.
func subscription(t *testing.T, endpoint string) wire.PushSubscription {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(t, err)
	auth := make([]byte, 16)
	_, _ = rand.Read(auth)
	e := base64.RawURLEncoding.EncodeToString
	return wire.PushSubscription{Endpoint: endpoint, Keys: wire.PushKeys{P256dh: e(key.PublicKey().Bytes()), Auth: e(auth)}}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// browsers are those that a notifier is told of somebody.
func browsers(t *testing.T, n *bus.Client, user string, gone ...string) []wire.PushTarget {
	t.Helper()
	var out wire.PushReply
	require.NoError(t, n.Call(t.Context(), wire.VerbPush, wire.PushCall{User: user, Gone: gone}, &out))
	return out.Browsers
}

// A browser is told as long as its person is: it ends with the sign-in, on every
// gateway, and nobody but its person and the notifier learns of it.
func TestBrowsersOfPeople(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g, other := s.gateway(), s.gateway()
	g.user("ada", "approver")
	n := s.notifier()
	ask := func(gw *running, method, path, token string, body any) (int, wire.PushBrowsers, string) {
		text := ""
		if body != nil {
			text = encode(t, body)
		}
		code, raw := gw.call(method, path, token, text)
		var out wire.PushBrowsers
		_ = json.Unmarshal(raw, &out)
		return code, out, string(raw)
	}
	sub := subscription(t, "https://push.example.com/1")
	code, list, _ := ask(g, "GET", "/api/push", g.token, nil)
	require.Equal(t, http.StatusOK, code)
	require.Len(t, list.PublicKey, 87, "a point of P-256 in base64url")
	require.Empty(t, list.Browsers)
	old := ""
	for range 2 { // said again it is the same, but for its secret
		old = list.Renewal
		code, list, _ = ask(g, "POST", "/api/push", g.token, sub)
		require.Equal(t, http.StatusOK, code)
		require.Len(t, list.Browsers, 1)
		require.True(t, list.Browsers[0].This)
	}
	secret := list.Renewal
	require.NotEqual(t, old, secret)
	code, list, _ = ask(g, "GET", "/api/push", g.token, nil)
	require.Equal(t, http.StatusOK, code)
	require.Empty(t, list.Renewal, "it is told once")
	got := browsers(t, n, "owner")
	require.Equal(t, []wire.PushTarget{{ID: list.Browsers[0].ID, Endpoint: sub.Endpoint, P256dh: sub.Keys.P256dh, Auth: sub.Keys.Auth}}, got)
	require.Empty(t, browsers(t, n, "ada"))
	require.Empty(t, browsers(t, n, "nobody"))

	// What is no subscription, or too much.
	bad := map[string]wire.PushSubscription{}
	for field, spoil := range map[string]func(*wire.PushSubscription){
		"endpoint ":   func(s *wire.PushSubscription) { s.Endpoint = "" },
		"endpoint":    func(s *wire.PushSubscription) { s.Endpoint = "http://push.example.com/" },
		"endpoint  ":  func(s *wire.PushSubscription) { s.Endpoint = "https://u:p@push.example.com/" },
		"endpoint   ": func(s *wire.PushSubscription) { s.Endpoint = "https://push.example.com/" + strings.Repeat("x", 1024) },
		"keys.p256dh": func(s *wire.PushSubscription) { s.Keys.P256dh = s.Keys.Auth },
		"keys.auth":   func(s *wire.PushSubscription) { s.Keys.Auth = "" },
	} {
		b := subscription(t, "https://push.example.com/x")
		spoil(&b)
		bad[field] = b
	}
	for field, b := range bad {
		code, _, raw := ask(g, "POST", "/api/push", g.token, b)
		require.Equal(t, http.StatusBadRequest, code)
		require.Contains(t, raw, `"`+strings.TrimSpace(field)+`"`)
	}
	for i := 2; i <= 11; i++ {
		code, _, _ = ask(g, "POST", "/api/push", g.token, subscription(t, fmt.Sprintf("https://push.example.com/%d", i)))
		require.Equal(t, i <= 10, code == http.StatusOK, "%d", i)
	}
	gone := browsers(t, n, "owner")
	require.Len(t, gone, 10)
	var ids []string
	for _, b := range gone[1:] {
		ids = append(ids, b.ID)
	}
	require.Len(t, browsers(t, n, "owner", ids...), 1, "what a push service gave up is forgotten")

	// A browser renews by the secret that it was given, and by nothing that a notifier
	// knows of it.
	next := subscription(t, "https://push.example.com/next")
	for name, r := range map[string]wire.PushRenewal{
		"no secret": {User: "owner", New: next}, "what a notifier knows": {User: "owner", Renewal: sub.Keys.Auth, New: next},
		"an older secret": {User: "owner", Renewal: old, New: next}, "somebody else's": {User: "ada", Renewal: secret, New: next}, "no user": {Renewal: secret, New: next},
	} {
		code, _, _ = ask(g, "POST", "/api/push/renewal", "", r)
		require.Equal(t, http.StatusNotFound, code, name)
	}
	code, _, _ = ask(other, "POST", "/api/push/renewal", "", wire.PushRenewal{User: "owner", Renewal: secret, New: next})
	require.Equal(t, http.StatusOK, code)
	got = browsers(t, n, "owner")
	require.Equal(t, next.Endpoint, got[0].Endpoint)

	// Only people at browsers have some, and only notifiers are told.
	code, _, _ = ask(g, "GET", "/api/push", "", nil)
	require.Equal(t, http.StatusUnauthorized, code)
	caller := s.caller("ci")
	err := caller.Call(t.Context(), wire.VerbPush, wire.PushCall{User: "owner"}, &wire.PushReply{})
	require.ErrorContains(t, err, "may not push")

	// Removed by hand; then the end of the sign-in ends it.
	code, _, _ = ask(other, "DELETE", "/api/push/"+got[0].ID, g.token, nil)
	require.Equal(t, http.StatusOK, code)
	code, _, _ = ask(other, "DELETE", "/api/push/"+got[0].ID, g.token, nil)
	require.Equal(t, http.StatusNotFound, code)
	require.Empty(t, browsers(t, n, "owner"))
	code, _, _ = ask(other, "POST", "/api/push", g.token, sub)
	require.Equal(t, http.StatusOK, code)
	require.Len(t, browsers(t, n, "owner"), 1)
	code, _ = g.call("POST", "/api/logout", g.token, "{}")
	require.Equal(t, http.StatusOK, code)
	require.Empty(t, browsers(t, n, "owner"))
}

// The button of a notification decides once what was told there, whatever gateway is
// asked; what is forged, late, of another kind or too grave decides nothing.
func TestTheButtonOfANotification_B57_invariant1_invariant5(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g, other := s.gateway(), s.gateway()
	g.user("ada", "approver")
	g.user("vera", "viewer")
	n := s.notifier()
	mintPush := func(key, person string) (wire.TicketReply, error) {
		var out wire.TicketReply
		err := n.Call(t.Context(), wire.VerbTicket, wire.TicketCall{Key: key, People: []string{person}, Recipient: person, Channel: "browser", Via: wire.TicketPush}, &out)
		return out, err
	}
	press := func(gw *running, method, token, decision string) (int, wire.Receipt) {
		code, raw := gw.call(method, "/api/push/decision", "", encode(t, wire.TicketUse{Token: token, Decision: decision}))
		var rec wire.Receipt
		_ = json.Unmarshal(raw, &rec)
		if code != http.StatusOK {
			var e wire.Error
			_ = json.Unmarshal(raw, &e)
			rec.Status, rec.Error, rec.Decision = hitl.Status(e.Code), e.Error, e.Decision
		}
		return code, rec
	}
	got := askFor(t, s.client("agents"), command("k1", "make test"))
	ix := g.open(1)[0]
	_, err := mintPush(ix.Key, "vera")
	require.ErrorContains(t, err, "none of these people may decide")
	tk, err := mintPush(ix.Key, "ada")
	require.NoError(t, err)
	require.Equal(t, []string{"deny", "allow"}, tk.Decisions)
	require.Equal(t, "make test", tk.Text)
	require.Empty(t, tk.URL)

	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT"} {
		press(g, method, tk.Token, "allow")
	}
	for token, decisions := range map[string][]string{
		"":                            {"allow"},
		tk.Token[:len(tk.Token)-2]:    {"allow"},
		tk.Token[:20] + tk.Token[21:]: {"deny"},
		tk.Token:                      {"", "ALLOW", "answer", "dismiss"},
	} {
		for _, d := range decisions {
			code, rec := press(g, "POST", token, d)
			require.Contains(t, []int{400, 403}, code)
			require.Contains(t, []hitl.Status{hitl.BadInput, hitl.Forbidden}, rec.Status)
		}
	}
	require.Equal(t, http.StatusNotFound, visit(t, g, "GET", "/l/"+tk.Token, nil).status, "it is no link")
	code, raw := g.call("POST", "/api/push/decision", "", encode(t, wire.TicketUse{Token: mint(t, n, ix.Key, "ada").Token, Decision: "allow"}))
	require.Equal(t, http.StatusForbidden, code, "%s", raw)
	require.Len(t, g.open(1), 1)

	var wg sync.WaitGroup
	results := make([]wire.Receipt, 8)
	for i := range results {
		wg.Go(func() { _, results[i] = press([]*running{g, other}[i%2], "POST", tk.Token, "allow") })
	}
	wg.Wait()
	for _, r := range results {
		require.Contains(t, []hitl.Status{hitl.Accepted, hitl.Duplicate}, r.Status)
	}
	a := take(t, got)
	require.Equal(t, hitl.Allowed, a.Decision.Outcome)
	require.Equal(t, []string{"ada", "push:browser", "link"}, []string{a.Decision.Principal.ID, a.Decision.Channel, a.Decision.Assurance})
	require.NotEmpty(t, a.Decision.Shown)
	code, rec := press(other, "POST", tk.Token, "deny")
	require.Equal(t, http.StatusConflict, code)
	require.Equal(t, hitl.AlreadyDecided, rec.Status)
	require.Equal(t, "ada", rec.Decision.Principal.ID)

	// Too grave for a button; denying needs none of that.
	got = askFor(t, s.client("agents"), command("k2", "rm -rf /srv/data"))
	ix = g.open(1)[0]
	require.Contains(t, []string{"high", "critical"}, ix.Risk)
	tk, err = mintPush(ix.Key, "ada")
	require.NoError(t, err)
	require.Equal(t, []string{"deny"}, tk.Decisions)
	require.Empty(t, tk.Text)
	code, rec = press(g, "POST", tk.Token, "allow")
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, rec.Error, "sign in")
	require.Len(t, g.open(1), 1)
	code, _ = press(g, "POST", tk.Token, "deny")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, hitl.Denied, take(t, got).Decision.Outcome)
	require.Eventually(t, func() bool {
		_, err := mintPush(ix.Key, "ada")
		return err != nil && strings.Contains(err.Error(), "decided already")
	}, patience, 10*time.Millisecond)
}

// What was told before a browser was signed out or taken away may lie there still: its
// button decides nothing, on any gateway. What is told later counts.
func TestSigningOutEndsTheButtonsOfNotifications_B57(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g, other := s.gateway(), s.gateway()
	n := s.notifier()
	got := askFor(t, s.client("agents"), command("k1", "make test"))
	ix := g.open(1)[0]
	button := func() string {
		t.Helper()
		var out wire.TicketReply
		require.NoError(t, n.Call(t.Context(), wire.VerbTicket, wire.TicketCall{Key: ix.Key, People: []string{"owner"}, Recipient: "ada", Channel: "browser", Via: wire.TicketPush}, &out))
		return out.Token
	}
	press := func(token string) (int, string) {
		code, raw := other.call("POST", "/api/push/decision", "", encode(t, wire.TicketUse{Token: token, Decision: "allow"}))
		return code, string(raw)
	}
	code, raw := g.call("POST", "/api/push", g.token, encode(t, subscription(t, "https://push.example.com/1")))
	require.Equal(t, http.StatusOK, code, "%s", raw)
	code, raw = g.call("POST", "/api/push", g.token, encode(t, subscription(t, "https://push.example.com/2")))
	require.Equal(t, http.StatusOK, code, "%s", raw)
	refused := func(token string) {
		t.Helper()
		code, said := press(token)
		require.Equal(t, http.StatusForbidden, code)
		require.Contains(t, said, "signed out since")
	}
	told := button()
	code, raw = g.call("DELETE", "/api/push/"+browsers(t, n, "owner")[0].ID, g.token, "")
	require.Equal(t, http.StatusOK, code, "%s", raw)
	refused(told)
	told = button()
	code, raw = g.call("POST", "/api/logout", g.token, "{}")
	require.Equal(t, http.StatusOK, code, "%s", raw)
	refused(told)
	code, said := press(button())
	require.Equal(t, http.StatusOK, code, said)
	require.Equal(t, hitl.Allowed, take(t, got).Decision.Outcome)
}

// A browser that its push service gave up may show what it was told before: signing out
// of its sign-in ends the buttons of that as well, and only that sign-out does.
func TestSigningOutEndsTheButtonsOfABrowserThatWasGivenUp_B57(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g, other := s.gateway(), s.gateway()
	n := s.notifier()
	askFor(t, s.client("agents"), command("k1", "make test"))
	ix := g.open(1)[0]
	var told wire.TicketReply
	require.NoError(t, n.Call(t.Context(), wire.VerbTicket, wire.TicketCall{Key: ix.Key, People: []string{"owner"}, Recipient: "ada", Channel: "browser", Via: wire.TicketPush}, &told))
	press := func(decision string) (int, string) {
		code, raw := other.call("POST", "/api/push/decision", "", encode(t, wire.TicketUse{Token: told.Token, Decision: decision}))
		return code, string(raw)
	}
	code, raw := g.call("POST", "/api/push", g.token, encode(t, subscription(t, "https://push.example.com/1")))
	require.Equal(t, http.StatusOK, code, "%s", raw)
	require.Empty(t, browsers(t, n, "owner", browsers(t, n, "owner")[0].ID), "answered with 410")
	code, raw = g.call("POST", "/api/logout", other.token, "{}")
	require.Equal(t, http.StatusOK, code, "%s", raw)
	code, said := press("none")
	require.Equal(t, http.StatusBadRequest, code, "it counts still: %s", said)
	code, raw = g.call("POST", "/api/logout", g.token, "{}")
	require.Equal(t, http.StatusOK, code, "%s", raw)
	code, said = press("allow")
	require.Equal(t, http.StatusForbidden, code, said)
	require.Contains(t, said, "signed out since")
}

// A button of a chat decides once, in the name of whoever of its people pressed it; what
// is grave or long is denied by it at most.
func TestTheButtonOfAChat_B57_invariant1_invariant5(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	g.user("ada", "approver")
	g.user("bob", "approver")
	g.user("vera", "viewer")
	n := s.notifier()
	minted := func(key string, people ...string) wire.TicketReply {
		var out wire.TicketReply
		require.NoError(t, n.Call(t.Context(), wire.VerbTicket, wire.TicketCall{Key: key, People: people, Recipient: "ops", Channel: "chat", Via: wire.TicketChat}, &out))
		return out
	}
	press := func(token, person, decision string) wire.Receipt {
		var rec wire.Receipt
		require.NoError(t, n.Call(t.Context(), wire.VerbDecide, wire.DecideCall{Token: token, Person: person, AsTold: true, Response: hitl.Response{Decision: decision}}, &rec))
		return rec
	}
	got := askFor(t, s.client("agents"), command("k1", "make test"))
	ix := g.open(1)[0]
	tk := minted(ix.Key, "ada", "bob", "vera")
	require.Equal(t, []string{"deny", "allow"}, tk.Decisions)
	require.Equal(t, "make test", tk.Text)
	for _, person := range []string{"", "vera", "owner", "eve"} {
		require.Equal(t, hitl.Forbidden, press(tk.Token, person, "allow").Status, "%q", person)
	}
	require.Len(t, g.open(1), 1)
	require.Equal(t, hitl.Accepted, press(tk.Token, "bob", "allow").Status)
	require.Equal(t, hitl.Duplicate, press(tk.Token, "bob", "allow").Status)
	late := press(tk.Token, "ada", "deny")
	require.Equal(t, hitl.AlreadyDecided, late.Status)
	require.Equal(t, "bob", late.Decision.Principal.ID)
	a := take(t, got)
	require.Equal(t, []string{"bob", "chat:chat", "chat_account"}, []string{a.Decision.Principal.ID, a.Decision.Channel, a.Decision.Assurance})

	for _, text := range []string{"rm -rf /srv/data", "make " + strings.Repeat("x", 700)} {
		got = askFor(t, s.client("agents"), command(text[:12], text))
		ix = g.open(1)[0]
		tk = minted(ix.Key, "ada")
		require.Equal(t, []string{"deny"}, tk.Decisions)
		require.Empty(t, tk.Text)
		rec := press(tk.Token, "ada", "allow")
		require.Equal(t, hitl.Forbidden, rec.Status)
		require.Contains(t, rec.Error, "too long or too grave")
		require.Equal(t, hitl.Accepted, press(tk.Token, "ada", "deny").Status)
		require.Equal(t, hitl.Denied, take(t, got).Decision.Outcome)
		g.open(0)
	}
}
