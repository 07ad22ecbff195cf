package door_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/issuer"
)

// notify has the browser of a session told.
func (h *house) notify() {
	h.t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(h.t, err)
	e := base64.RawURLEncoding.EncodeToString
	raw, err := json.Marshal(wire.PushSubscription{
		Endpoint: "https://push.example.com/" + rand.Text(), Keys: wire.PushKeys{P256dh: e(key.PublicKey().Bytes()), Auth: e(make([]byte, 16))},
	})
	require.NoError(h.t, err)
	status, raw := h.post("/api/push", string(raw))
	require.Equal(h.t, 200, status, "%s", raw)
}

// later are the browsers in which a person is told in a year, when all sign-ins of
// now would have ended by themselves.
func (h *house) later(person string) int {
	h.t.Helper()
	h.ahead.Store(int64(365 * 24 * time.Hour))
	defer h.ahead.Store(0)
	list, err := h.pushes.Targets(h.t.Context(), "default", person, nil)
	require.NoError(h.t, err)
	return len(list)
}

// Whoever signs out is not told again once the sign-in would have ended by itself.
func TestABrowserThatWasSignedOutIsForgotten(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ada := hitl.Principal{Kind: "person", ID: "ada"}
	h.user("ada", grant(wire.RoleApprover, "*"))
	in := func() *house {
		token, _, err := h.auth.GrantTo(t.Context(), ada)
		require.NoError(t, err)
		s := h.as(token)
		s.notify()
		return s
	}
	done := func(s *house, method, path, body string) {
		t.Helper()
		status, raw, _ := s.call(method, path, body)
		require.Equal(t, 200, status, "%s", raw)
	}
	stays := in()
	require.Equal(t, 1, h.later("ada"), "a sign-in that ends by itself leaves its browser")
	done(in(), http.MethodPost, "/api/logout", "{}")
	require.Equal(t, 1, h.later("ada"))

	other := in()
	var list wire.SignInList
	_, raw := stays.get("/api/sign-ins")
	require.NoError(t, json.Unmarshal(raw, &list))
	require.Equal(t, 2, h.later("ada"))
	for _, s := range list.SignIns {
		_, is := other.get("/api/me")
		require.NotEmpty(t, is)
		if !s.This {
			done(stays, http.MethodDelete, "/api/sign-ins/"+s.ID, "")
		}
	}
	require.Equal(t, 1, h.later("ada"))

	in()
	in()
	require.Equal(t, 3, h.later("ada"))
	done(stays, http.MethodPost, "/api/logout/others", "")
	require.Equal(t, 1, h.later("ada"))

	for name, end := range map[string]func(){
		"everywhere":   func() { done(stays, http.MethodPost, "/api/logout/everywhere", "{}") },
		"by an admin":  func() { done(h, http.MethodPost, "/api/users/ada/logout", "{}") },
		"other roles":  func() { done(h, http.MethodPost, "/api/users/ada", `{"roles":[{"role":"viewer","projects":["*"]}]}`) },
		"its passkeys": func() { done(h, http.MethodPost, "/api/users/ada", `{"forget_passkeys":true}`) },
		"shut for a day": func() {
			done(h, http.MethodPost, "/api/users/ada", `{"disabled":true}`)
			done(h, http.MethodPost, "/api/users/ada", `{"disabled":false}`)
		},
	} {
		stays = in()
		require.NotZero(t, h.later("ada"), name)
		end()
		require.Zero(t, h.later("ada"), name)
	}
}

// An issuer's word for somebody holds for twelve hours, for whatever is done in that
// person's name, and whatever the person has signed in by since.
func TestAnIssuersWordHoldsForATime(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	var ahead atomic.Int64
	h := newTeamHouse(t, func(o *auth.Options) {
		o.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		o.OIDC = &issuer.Options{Issuer: p.URL, Name: "Acme", ClientID: "banksman", Secret: "s3cret", Roles: map[string][]wire.Grant{
			"ops": {grant(wire.RoleApprover, "*")}, "staff": {grant(wire.RoleViewer, "*")},
		}}
	})
	signIn := func(groups string) *house {
		t.Helper()
		p.claims = map[string]any{"sub": "u1", "name": "Olga", "groups": groups}
		status, c, _ := h.ceremony("/api/sign-in/oidc/begin", "")
		require.Equal(t, 200, status)
		in := wire.CeremonyEnd{Ceremony: c.Ceremony}
		in.State, in.Code = p.visit(c.URL)
		status, raw := h.post("/api/sign-in/oidc/finish", string(text(in)))
		require.Equal(t, 200, status, "%s", raw)
		var got loginToken
		require.NoError(t, json.Unmarshal(raw, &got))
		return h.as(got.Token)
	}
	signIn("ops").notify()
	list, err := h.auth.Users(t.Context())
	require.NoError(t, err)
	olga := hitl.Principal{Kind: "person", ID: list[0].ID}
	may := func() bool {
		_, rights, err := h.auth.Who(t.Context(), olga.ID)
		require.NoError(t, err)
		return rights.In("default")
	}
	require.True(t, may())
	require.Equal(t, 1, h.later(olga.ID))

	// What is granted with a passkey an hour before the end ends with the word.
	ahead.Add(int64(11 * time.Hour))
	token, sess, err := h.auth.GrantTo(t.Context(), olga)
	require.NoError(t, err)
	require.Less(t, time.Until(sess.ExpiresAt), 13*time.Hour)
	require.True(t, sess.Vouched, "and so do its rules")
	again, err := h.auth.CheckHash(t.Context(), sess.Hash)
	require.NoError(t, err)
	require.True(t, again.Vouched)
	ahead.Add(int64(time.Hour + time.Minute))
	require.False(t, may())
	require.Zero(t, h.later(olga.ID))
	status, _ := h.as(token).get("/api/me")
	require.Equal(t, 401, status)
	_, _, err = h.auth.GrantTo(t.Context(), olga)
	require.ErrorIs(t, err, auth.ErrUnknown, "nobody signs in past the issuer")
	rights, err := h.auth.Standing(t.Context(), olga.ID)
	require.NoError(t, err)
	require.True(t, rights.In("default"), "rules go on")

	// Other groups at the issuer sign out, and forget the browsers.
	signIn("ops")
	require.True(t, may())
	require.Equal(t, 1, h.later(olga.ID))
	signIn("staff")
	require.True(t, may())
	require.Zero(t, h.later(olga.ID))
}
