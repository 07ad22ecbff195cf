package push

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// tokenAge is how long a token is good; push services take at most a day.
const tokenAge = 12 * time.Hour

// signer names this installation to push services (RFC 8292).
type signer struct {
	key     *ecdsa.PrivateKey
	public  string // base64url
	contact string // an address of whoever runs it; empty: none is told
}

func newSigner(key, contact string) (*signer, error) {
	raw, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		return nil, errors.New("the key of pushes is not base64url")
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		return nil, errors.New("the key of pushes is none of P-256")
	}
	public, err := private.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	return &signer{private, base64.RawURLEncoding.EncodeToString(public), contact}, nil
}

// authorize makes the Authorization header for an endpoint.
func (s *signer) authorize(endpoint *url.URL, now time.Time) (string, error) {
	claims, err := hitl.Marshal(struct {
		Audience string `json:"aud"`
		Expires  int64  `json:"exp"`
		Subject  string `json:"sub,omitempty"`
	}{endpoint.Scheme + "://" + endpoint.Host, now.Add(tokenAge).Unix(), s.contact})
	if err != nil {
		return "", err
	}
	token := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"ES256"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(token))
	r, z, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		return "", err
	}
	sig := make([]byte, 64)
	r.FillBytes(sig[:32])
	z.FillBytes(sig[32:])
	return "vapid t=" + token + "." + base64.RawURLEncoding.EncodeToString(sig) + ", k=" + s.public, nil
}
