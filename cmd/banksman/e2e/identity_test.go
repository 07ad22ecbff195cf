package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// office is a gateway that a team reaches by a name, as a process of its own.
type office struct {
	*instance
	h    *home
	args []string // how commands reach it
}

func newOffice(t *testing.T) *office {
	t.Helper()
	h := newHome(t)
	r := h.run("creds", "--port", strconv.Itoa(freePort(t)))
	require.Zero(t, r.code, r.stderr)
	nats := start(t, h.env, "nats-server", "-c", filepath.Join(h.data, "nats", "server.conf"))
	nats.line(`Server is ready`)
	require.Eventually(t, func() bool {
		r = h.run("creds", "--provision")
		return r.code == 0
	}, patience, 100*time.Millisecond, "%s", r.stderr)
	port, file := freePort(t), filepath.Join(t.TempDir(), "token")
	base := fmt.Sprintf("http://localhost:%d", port)
	p := start(t, h.env, "banksman-gateway", "--creds", h.creds("gateway.json"), "--listen", fmt.Sprintf("127.0.0.1:%d", port),
		"--base-url", base, "--test-login", file, "--login")
	m := p.line(`(http://localhost:\d+)/#login=(\S+)`)
	return &office{instance: &instance{process: p, home: h, login: m[0], url: base}, h: h, args: []string{"--url", base, "--login", file}}
}

// do runs a command for those who manage people and tokens.
func (o *office) do(args ...string) result {
	o.t.Helper()
	return o.h.run(append(args, o.args...)...)
}

// authenticator gives a page a passkey device whose owner always says yes.
func (p *page) authenticator() {
	p.t.Helper()
	p.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, webauthn.Enable, webauthn.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
			Options: &webauthn.VirtualAuthenticatorOptions{
				Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
				HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
			},
		})
		return err
	}))
}

// In a real browser: an invitation, a passkey, a sign-in with it, and the end of
// it all when the person is disabled.
func TestPasskeyInTheBrowser(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := o.do("users", "invite", "vera", "--name", "Vera V.", "--role", "viewer", "--project", "*")
	require.Zero(t, r.code, r.stderr)
	link := strings.TrimSpace(r.stdout)
	require.True(t, strings.HasPrefix(link, o.url+"/signin.html#invite="), link)

	p := newBrowser(t).open(o.url + "/signin.html")
	p.authenticator()
	p.run(chromedp.Navigate("about:blank"), chromedp.Navigate(link))
	p.click("#ways button")
	p.see(testID("principal"))
	require.Equal(t, "Vera V.", p.text(testID("principal")))

	evaluate[bool](p, `(localStorage.clear(), true)`)
	p.run(chromedp.Navigate(o.url + "/signin.html"))
	p.click("#ways button")
	p.see(testID("principal"))
	require.Equal(t, "Vera V.", p.text(testID("principal")))

	// The link is used up.
	second := newBrowser(t).open(o.url + "/signin.html")
	second.authenticator()
	second.run(chromedp.Navigate("about:blank"), chromedp.Navigate(link))
	second.click("#ways button")
	second.holds(`document.querySelector("#problem").textContent !== ""`)
	second.gone(testID("principal"))

	r = o.do("users")
	require.Zero(t, r.code, r.stderr)
	require.Regexp(t, `vera\s+Vera V\.\s+viewer of \*\s+1\s+active`, r.stdout)
	require.Zero(t, o.do("users", "disable", "vera").code)
	p.see(testID("login-needed"))
}

// A page shows one person and acts as that person: whoever signs in in another tab of
// the same browser gets a page of their own in this one, with nothing of the one before.
func TestAnotherPersonInAnotherTab(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := o.do("users", "invite", "vera", "--name", "Vera V.", "--role", "viewer", "--project", "shop")
	require.Zero(t, r.code, r.stderr)
	o.h.ask("--project", "vault", "--tool", "Bash", "--input", `{"command":"cat /vault/combination"}`, "--title", "Open the vault")

	b := newBrowser(t)
	first := b.open(o.login)
	first.card("cat /vault/combination")
	mine := evaluate[string](first, `localStorage.getItem("banksman.session")`)

	second := b.open(o.url + "/signin.html")
	second.authenticator()
	second.run(chromedp.Navigate("about:blank"), chromedp.Navigate(strings.TrimSpace(r.stdout)))
	second.click("#ways button")
	second.see(testID("principal"))
	require.Equal(t, "Vera V.", second.text(testID("principal")))

	first.reads(testID("principal"), "Vera V.")
	require.Empty(t, first.cards())
	require.NotContains(t, evaluate[string](first, `document.documentElement.outerHTML`), "vault")

	// The end of the first person's session leaves the second signed in.
	var kept struct{ Token string }
	require.NoError(t, json.Unmarshal([]byte(mine), &kept))
	code, body := o.call("POST", "/api/logout", kept.Token, map[string]any{})
	require.Equal(t, http.StatusOK, code, body)
	first.reload()
	require.Equal(t, "Vera V.", first.text(testID("principal")))
}

