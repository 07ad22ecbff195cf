package door_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/descope/virtualwebauthn"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door"
	"github.com/banksman/banksman/services/gateway/internal/door/act"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
	"github.com/banksman/banksman/services/gateway/internal/issuer"
	"github.com/banksman/banksman/services/gateway/internal/issuer/issuertest"
)

const teamURL = "https://banksman.example"

// newTeamHouse is a house that people reach over TLS, at least by its address.
func newTeamHouse(t *testing.T, change ...func(*auth.Options)) *house {
	base := mustURL(t, teamURL)
	store := newStore(t, append(change, func(o *auth.Options) { o.BaseURL = base })...)
	return newHouseOf(t, store, func(o *door.Options) { o.BaseURL = base })
}

// device is somebody's authenticator.
type device struct {
	h    *house
	auth virtualwebauthn.Authenticator
	rp   virtualwebauthn.RelyingParty
}

func newDevice(h *house) *device {
	return &device{
		h: h, auth: virtualwebauthn.NewAuthenticator(),
		rp: virtualwebauthn.RelyingParty{Name: "Banksman", ID: "banksman.example", Origin: teamURL},
	}
}

func (h *house) ceremony(path, body string) (int, wire.Ceremony, string) {
	h.t.Helper()
	status, raw := h.post(path, body)
	var c struct {
		wire.Ceremony
		Options json.RawMessage `json:"options"`
	}
	require.NoError(h.t, json.Unmarshal(raw, &c), string(raw))
	return status, c.Ceremony, string(c.Options)
}

// wholeKey is the length of a public key of P-256 whose coordinates have all their bytes.
const wholeKey = 77

// register makes a passkey from the options of a ceremony.
func (d *device) register(options string) (credential string) {
	d.h.t.Helper()
	o, err := virtualwebauthn.ParseAttestationOptions(options)
	require.NoError(d.h.t, err)
	d.auth.Options.UserHandle = []byte(o.UserID)
	c := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
	// The library leaves leading zeros of a coordinate out, and such a key is refused.
	for len(c.Key.AttestationData()) != wholeKey {
		c = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
	}
	credential = virtualwebauthn.CreateAttestationResponse(d.rp, d.auth, c, *o)
	d.auth.AddCredential(c)
	return credential
}

// use signs the challenge of a ceremony. Its counter stays at nought, as that of
// a passkey does that several devices share, unless it is set.
func (d *device) use(options string) (credential string) {
	d.h.t.Helper()
	o, err := virtualwebauthn.ParseAssertionOptions(options)
	require.NoError(d.h.t, err)
	return virtualwebauthn.CreateAssertionResponse(d.rp, d.auth, d.auth.Credentials[0], *o)
}

func end(c wire.Ceremony, credential, invite string) string {
	return string(text(wire.CeremonyEnd{Ceremony: c.Ceremony, Credential: json.RawMessage(credential), Invite: invite}))
}

// invited is a new user's invitation token.
func (h *house) invited(id string, roles ...wire.Grant) string {
	h.t.Helper()
	status, raw := h.post("/api/users", string(text(wire.NewUser{ID: id, Roles: roles})))
	require.Equal(h.t, 200, status, string(raw))
	return h.inviteLink(id)
}

func (h *house) inviteLink(id string) string {
	h.t.Helper()
	status, raw := h.post("/api/users/"+id+"/invite", "")
	require.Equal(h.t, 200, status, string(raw))
	var in wire.Invitation
	require.NoError(h.t, json.Unmarshal(raw, &in))
	_, token, ok := strings.Cut(in.URL, "#invite=")
	require.True(h.t, ok)
	require.True(h.t, strings.HasPrefix(in.URL, teamURL+"/signin.html#"))
	return token
}

// join registers a passkey by an invitation, and signs in.
func (h *house) join(d *device, token string) string {
	h.t.Helper()
	status, c, options := h.ceremony("/api/sign-in/invite/begin", `{"invite":"`+token+`"}`)
	require.Equal(h.t, 200, status, options)
	status, raw := h.post("/api/sign-in/invite/finish", end(c, d.register(options), token))
	require.Equal(h.t, 200, status, string(raw))
	var got loginToken
	require.NoError(h.t, json.Unmarshal(raw, &got))
	return got.Token
}

type loginToken struct {
	Token string `json:"token"`
}

