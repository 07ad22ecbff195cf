package hitl

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/google/uuid"
)

// idTag separates interaction ids from every other use of SHA-256.
const idTag = "banksman interaction id v1"

// ID derives the interaction id: a UUIDv8 over tenant, owner, key and attempt.
// The same four always give the same id, on any machine; attempts count from 1.
func ID(tenant, owner, key string, attempt int) string {
	h := sha256.New()
	var n [8]byte
	for _, part := range []string{idTag, tenant, owner, key} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	binary.BigEndian.PutUint64(n[:], uint64(attempt))
	h.Write(n[:])
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// NewKey returns a random key for a request whose asker gave none.
func NewKey() string {
	var b [16]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return "random-" + hex.EncodeToString(b[:])
}

// Digest is the SHA-256 of a request's exact bytes, in lower-case hex.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
