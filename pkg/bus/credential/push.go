package credential

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// NewPushKey makes the key by which an installation names itself to the push
// services of browsers (RFC 8292): P-256, base64url.
func NewPushKey() (string, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(key.Bytes()), nil
}

// PushKeyAt reads a push key from a file, or makes it there.
func PushKeyAt(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := NewPushKey()
		if err != nil {
			return "", err
		}
		return key, WriteFile(path, []byte(key+"\n"))
	}
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(raw))
	if _, err := PushPublicKey(key); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// PushPublicKey is the public half of a push key, as browsers take it: the
// uncompressed point, base64url.
func PushPublicKey(key string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		return "", errors.New("not base64url")
	}
	k, err := ecdh.P256().NewPrivateKey(raw)
	if err != nil {
		return "", errors.New("not a P-256 key")
	}
	return base64.RawURLEncoding.EncodeToString(k.PublicKey().Bytes()), nil
}

// checkPush: a notifier signs pushes, a gateway tells browsers the public half.
// Older files have neither.
func (c *Credentials) checkPush() error {
	fail := func(field, problem string) error { return &CredentialsError{Field: field, Err: errors.New(problem)} }
	if c.PushKey != "" {
		if c.Role != RoleNotifier {
			return fail("push_key", fmt.Sprintf("present in a credential of role %q: only a notifier may hold it", c.Role))
		}
		if _, err := PushPublicKey(c.PushKey); err != nil {
			return fail("push_key", err.Error())
		}
	}
	if c.PushPublicKey == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(c.PushPublicKey)
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(raw)
	}
	if err != nil {
		return fail("push_public_key", "not the public half of a P-256 key in base64url")
	}
	return nil
}
