package auth

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ceremonyTTL is how long a sign-in may take from its beginning to its end.
const ceremonyTTL = 10 * time.Minute

const (
	sealKey  = "seal"   // in the users' bucket
	spentKey = "spent." // in the sessions' bucket
)

// A sign-in that has begun is kept by whoever began it, sealed: beginning one is
// open to everybody, and what everybody can make must not fill the bucket. Only
// its end is stored, so that it ends once.
type sealed struct {
	Kind    string          `json:"kind"`
	Nonce   string          `json:"nonce"`
	Expires time.Time       `json:"expires"`
	Body    json.RawMessage `json:"body"`
}

// seal hands out v as something only these gateways can read or make.
func (s *Store) seal(ctx context.Context, kind string, v any) (string, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("auth: %w", err)
	}
	plain, err := json.Marshal(sealed{Kind: kind, Nonce: newToken(), Expires: s.now().Add(ceremonyTTL).UTC(), Body: body})
	if err != nil {
		return "", fmt.Errorf("auth: %w", err)
	}
	aead, err := s.sealer(ctx)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce) // never fails since Go 1.24
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, nil)), nil
}

// open reads what seal made. spend has to be called before it has an effect.
func (s *Store) open(ctx context.Context, kind, text string, v any) (spend func() error, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, ErrUnknown
	}
	aead, err := s.sealer(ctx)
	if err != nil {
		return nil, err
	}
	if len(raw) < aead.NonceSize() {
		return nil, ErrUnknown
	}
	plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], nil)
	var in sealed
	if err != nil || json.Unmarshal(plain, &in) != nil || in.Kind != kind || !s.now().Before(in.Expires) {
		return nil, ErrUnknown
	}
	if json.Unmarshal(in.Body, v) != nil {
		return nil, ErrUnknown
	}
	return func() error {
		_, err := s.kv.Create(ctx, spentKey+hash(in.Nonce), []byte(`{}`))
		if exists(err) {
			return ErrUnknown
		}
		return unavailable(err)
	}, nil
}

// sealer makes the key that all gateways share, or reads it.
func (s *Store) sealer(ctx context.Context) (cipher.AEAD, error) {
	s.mu.Lock()
	aead := s.aead
	s.mu.Unlock()
	if aead != nil {
		return aead, nil
	}
	var key []byte
	for key == nil {
		e, err := s.users.Get(ctx, sealKey)
		switch {
		case err == nil:
			key = e.Value()
		case errors.Is(notFound(err), ErrUnknown):
			fresh := make([]byte, 32)
			rand.Read(fresh)
			if _, err := s.users.Create(ctx, sealKey, fresh); err != nil && !exists(err) {
				return nil, unavailable(err)
			}
		default:
			return nil, unavailable(err)
		}
	}
	block, err := aes.NewCipher(key)
	if err == nil {
		aead, err = cipher.NewGCM(block)
	}
	if err != nil {
		return nil, fmt.Errorf("auth: seal: %w", err)
	}
	s.mu.Lock()
	s.aead = aead
	s.mu.Unlock()
	return aead, nil
}
