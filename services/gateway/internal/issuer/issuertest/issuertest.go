// Package issuertest is an OpenID Connect issuer for tests: it publishes what it is
// and its key, sends browsers back with a code, and gives a signed token for a code
// to whoever has the secret and the verifier (RFC 7636) that belong to it.
package issuertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The client that it knows.
const (
	ClientID = "banksman"
	Secret   = "s3cret"
)

// Issuer is an http.Handler. URL and Redirect are set before it is used.
type Issuer struct {
	URL      string // its own address
	Redirect string // where it sends people back to
	// People are those whom its page offers.
	People []string
	// Fill completes the claims of the token for one of them; one call at a time.
	Fill func(who string, claims map[string]any)
	// Sign is the key of its tokens; the published one, unless a test replaces it.
	Sign *ecdsa.PrivateKey

	mux *http.ServeMux

	mu    sync.Mutex
	codes map[string]visit
}

// visit is who came, and with which question.
type visit struct {
	who string
	url.Values
}

// New makes one with a key of its own.
func New() (*Issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issuertest: %w", err)
	}
	p := &Issuer{Sign: key, mux: http.NewServeMux(), codes: map[string]visit{}}
	p.mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		put(w, http.StatusOK, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		})
	})
	p.mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		put(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	})
	p.mux.HandleFunc("GET /auth", p.page)
	p.mux.HandleFunc("GET /auth/enter", p.enter)
	p.mux.HandleFunc("POST /token", p.token)
	return p, nil
}

func (p *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Code is what somebody comes back with who was asked so.
func (p *Issuer) Code(who string, asked url.Values) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	code := rand.Text()
	p.codes[code] = visit{who, asked}
	return code
}

var page = template.Must(template.New("").Parse(`<!doctype html><html lang="en"><title>Acme</title><h1>Who are you?</h1>
<ul>{{range .}}<li><a href="{{.To}}">Go on as {{.Who}}</a></li>{{end}}</ul></html>`))

func (p *Issuer) page(w http.ResponseWriter, r *http.Request) {
	type way struct{ Who, To string }
	var ways []way
	for _, who := range p.People {
		q := r.URL.Query()
		q.Set("who", who)
		ways = append(ways, way{who, "/auth/enter?" + q.Encode()})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, ways)
}

func (p *Issuer) enter(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("redirect_uri") != p.Redirect {
		http.Error(w, "this client is not known here", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}, "code": {p.Code(q.Get("who"), q)}}
	http.Redirect(w, r, p.Redirect+"?"+back.Encode(), http.StatusFound)
}

func (p *Issuer) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, ok := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !ok || id != ClientID || secret != Secret || r.FormValue("redirect_uri") != p.Redirect ||
		asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
		put(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{
		"iss": p.URL, "aud": ClientID, "nonce": asked.Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	p.Fill(asked.who, claims)
	id, err := p.signed(claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	put(w, http.StatusOK, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": id, "expires_in": 60})
}

func (p *Issuer) signed(claims map[string]any) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.Sign, KeyID: "k"}}, nil)
	if err != nil {
		return "", fmt.Errorf("issuertest: %w", err)
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("issuertest: %w", err)
	}
	jws, err := signer.Sign(raw)
	if err != nil {
		return "", fmt.Errorf("issuertest: %w", err)
	}
	return jws.CompactSerialize()
}

func put(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