func TestPasskeys(t *testing.T) {
	t.Parallel()
	h := newTeamHouse(t)
	viewer := grant(wire.RoleViewer, "shop")
	link := h.invited("vera", viewer)
	d := newDevice(h)

	t.Run("an invitation works once, and of many who race with it one gets in", func(t *testing.T) {
		_, c, options := h.ceremony("/api/sign-in/invite/begin", `{"invite":"`+link+`"}`)
		var wg sync.WaitGroup
		var mu sync.Mutex
		count := map[int]int{}
		var winner *device
		for range 8 {
			mine := newDevice(h)
			body := end(c, mine.register(options), link)
			wg.Go(func() {
				res, err := http.Post(h.url+"/api/sign-in/invite/finish", "application/json", strings.NewReader(body))
				if err != nil {
					return
				}
				_ = res.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				count[res.StatusCode]++
				if res.StatusCode == 200 {
					winner = mine
				}
			})
		}
		wg.Wait()
		require.Equal(t, map[int]int{200: 1, 401: 7}, count)
		d = winner
		status, _, _ := h.ceremony("/api/sign-in/invite/begin", `{"invite":"`+link+`"}`)
		require.Equal(t, 401, status)
	})
	signIn := func(t *testing.T, d *device) (int, string) {
		t.Helper()
		_, c, options := h.ceremony("/api/sign-in/passkey/begin", "")
		status, raw := h.post("/api/sign-in/passkey/finish", end(c, d.use(options), ""))
		var got loginToken
		require.NoError(t, json.Unmarshal(raw, &got))
		return status, got.Token
	}
	t.Run("it signs in, with the rights of its person", func(t *testing.T) {
		status, token := signIn(t, d)
		require.Equal(t, 200, status)
		status, raw := h.as(token).get("/api/me")
		require.Equal(t, 200, status)
		var me struct {
			Principal hitl.Principal `json:"principal"`
			Via       string         `json:"via"`
			Roles     []wire.Grant   `json:"roles"`
			Passkey   bool           `json:"passkey"`
		}
		require.NoError(t, json.Unmarshal(raw, &me))
		require.Equal(t, "vera", me.Principal.ID)
		require.Equal(t, auth.ViaPasskey, me.Via)
		require.Equal(t, []wire.Grant{viewer}, me.Roles)
		require.True(t, me.Passkey)
	})
	t.Run("what does not count", func(t *testing.T) {
		_, c, options := h.ceremony("/api/sign-in/passkey/begin", "")
		_, other, otherOptions := h.ceremony("/api/sign-in/passkey/begin", "")
		good := end(c, d.use(options), "")
		elsewhere := *d
		elsewhere.rp.Origin = "https://evil.example"
		unverified := *d
		unverified.auth.Options.UserNotVerified = true
		stranger := newDevice(h)
		stranger.auth.Options.UserHandle = d.auth.Options.UserHandle
		stranger.auth.AddCredential(virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2))
		fake := newDevice(h) // the id of vera's credential, with another key
		fake.auth.Options.UserHandle = d.auth.Options.UserHandle
		forged := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		forged.ID = d.auth.Credentials[0].ID
		fake.auth.AddCredential(forged)
		for name, body := range map[string]string{
			"another ceremony's":     end(other, d.use(options), ""),
			"a ceremony of nobody":   end(wire.Ceremony{Ceremony: "AAAA"}, d.use(options), ""),
			"changed ceremony":       end(wire.Ceremony{Ceremony: c.Ceremony[:len(c.Ceremony)-4] + "AAAA"}, d.use(options), ""),
			"another site":           end(other, elsewhere.use(otherOptions), ""),
			"nobody was there":       end(other, unverified.use(otherOptions), ""),
			"an unknown passkey":     end(other, stranger.use(otherOptions), ""),
			"a forged passkey":       end(other, fake.use(otherOptions), ""),
			"no credential":          end(other, `{}`, ""),
			"an invitation's":        end(other, newDevice(h).register(`{"publicKey":{"challenge":"AAAA","rp":{"id":"banksman.example","name":"x"},"user":{"id":"AAAA","name":"x"}}}`), ""),
			"proof instead of login": end(c, `{"id":"AAAA","rawId":"AAAA","type":"public-key","response":{}}`, ""),
		} {
			status, raw := h.post("/api/sign-in/passkey/finish", body)
			require.Equal(t, 401, status, "%s: %s", name, raw)
		}
		status, _ := h.post("/api/sign-in/passkey/finish", good)
		require.Equal(t, 200, status)
		status, _ = h.post("/api/sign-in/passkey/finish", good)
		require.Equal(t, 401, status, "a sign-in ends once")
	})
	t.Run("presence is proved, for a while", func(t *testing.T) {
		_, token := signIn(t, d)
		sess, err := h.auth.Check(t.Context(), token)
		require.NoError(t, err)
		var a api.Attempt
		act.Sign(&a, sess, h.auth)
		has, at, err := a.Presence(t.Context())
		require.NoError(t, err)
		require.True(t, has)
		require.WithinDuration(t, time.Now(), at, time.Minute, "signing in with a passkey proves it")

		// A session of the same person that came another way.
		other, sess, err := h.auth.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: "vera"})
		require.NoError(t, err)
		act.Sign(&a, sess, h.auth)
		has, at, err = a.Presence(t.Context())
		require.NoError(t, err)
		require.True(t, has)
		require.True(t, at.IsZero())
		status, _, _ := h.as(other).ceremony("/api/passkeys/begin", "")
		require.Equal(t, 400, status, "whoever has the session only does not add a passkey")
		_, c, options := h.as(other).ceremony("/api/proof/begin", "")
		status, _ = h.as(token).post("/api/proof/finish", end(c, d.use(options), ""))
		require.Equal(t, 401, status, "it is for the session that began it")
		status, raw := h.as(other).post("/api/proof/finish", end(c, d.use(options), ""))
		require.Equal(t, 200, status, string(raw))
		_, at, err = a.Presence(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, time.Minute)
		status, _, _ = h.as(other).ceremony("/api/passkeys/begin", "")
		require.Equal(t, 200, status)
	})
	t.Run("another's passkey proves nothing", func(t *testing.T) {
		bob := newDevice(h)
		token := h.join(bob, h.invited("bob", viewer))
		_, c, options := h.as(token).ceremony("/api/proof/begin", "")
		status, _ := h.as(token).post("/api/proof/finish", end(c, d.use(options), ""))
		require.Equal(t, 401, status)
	})
	t.Run("the owner gets one too, and who has none proves nothing", func(t *testing.T) {
		status, _, _ := h.ceremony("/api/proof/begin", "")
		require.Equal(t, 400, status)
		mine := newDevice(h)
		_, c, options := h.ceremony("/api/passkeys/begin", "")
		status, raw := h.post("/api/passkeys/finish", end(c, mine.register(options), ""))
		require.Equal(t, 200, status, string(raw))
		status, token := signIn(t, mine)
		require.Equal(t, 200, status)
		sess, err := h.auth.Check(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, auth.OwnerID, sess.Person.ID)
		require.True(t, sess.Manages())
	})
	t.Run("a copy that counts for itself", func(t *testing.T) {
		carl := newDevice(h)
		h.join(carl, h.invited("carl", viewer))
		for i, c := range []struct {
			counter uint32
			want    int
		}{{7, 200}, {8, 200}, {8, 401}, {3, 401}, {9, 200}} {
			carl.auth.Credentials[0].Counter = c.counter
			status, _ := signIn(t, carl)
			require.Equal(t, c.want, status, i)
		}
	})
	t.Run("forgotten, and disabled", func(t *testing.T) {
		status, _ := h.post("/api/users/vera", `{"forget_passkeys":true}`)
		require.Equal(t, 200, status)
		status, _ = signIn(t, d)
		require.Equal(t, 401, status)
		again := h.inviteLink("vera")
		status, _ = h.post("/api/users/vera", `{"disabled":true}`)
		require.Equal(t, 200, status)
		status, _, _ = h.ceremony("/api/sign-in/invite/begin", `{"invite":"`+again+`"}`)
		require.Equal(t, 401, status)
		status, _ = h.post("/api/users/vera/invite", "")
		require.Equal(t, 400, status)
	})
}

