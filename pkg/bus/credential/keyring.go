package credential

import (
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"sync"
)

// Keyring holds the decision keys of a credential and follows its file: what a
// rotation adds or drops there counts from the next decision on. A credential
// that came from no file keeps its keys. While the file is missing or cannot be
// used, the last keys stay. Safe for concurrent use.
type Keyring struct {
	log *slog.Logger

	mu     sync.Mutex
	cred   *Credentials // read last
	looked os.FileInfo  // the file that was judged last, usable or not
	public map[string]ed25519.PublicKey
	id     string // of the key to sign with; empty without one
	key    ed25519.PrivateKey
}

// NewKeyring takes a valid credential; a nil logger discards.
func NewKeyring(c *Credentials, log *slog.Logger) *Keyring {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	k := &Keyring{log: log, looked: c.from.info}
	k.take(c)
	return k
}

// Public are the keys by which a decision counts, by id. The map is not to be
// changed.
func (k *Keyring) Public() map[string]ed25519.PublicKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look()
	return k.public
}

// Signer is the key to sign with; ErrNoSigner if the credential has none.
func (k *Keyring) Signer() (id string, key ed25519.PrivateKey, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look()
	if k.id == "" {
		return "", nil, ErrNoSigner
	}
	return k.id, k.key, nil
}

func (k *Keyring) take(c *Credentials) {
	k.cred, k.public = c, c.PublicDecisionKeys()
	k.id, k.key, _ = c.Signer() // none where the role has none
}

// look reads the file again if it is another than the last one. k.mu is held.
func (k *Keyring) look() {
	path := k.cred.from.path
	if path == "" {
		return
	}
	info, err := os.Stat(path)
	if err != nil || same(info, k.looked) {
		return
	}
	k.looked = info
	c, err := LoadCredentials(path)
	if err == nil && (c.Role != k.cred.Role || c.Tenant != k.cred.Tenant || c.Name != k.cred.Name) {
		err = &CredentialsError{Path: path, Err: errors.New("is now that of " + c.String())}
	}
	if err != nil {
		k.log.Error("changed decision keys are not taken over", "error", err)
		return
	}
	k.looked = c.from.info // may be newer already
	k.take(c)
	k.log.Info("decision keys read again", "file", path, "accepted", len(k.public), "signer", k.id)
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}