// In a team a terminal comes in by the code that it shows, typed by the person whose
// terminal it is; others are not asked.
func TestATerminalOfATeamComesInByItsCode_B56(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := o.do("users", "invite", "vera", "--name", "Vera V.", "--role", "approver", "--project", "*")
	require.Zero(t, r.code, r.stderr)
	other := newBrowser(t).open(o.login)
	other.see(testID("principal"))
	p := newBrowser(t).open(o.url + "/signin.html")
	p.authenticator()
	p.run(chromedp.Navigate("about:blank"), chromedp.Navigate(strings.TrimSpace(r.stdout)))
	p.click("#ways button")
	p.see(testID("principal"))

	file := filepath.Join(t.TempDir(), "login.json")
	login := start(t, o.h.env, "banksman", "login", "--cli", "--data", o.h.data, "--login", file)
	code := login.line(`^([A-Z0-9]{8})$`)[1]
	p.run(chromedp.Navigate(o.url + "/#/terminal"))
	p.fill(testID("cli-code"), strings.ToLower(code[:4]+"-"+code[4:]))
	p.click(testID("cli-find"))
	p.reads(testID("cli-login"), code)
	p.click(testID("cli-login-allow"))
	require.Zero(t, login.wait(), login.output())
	var kept struct{ Token string }
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &kept))
	status, body := o.call("GET", "/api/me", kept.Token, nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"id":"vera"`)
	require.Contains(t, body, `"via":"cli"`)
	require.False(t, evaluate[bool](other, fmt.Sprintf(`!!document.querySelector(%q)`, testID("cli-login"))))
}

// A mode that approves in advance takes the passkey: the form leads there and back, and
// then it starts.
func TestAModeTakesThePasskeyInTheBrowser_B56(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	start(t, o.h.env, "banksman-agent", "--creds", o.h.creds("owner-agents.json"), "--data", filepath.Join(o.h.data, "worker"))
	p := newBrowser(t).open(o.login)
	p.see(testID("principal"))
	p.authenticator()
	p.run(chromedp.Navigate(o.url + "/signin.html#passkey"))
	p.click("#ways button")
	p.reads("#title", "Added")
	// A sign-in that no passkey was used in.
	r := o.h.run("login")
	require.Zero(t, r.code, r.stderr)
	p.run(chromedp.Navigate("about:blank"), chromedp.Navigate(strings.TrimSpace(r.stdout)))
	p.see(testID("principal"))

	p.run(chromedp.Navigate(o.url + "/#/new"))
	p.fill(testID("start-prompt"), "show me")
	p.runtime("demo")
	p.choose(testID("start-mode"), "acceptEdits")
	p.click(testID("start-submit"))
	p.click(testID("proof"))
	p.click("#ways button")
	p.reads("#title", "Confirmed")
	p.click("#ways a")
	p.see(testID("start-mode"))
	require.Equal(t, "acceptEdits", evaluate[string](p, fmt.Sprintf(`document.querySelector(%q).value`, testID("start-mode"))), "what was chosen and written is kept")
	p.runtime("demo")
	p.click(testID("start-submit"))
	p.see(testID("session-mode"))
	p.holds(fmt.Sprintf(`document.querySelector(%q).value === "acceptEdits"`, testID("session-mode")))
}

// An invitation works once: a browser that could not keep what it brings does not
// use it up. And a link to the page shows nobody's words but the page's.
func TestAFullBrowserUsesUpNoInvitation(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := o.do("users", "invite", "vera", "--name", "Vera V.", "--role", "viewer", "--project", "*")
	require.Zero(t, r.code, r.stderr)
	p := newBrowser(t).open(o.url + "/signin.html?error=x&error_description=Call+555+0100")
	p.holds(`document.querySelector("#problem").textContent !== ""`)
	require.NotContains(t, p.text("#problem"), "555")

	p.authenticator()
	evaluate[bool](p, `(() => {
		for (let n = 1 << 22; n > 0; n >>= 1) {
			try { for (let i = 0; ; i++) localStorage.setItem("full" + n + "." + i, "x".repeat(n)); } catch {}
		}
		return true;
	})()`)
	p.run(chromedp.Navigate("about:blank"), chromedp.Navigate(strings.TrimSpace(r.stdout)))
	p.click("#ways button")
	p.holds(`/has no room.*nothing was used up/.test(document.querySelector("#problem").textContent)`)
	evaluate[bool](p, `(localStorage.clear(), true)`)
	p.click("#ways button")
	p.see(testID("principal"))
	require.Equal(t, "Vera V.", p.text(testID("principal")))
}

func TestTokensFromTheTerminal(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := o.do("tokens", "create", "ci", "--role", "approver", "--project", "shop", "--expires", "90d")
	require.Zero(t, r.code, r.stderr)
	token := strings.TrimSpace(r.stdout)
	require.Regexp(t, `^banksman_[A-Za-z0-9_-]{43}$`, token)
	code, body := o.call("GET", "/api/me", token, nil)
	require.Equal(t, http.StatusOK, code, body)
	require.Contains(t, body, `"projects":["shop"]`)

	r = o.do("tokens")
	require.Zero(t, r.code, r.stderr)
	require.Regexp(t, `ci\s+approver of shop`, r.stdout)
	require.NotContains(t, r.stdout, token)
	id := strings.Fields(strings.Split(r.stdout, "\n")[1])[0]

	// What a program's token, or a terminal that may only decide, does not do.
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	r = o.h.run("tokens", "--url", o.url, "--login", file)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "--manage")

	require.Zero(t, o.do("tokens", "revoke", id).code)
	code, _ = o.call("GET", "/api/me", token, nil)
	require.Equal(t, http.StatusUnauthorized, code)
	r = o.do("tokens", "revoke", "ffffffffffff")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "no such token")
	r = o.h.run("tokens", "--url", "http://example.com", "--login", o.args[3])
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "--url", "a token goes over TLS or stays on this machine")
	for _, args := range [][]string{
		{"tokens", "create", "ci", "--project", "shop"},
		{"tokens", "create", "ci", "--role", "approver"},
		{"tokens", "create", "ci", "--role", "root", "--project", "*"},
		{"tokens", "create", "ci", "--role", "approver", "--project", "*", "--expires", "soon"},
		{"users", "invite", "Vera", "--role", "viewer", "--project", "*"},
	} {
		r := o.do(args...)
		require.Equal(t, 2, r.code, "%v: %s", args, r.stderr)
		require.NotEmpty(t, r.stderr)
	}
}
