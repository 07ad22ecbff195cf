package door

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
	"github.com/banksman/banksman/services/gateway/internal/issuer"
)

// signingIn adds the routes of passkeys and of the issuer.
func (d *Door) signingIn(serve func(string, http.HandlerFunc), person func(string, signedIn)) {
	serve("GET /api/sign-in", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, wire.SignInWays{Passkeys: d.Auth.HasPasskeys(), OIDC: d.Auth.IssuerName()})
	})
	serve("POST /api/sign-in/passkey/begin", d.beginLogin)
	serve("POST /api/sign-in/passkey/finish", d.finishLogin)
	serve("POST /api/sign-in/oidc/begin", d.beginOIDC)
	serve("POST /api/sign-in/oidc/finish", d.finishOIDC)
	serve("POST /api/sign-in/invite/begin", func(w http.ResponseWriter, r *http.Request) { d.beginPasskey(w, r, nil) })
	serve("POST /api/sign-in/invite/finish", func(w http.ResponseWriter, r *http.Request) { d.finishPasskey(w, r, nil) })
	person("POST /api/passkeys/begin", d.beginPasskey)
	person("POST /api/passkeys/finish", d.finishPasskey)
	person("POST /api/proof/begin", d.beginProof)
	person("POST /api/proof/finish", d.finishProof)
}

// maxCredential fits what a browser gives of a passkey, in bytes.
const maxCredential = 64 << 10

// signInError answers for a sign-in that failed.
func (d *Door) signInError(w http.ResponseWriter, err error) {
	var inv *hitl.InvalidError
	switch {
	case errors.As(err, &inv):
		failInvalid(w, inv)
	case errors.Is(err, auth.ErrUnavailable), errors.Is(err, issuer.ErrAway):
		d.log.Warn("sign-in failed", "error", err)
		fail(w, http.StatusServiceUnavailable, string(hitl.Unavailable), "nobody can sign in this way now; try again")
	case errors.Is(err, auth.ErrNoIssuer):
		fail(w, http.StatusNotFound, string(hitl.NotFound), "no issuer is configured here")
	case errors.Is(err, issuer.ErrNoRole):
		fail(w, http.StatusForbidden, string(hitl.Forbidden), issuer.ErrNoRole.Error())
	case errors.Is(err, auth.ErrCredential), errors.Is(err, issuer.ErrAnswer):
		d.log.Warn("sign-in refused", "error", err)
		fail(w, http.StatusUnauthorized, "unauthorized", "this sign-in does not count here")
	default:
		// What was used, has expired or is nobody's any more.
		d.log.Debug("sign-in refused", "error", err)
		fail(w, http.StatusUnauthorized, "unauthorized", "this was used or has expired: begin again, or ask for another link")
	}
}

// enter gives a browser its session. Over TLS that is a cookie that no script
// can read; the token says so. Programs, and pages on this machine, get the token.
func (d *Door) enter(w http.ResponseWriter, r *http.Request, token string, sess *auth.Session) {
	if d.BaseURL != nil && d.BaseURL.Scheme == "https" && r.Header.Get("Sec-Fetch-Site") != "" {
		http.SetCookie(w, cookie(token, time.Until(sess.ExpiresAt)))
		token = socket.CookieToken
	}
	reply(w, http.StatusOK, wire.SessionToken{Token: token, ExpiresAt: sess.ExpiresAt})
}

func cookie(token string, lasts time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: socket.CookieName, Value: token, Path: "/", MaxAge: int(lasts / time.Second),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// forget takes the cookie back from a browser that has one.
func (d *Door) forget(w http.ResponseWriter, r *http.Request) {
	if _, err := r.Cookie(socket.CookieName); err == nil {
		http.SetCookie(w, cookie("", -time.Second))
	}
}

func (d *Door) beginPasskey(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	var in wire.CeremonyEnd
	if r.ContentLength != 0 && !read(w, r, maxSmall, &in) {
		return
	}
	ceremony, options, err := d.Auth.BeginPasskey(r.Context(), in.Invite, sess)
	if err != nil {
		d.signInError(w, err)
		return
	}
	reply(w, http.StatusOK, wire.Ceremony{Ceremony: ceremony, Options: options})
}

func (d *Door) finishPasskey(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	var in wire.CeremonyEnd
	if !read(w, r, maxCredential, &in) {
		return
	}
	token, made, err := d.Auth.FinishPasskey(r.Context(), in.Ceremony, in.Invite, sess, in.Credential)
	switch {
	case err != nil:
		d.signInError(w, err)
	case made != nil:
		d.enter(w, r, token, made)
	default:
		reply(w, http.StatusOK, wire.OK{OK: true})
	}
}

func (d *Door) beginLogin(w http.ResponseWriter, r *http.Request) {
	ceremony, options, err := d.Auth.BeginLogin(r.Context())
	if err != nil {
		d.signInError(w, err)
		return
	}
	reply(w, http.StatusOK, wire.Ceremony{Ceremony: ceremony, Options: options})
}

func (d *Door) finishLogin(w http.ResponseWriter, r *http.Request) {
	var in wire.CeremonyEnd
	if !read(w, r, maxCredential, &in) {
		return
	}
	token, sess, err := d.Auth.FinishLogin(r.Context(), in.Ceremony, in.Credential)
	if err != nil {
		d.signInError(w, err)
		return
	}
	d.enter(w, r, token, sess)
}

func (d *Door) beginProof(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	ceremony, options, err := d.Auth.BeginProof(r.Context(), sess)
	if err != nil {
		d.signInError(w, err)
		return
	}
	reply(w, http.StatusOK, wire.Ceremony{Ceremony: ceremony, Options: options})
}

func (d *Door) finishProof(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	var in wire.CeremonyEnd
	if !read(w, r, maxCredential, &in) {
		return
	}
	if err := d.Auth.FinishProof(r.Context(), sess, in.Ceremony, in.Credential); err != nil {
		d.signInError(w, err)
		return
	}
	reply(w, http.StatusOK, wire.OK{OK: true})
}

func (d *Door) beginOIDC(w http.ResponseWriter, r *http.Request) {
	ceremony, address, err := d.Auth.BeginOIDC(r.Context())
	if err != nil {
		d.signInError(w, err)
		return
	}
	reply(w, http.StatusOK, wire.Ceremony{Ceremony: ceremony, URL: address})
}

func (d *Door) finishOIDC(w http.ResponseWriter, r *http.Request) {
	var in wire.CeremonyEnd
	if !read(w, r, maxCredential, &in) {
		return
	}
	token, sess, err := d.Auth.FinishOIDC(r.Context(), in.Ceremony, in.State, in.Code)
	if err != nil {
		d.signInError(w, err)
		return
	}
	d.enter(w, r, token, sess)
}

// invite makes a link by which a user registers a passkey.
func (d *Door) invite(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	token, expires, u, err := d.Auth.Invite(r.Context(), r.PathValue("id"), sess.Person)
	if err != nil {
		d.authError(w, err, "inviting")
		return
	}
	link := url.URL{Scheme: d.BaseURL.Scheme, Host: d.BaseURL.Host, Path: auth.SignInPage, Fragment: "invite=" + token}
	reply(w, http.StatusOK, wire.Invitation{User: u, URL: link.String(), ExpiresAt: expires})
}
