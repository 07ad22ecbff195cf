package hitl

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
)

// Header names of the records on the bus.
const (
	HeaderSigner    = "Hitl-Signer"    // key id of a decision's signature
	HeaderSignature = "Hitl-Signature" // base64 Ed25519 over SigningInput
	HeaderAttempt   = "Hitl-Attempt"   // which asking of the same key this is, from 1
	HeaderWorker    = "Hitl-Worker"    // the process that asked
)

const signTag = "banksman decision v1\n"

// ErrBadSignature means that a decision was not made by a gateway of this
// system, or was moved or changed since.
var ErrBadSignature = errors.New("decision has no valid signature")

// KeyID names a public key: the first 16 hex digits of its SHA-256.
func KeyID(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	return hex.EncodeToString(sum[:])[:16]
}

// SigningInput is what a decision's signature covers: a domain tag, the
// subject it is stored under, and the exact body.
func SigningInput(subject string, body []byte) []byte {
	b := make([]byte, 0, len(signTag)+len(subject)+1+len(body))
	b = append(b, signTag...)
	b = append(b, subject...)
	b = append(b, '\n')
	return append(b, body...)
}

// Sign returns the value of HeaderSignature.
func Sign(key ed25519.PrivateKey, subject string, body []byte) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(key, SigningInput(subject, body)))
}

// Verify checks a decision's signature against the keys a credential file
// names, by key id.
func Verify(keys map[string]ed25519.PublicKey, signer, signature, subject string, body []byte) error {
	pub, ok := keys[signer]
	if !ok || len(pub) != ed25519.PublicKeySize {
		return fmt.Errorf("%w: unknown signer %q", ErrBadSignature, signer)
	}
	sig, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || !ed25519.Verify(pub, SigningInput(subject, body), sig) {
		return ErrBadSignature
	}
	return nil
}
