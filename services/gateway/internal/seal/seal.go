// Package seal hands out what only the holders of a key can make or read.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrBroken says that a text was not sealed with the key, for this kind, or not lately.
var ErrBroken = errors.New("not sealed here, or expired")

// Box seals and opens with one key. It is safe for concurrent use.
type Box struct{ aead cipher.AEAD }

// New makes a Box of a key of 32 bytes.
func New(key []byte) (*Box, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return &Box{aead}, nil
}

type sealed struct {
	Kind    string          `json:"kind"`
	Nonce   string          `json:"nonce"`
	Expires time.Time       `json:"expires"`
	Body    json.RawMessage `json:"body"`
}

// Seal makes a text of v that can be opened for its kind until it expires.
func (b *Box) Seal(kind string, expires time.Time, v any) (string, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	plain, err := json.Marshal(sealed{Kind: kind, Nonce: rand.Text(), Expires: expires, Body: body})
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	nonce := make([]byte, b.aead.NonceSize())
	rand.Read(nonce) // never fails since Go 1.24
	return base64.RawURLEncoding.EncodeToString(b.aead.Seal(nonce, nonce, plain, nil)), nil
}

// Open reads what Seal made into v. The nonce is the text's own, however it is spelled.
func (b *Box) Open(kind, text string, now time.Time, v any) (nonce string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < b.aead.NonceSize() {
		return "", ErrBroken
	}
	plain, err := b.aead.Open(nil, raw[:b.aead.NonceSize()], raw[b.aead.NonceSize():], nil)
	var in sealed
	if err != nil || json.Unmarshal(plain, &in) != nil || in.Kind != kind || !now.Before(in.Expires) || json.Unmarshal(in.Body, v) != nil {
		return "", ErrBroken
	}
	return in.Nonce, nil
}
