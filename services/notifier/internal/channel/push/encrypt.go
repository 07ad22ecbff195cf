package push

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	saltLen = 16
	authLen = 16
	keyLen  = 65 // an uncompressed point of P-256
	headLen = saltLen + 4 + 1 + keyLen
	tagLen  = 16
	// recordSize is the size of the one record that a push has (RFC 8188, section 2).
	recordSize = 4096
	// maxBody is what every push service has to take (RFC 8030, section 7.2).
	maxBody = 4096
	// MaxText is the longest message, in bytes: head, delimiter and tag go off.
	MaxText = maxBody - headLen - 1 - tagLen
)

// errTooLong: a message has more than MaxText bytes.
var errTooLong = errors.New("the message is too long for a push")

// receiver is what a browser's subscription says of how to encrypt for it.
type receiver struct {
	key  *ecdh.PublicKey
	auth []byte
}

// readReceiver reads the keys of a subscription, base64url.
func readReceiver(p256dh, auth string) (r receiver, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(p256dh)
	if err == nil {
		r.key, err = ecdh.P256().NewPublicKey(raw)
	}
	if err != nil {
		return r, errors.New("the subscription's key is none of P-256")
	}
	if r.auth, err = base64.RawURLEncoding.DecodeString(auth); err != nil || len(r.auth) != authLen {
		return r, errors.New("the subscription's secret has not 16 bytes")
	}
	return r, nil
}

// encrypt makes the body of a push: a single record of aes128gcm, of its own length,
// under a key that only this message has.
func (r receiver) encrypt(text []byte) ([]byte, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	var salt [saltLen]byte
	rand.Read(salt[:]) // never fails since Go 1.24
	return r.encryptWith(text, key, salt)
}

// encryptWith is encrypt with what is random given (RFC 8291, section 3.4, and
// RFC 8188, section 2).
func (r receiver) encryptWith(text []byte, own *ecdh.PrivateKey, salt [saltLen]byte) ([]byte, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are possible", errTooLong, len(text), MaxText)
	}
	shared, err := own.ECDH(r.key)
	if err != nil {
		return nil, err
	}
	public := own.PublicKey().Bytes()
	ikm, err := hkdf.Key(sha256.New, shared, r.auth, "WebPush: info\x00"+string(r.key.Bytes())+string(public), 32)
	if err != nil {
		return nil, err
	}
	secret, err := hkdf.Extract(sha256.New, ikm, salt[:])
	if err != nil {
		return nil, err
	}
	cek, err := hkdf.Expand(sha256.New, secret, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Expand(sha256.New, secret, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(cek)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, headLen+len(text)+1+tagLen)
	out = append(out, salt[:]...)
	out = binary.BigEndian.AppendUint32(out, recordSize)
	out = append(out, keyLen)
	out = append(out, public...)
	// 2 delimits the last record. There is no padding: what is said has no length
	// worth hiding beside the time at which it is said.
	return gcm.Seal(out, nonce, append(append([]byte{}, text...), 2), nil), nil
}