func TestWithoutANamePasskeysAreOff(t *testing.T) {
	t.Parallel()
	h := newHouse(t) // by address, without TLS
	status, raw := h.get("/api/sign-in")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"passkeys":false}`, string(raw))
	for _, path := range []string{"/api/sign-in/passkey/begin", "/api/sign-in/invite/begin", "/api/passkeys/begin"} {
		status, _ := h.post(path, `{"invite":"x"}`)
		require.Equal(t, 400, status, path)
	}
}

// Over TLS a browser's token is a cookie that no script reads and no other site
// can use.
func TestCookies(t *testing.T) {
	t.Parallel()
	h := newTeamHouse(t)
	link, _, err := h.auth.Link(t.Context())
	require.NoError(t, err)
	browser := func(site string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Authorization")
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
		}
	}
	status, raw, header := h.call(http.MethodPost, "/api/login", `{"token":"`+link+`"}`, browser("same-origin"))
	require.Equal(t, 200, status)
	require.Contains(t, string(raw), `"token":"cookie"`)
	set, err := http.ParseSetCookie(header.Get("Set-Cookie"))
	require.NoError(t, err)
	require.Equal(t, "__Host-banksman", set.Name)
	require.True(t, set.Secure && set.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, set.SameSite)
	require.Equal(t, "/", set.Path)
	require.Empty(t, set.Domain)

	with := func(site string) func(*http.Request) {
		return func(r *http.Request) {
			browser(site)(r)
			r.AddCookie(&http.Cookie{Name: set.Name, Value: set.Value})
		}
	}
	for site, want := range map[string]int{"same-origin": 200, "same-site": 401, "cross-site": 401, "none": 401, "": 401} {
		status, _, _ = h.call(http.MethodGet, "/api/me", "", with(site))
		require.Equal(t, want, status, "GET from %q", site)
	}
	for site, want := range map[string]int{"same-origin": 200, "same-site": 403, "cross-site": 403} {
		status, _, _ = h.call(http.MethodPost, "/api/users", `{"id":"u-`+site+`","roles":[{"role":"viewer","projects":["*"]}]}`, with(site))
		require.Equal(t, want, status, "POST from %q", site)
	}

	socketWith := func(header http.Header) int {
		tb, _, err := h.dial(func(o *websocket.DialOptions) { o.HTTPHeader = header })
		if err != nil {
			return 0
		}
		tb.send(map[string]string{"type": "auth", "token": socket.CookieToken})
		raw, err := tb.frame()
		if err != nil {
			return int(websocket.CloseStatus(err))
		}
		require.Contains(t, string(raw), `"hello"`)
		return 200
	}
	named := "__Host-banksman=" + set.Value
	require.Equal(t, 200, socketWith(http.Header{"Cookie": {named}, "Sec-Fetch-Site": {"same-origin"}, "Origin": {teamURL}}))
	require.Equal(t, wire.CloseBadAuth, socketWith(http.Header{"Cookie": {named}}))
	require.Equal(t, wire.CloseBadAuth, socketWith(http.Header{"Cookie": {named}, "Sec-Fetch-Site": {"cross-site"}, "Origin": {teamURL}}))
	require.Zero(t, socketWith(http.Header{"Cookie": {named}, "Sec-Fetch-Site": {"same-origin"}, "Origin": {"https://evil.example"}}))

	status, _, header = h.call(http.MethodPost, "/api/logout", "", with("same-origin"))
	require.Equal(t, 200, status)
	require.Contains(t, header.Get("Set-Cookie"), "Max-Age=0")
	status, _, _ = h.call(http.MethodGet, "/api/me", "", with("same-origin"))
	require.Equal(t, 401, status)
}

// idp is an issuer of sign-ins.
type idp struct {
	*issuertest.Issuer
	t      *testing.T
	key    *ecdsa.PrivateKey    // signs
	claims map[string]any       // of whoever signs in next
	forge  func(map[string]any) // what an evil issuer does
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	i, err := issuertest.New()
	require.NoError(t, err)
	p := &idp{Issuer: i, t: t, key: i.Sign}
	i.Fill = func(_ string, claims map[string]any) {
		maps.Copy(claims, p.claims)
		if p.forge != nil {
			p.forge(claims)
		}
		i.Sign = p.key
	}
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	i.URL, i.Redirect = server.URL, teamURL+"/signin.html"
	return p
}

// visit is what a browser does at the issuer: the person signs in there and
// comes back with a code.
func (p *idp) visit(address string) (state, code string) {
	p.t.Helper()
	u, err := url.Parse(address)
	require.NoError(p.t, err)
	q := u.Query()
	require.Equal(p.t, p.URL+"/auth", u.Scheme+"://"+u.Host+u.Path)
	require.Equal(p.t, "code", q.Get("response_type"))
	require.Contains(p.t, q.Get("scope"), "openid")
	return q.Get("state"), p.Code("", q)
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	h := newTeamHouse(t, func(o *auth.Options) {
		o.OIDC = &issuer.Options{
			Issuer: p.URL, Name: "Acme", ClientID: "banksman", Secret: "s3cret", Roles: map[string][]wire.Grant{
				"ops": {grant(wire.RoleApprover, "shop")}, "staff": {grant(wire.RoleViewer, "*")},
			},
		}
	})
	_, raw := h.get("/api/sign-in")
	require.JSONEq(t, `{"passkeys":true,"oidc":"Acme"}`, string(raw))
	try := func(t *testing.T, change func(*wire.CeremonyEnd)) (int, string) {
		t.Helper()
		status, c, _ := h.ceremony("/api/sign-in/oidc/begin", "")
		require.Equal(t, 200, status)
		in := wire.CeremonyEnd{Ceremony: c.Ceremony}
		in.State, in.Code = p.visit(c.URL)
		if change != nil {
			change(&in)
		}
		status, raw := h.post("/api/sign-in/oidc/finish", string(text(in)))
		var got loginToken
		require.NoError(t, json.Unmarshal(raw, &got))
		if status == 200 {
			status, raw := h.post("/api/sign-in/oidc/finish", string(text(in)))
			require.Equal(t, 401, status, "it ends once: %s", raw)
		}
		return status, got.Token
	}
	me := func(t *testing.T, token string) (int, []wire.Grant, string) {
		status, raw := h.as(token).get("/api/me")
		var me struct {
			Principal hitl.Principal `json:"principal"`
			Roles     []wire.Grant   `json:"roles"`
		}
		require.NoError(t, json.Unmarshal(raw, &me))
		return status, me.Roles, me.Principal.Name
	}
	p.claims = map[string]any{"sub": "u1", "name": "Olga", "groups": []string{"ops", "staff", "other"}}
	status, first := try(t, nil)
	require.Equal(t, 200, status)
	_, roles, name := me(t, first)
	require.Equal(t, []wire.Grant{grant(wire.RoleApprover, "shop"), grant(wire.RoleViewer, "*")}, roles)
	require.Equal(t, "Olga", name)

	t.Run("what does not count", func(t *testing.T) {
		_, other, _ := h.ceremony("/api/sign-in/oidc/begin", "")
		for name, change := range map[string]func(*wire.CeremonyEnd){
			"another state":             func(in *wire.CeremonyEnd) { in.State += "x" },
			"no state":                  func(in *wire.CeremonyEnd) { in.State = "" },
			"another browser's":         func(in *wire.CeremonyEnd) { in.Ceremony = other.Ceremony },
			"no ceremony":               func(in *wire.CeremonyEnd) { in.Ceremony = "" },
			"another code":              func(in *wire.CeremonyEnd) { in.Code = "guess" },
			"no code":                   func(in *wire.CeremonyEnd) { in.Code = "" },
			"a code of another sign-in": func(in *wire.CeremonyEnd) { _, in.Code = p.visit(other.URL) },
		} {
			status, _ := try(t, change)
			require.Equal(t, 401, status, name)
		}
		for name, forge := range map[string]func(map[string]any){
			"another audience": func(c map[string]any) { c["aud"] = "other" },
			"another issuer":   func(c map[string]any) { c["iss"] = "https://evil.example" },
			"another nonce":    func(c map[string]any) { c["nonce"] = "x" },
			"no nonce":         func(c map[string]any) { delete(c, "nonce") },
			"expired":          func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
		} {
			p.forge = forge
			status, _ := try(t, nil)
			require.Equal(t, 401, status, name)
		}
		p.forge = nil
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		good := p.key
		p.key = key
		status, _ := try(t, nil)
		require.Equal(t, 401, status, "another's signature")
		p.key = good
	})
	t.Run("no group has a role", func(t *testing.T) {
		p.claims = map[string]any{"sub": "u2", "groups": []string{"other"}}
		status, _ := try(t, nil)
		require.Equal(t, 403, status)
		p.claims = map[string]any{"sub": "u3"}
		status, _ = try(t, nil)
		require.Equal(t, 403, status)
	})
	t.Run("other groups now", func(t *testing.T) {
		p.claims = map[string]any{"sub": "u1", "name": "Olga", "groups": "staff"}
		status, token := try(t, nil)
		require.Equal(t, 200, status)
		_, roles, _ := me(t, token)
		require.Equal(t, []wire.Grant{grant(wire.RoleViewer, "*")}, roles)
		status, _, _ = me(t, first)
		require.Equal(t, 401, status, "who was signed in with the old ones is signed out")
	})
	t.Run("disabled here", func(t *testing.T) {
		list, err := h.auth.Users(context.Background())
		require.NoError(t, err)
		require.Len(t, list, 1)
		status, raw := h.post("/api/users/"+list[0].ID, `{"roles":[{"role":"admin","projects":["*"]}]}`)
		require.Equal(t, 400, status, "roles are the issuer's: %s", raw)
		status, _ = h.post("/api/users/"+list[0].ID, `{"disabled":true}`)
		require.Equal(t, 200, status)
		status, _ = try(t, nil)
		require.Equal(t, 401, status)
	})
}
