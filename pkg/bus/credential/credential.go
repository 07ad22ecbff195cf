// Package credential is the file by which a program is somebody on the bus: the
// key to connect with, and the keys of decisions, which it follows while they
// are rotated. Package bus has the names that programs need.
package credential

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// Role says what a credential is for. It selects what the file must contain;
// what the bearer may really do is decided by the server's configuration.
type Role string

// The roles a credential file can have.
const (
	RoleOwner       Role = "owner"       // asks, reports, works; cannot decide
	RoleCaller      Role = "caller"      // uses the service API only
	RoleGateway     Role = "gateway"     // writes and signs decisions
	RoleNotifier    Role = "notifier"    // follows events, calls the service API
	RoleProvisioner Role = "provisioner" // creates and changes streams
)

// CredentialsVersion is the only file version this build reads and writes.
const CredentialsVersion = 1

// maxCredentialsSize bounds what is read from a credential file, in bytes.
const maxCredentialsSize = 1 << 20

// CredentialsError is a credential that cannot be used: which file, which
// field (empty: the file as a whole) and what is wrong with it. It never
// carries a secret.
type CredentialsError struct {
	Path  string // empty for a value that has not been on disk
	Field string
	Err   error
}

func (e *CredentialsError) Error() string {
	s := "credentials"
	if e.Path != "" {
		s += " " + e.Path
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Err.Error()
}

func (e *CredentialsError) Unwrap() error { return e.Err }

// Sentinels for the two problems that callers act on.
var (
	// ErrCredentialsMode: group or others may read the file.
	ErrCredentialsMode = errors.New("file mode is too open")
	// ErrNoSigner: the credential holds no decision signing key.
	ErrNoSigner = errors.New("no decision signing key: only a gateway credential has one")
)

// Credentials is one identity on the bus, as stored in a credential file.
// Printing or logging a value shows none of its secrets.
type Credentials struct {
	V      int      `json:"v"`
	Role   Role     `json:"role"`
	Tenant string   `json:"tenant"`
	Name   string   `json:"name"`
	URLs   []string `json:"urls"`
	// Seed is the NKey user seed ("SU...").
	Seed string `json:"seed"`
	// DecisionKeys are the public keys a decision may be signed with, by key
	// id; standard base64 of the 32 bytes. More than one during a rotation. A
	// gateway also has those that were dropped: it reads old records.
	DecisionKeys map[string]string `json:"decision_keys,omitempty"`
	// SigningKey is the Ed25519 seed decisions are signed with, standard
	// base64. Gateway only.
	SigningKey   string `json:"signing_key,omitempty"`
	SigningKeyID string `json:"signing_key_id,omitempty"`
	// NextSigningKey is the seed of a key that is announced and not used yet:
	// its public half is in DecisionKeys. Gateway only.
	NextSigningKey string `json:"next_signing_key,omitempty"`
	// PushKey signs the pushes to browsers, see NewPushKey. Notifier only; empty
	// in a file that was moved away before there were pushes.
	PushKey string `json:"push_key,omitempty"`
	// PushPublicKey is its public half, which browsers ask for. Gateway only.
	PushPublicKey string `json:"push_public_key,omitempty"`

	from origin
}

// origin is the file that a credential was read from, as it was then.
type origin struct {
	path string // empty: no file
	info os.FileInfo
}

// LoadCredentials reads and checks a credential file. It refuses a file that
// group or others can access, an unknown version or field, and anything a
// bearer of the role needs and the file lacks; the error is a
// *CredentialsError that names file and field.
func LoadCredentials(path string) (*Credentials, error) {
	fail := func(field string, err error) error {
		return &CredentialsError{Path: path, Field: field, Err: err}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fail("", err)
	}
	defer func() { _ = f.Close() }()
	// The mode is taken from the open file, so that it is the mode of what is
	// read.
	info, err := f.Stat()
	if err != nil {
		return nil, fail("", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fail("", errors.New("not a regular file"))
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fail("", fmt.Errorf("%w: %04o, want 0600 (chmod 600 it)", ErrCredentialsMode, perm))
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxCredentialsSize+1))
	if err != nil {
		return nil, fail("", err)
	}
	if len(raw) > maxCredentialsSize {
		return nil, fail("", fmt.Errorf("larger than %d bytes", maxCredentialsSize))
	}
	c, err := parseCredentials(raw)
	var ce *CredentialsError
	if errors.As(err, &ce) {
		ce.Path = path
	}
	if err != nil {
		return nil, err
	}
	c.from = origin{path, info}
	return c, nil
}

// parseCredentials reads the content of a credential file. The error, if any,
// is a *CredentialsError.
func parseCredentials(raw []byte) (*Credentials, error) {
	fail := func(field string, err error) (*Credentials, error) {
		return nil, &CredentialsError{Field: field, Err: err}
	}
	// The version comes first: a newer file may have any other shape.
	var head struct {
		V *int `json:"v"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return fail("", fmt.Errorf("not a credential file: %w", credJSONError(err)))
	}
	if head.V == nil {
		return fail("v", errors.New("missing"))
	}
	if *head.V != CredentialsVersion {
		return fail("v", fmt.Errorf("unknown version %d, this build reads %d", *head.V, CredentialsVersion))
	}
	// A field that stands twice could be two things to two readers.
	if err := hitl.CheckJSON(raw); err != nil {
		return fail("", fmt.Errorf("not a credential file: %w", err))
	}
	var c Credentials
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return fail("", fmt.Errorf("not a credential file: %w", credJSONError(err)))
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &c, nil
}

// credJSONError keeps the position and type of a JSON problem and drops the
// offending value, which could be a part of a secret.
func credJSONError(err error) error {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		return fmt.Errorf("field %q has the wrong JSON type, want %s", te.Field, te.Type)
	}
	return err
}

// Validate reports the first field that keeps the credential from being used,
// as a *CredentialsError.
func (c *Credentials) Validate() error {
	fail := func(field, format string, args ...any) error {
		return &CredentialsError{Field: field, Err: fmt.Errorf(format, args...)}
	}
	if c.V != CredentialsVersion {
		return fail("v", "unknown version %d, this build reads %d", c.V, CredentialsVersion)
	}
	roles := []Role{RoleOwner, RoleCaller, RoleGateway, RoleNotifier, RoleProvisioner}
	if !slices.Contains(roles, c.Role) {
		return fail("role", "unknown role %q, want one of %q", c.Role, roles)
	}
	if !subject.ValidToken(c.Tenant) {
		return fail("tenant", "%q is not a token of 1 to 64 letters, digits, - or _", c.Tenant)
	}
	if !subject.ValidToken(c.Name) {
		return fail("name", "%q is not a token of 1 to 64 letters, digits, - or _", c.Name)
	}
	if len(c.URLs) == 0 {
		return fail("urls", "missing")
	}
	for i, raw := range c.URLs {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			return fail(fmt.Sprintf("urls[%d]", i), "not a server address, want for example nats://127.0.0.1:4222")
		}
		if !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return fail(fmt.Sprintf("urls[%d]", i), "unknown scheme %q, want nats, tls, ws or wss", u.Scheme)
		}
	}
	if c.Seed == "" {
		return fail("seed", "missing")
	}
	if _, err := c.PublicNKey(); err != nil {
		return err
	}
	if err := c.checkPush(); err != nil {
		return err
	}
	keys, err := c.publicDecisionKeys()
	if err != nil {
		return err
	}
	if len(keys) == 0 && c.Role != RoleProvisioner {
		return fail("decision_keys", "missing: no decision could be verified")
	}
	if c.Role != RoleGateway {
		if c.SigningKey != "" || c.SigningKeyID != "" || c.NextSigningKey != "" {
			return fail("signing_key", "present in a credential of role %q: only a gateway may hold it", c.Role)
		}
		return nil
	}
	if c.SigningKey == "" {
		return fail("signing_key", "missing")
	}
	if c.SigningKeyID == "" {
		return fail("signing_key_id", "missing")
	}
	if _, _, err := c.Signer(); err != nil {
		return err
	}
	if _, ok := keys[c.SigningKeyID]; !ok {
		return fail("decision_keys", "lacks the signing key %s", c.SigningKeyID)
	}
	if c.NextSigningKey == "" {
		return nil
	}
	if _, err := signingKey("next_signing_key", c.NextSigningKey); err != nil {
		return err
	}
	if id := c.NextKeyID(); keys[id] == nil {
		return fail("decision_keys", "lacks the next signing key %s", id)
	}
	return nil
}

// Save writes the credential to path with mode 0600, all or nothing: a reader
// and a crash see the old file or the new one.
func (c *Credentials) Save(path string) error {
	if err := c.Validate(); err != nil {
		var ce *CredentialsError
		if errors.As(err, &ce) {
			ce.Path = path
		}
		return err
	}
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return &CredentialsError{Path: path, Err: err}
	}
	if err := WriteFile(path, append(raw, '\n')); err != nil {
		return &CredentialsError{Path: path, Err: err}
	}
	return nil
}

// WriteFile replaces a file with mode 0600, all or nothing.
func WriteFile(path string, content []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".tmp-*") // created 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(content); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	// The rename itself must survive a power loss too: a regenerated key would
	// not match what the server was told.
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// PublicNKey returns the public user key ("U...") of Seed.
func (c *Credentials) PublicNKey() (string, error) {
	kp, err := c.userKey()
	if err != nil {
		return "", err
	}
	defer kp.Wipe()
	return kp.PublicKey()
}

func (c *Credentials) userKey() (nkeys.KeyPair, error) {
	seed := []byte(c.Seed)
	if p, _, err := nkeys.DecodeSeed(seed); err != nil || p != nkeys.PrefixByteUser {
		return nil, &CredentialsError{Field: "seed", Err: errors.New("not an NKey user seed (SU...)")}
	}
	kp, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, &CredentialsError{Field: "seed", Err: err}
	}
	return kp, nil
}

// Auth returns the connection option that answers the server's challenge with
// this identity. The server never sees the seed.
func (c *Credentials) Auth() (nats.Option, error) {
	pub, err := c.PublicNKey()
	if err != nil {
		return nil, err
	}
	sign := func(nonce []byte) ([]byte, error) {
		kp, err := c.userKey()
		if err != nil {
			return nil, err
		}
		defer kp.Wipe()
		return kp.Sign(nonce)
	}
	return nats.Nkey(pub, sign), nil
}

// PublicDecisionKeys returns the keys that may have signed a decision, by key
// id. It is empty, so that no signature is accepted, when an entry is one that
// Validate refuses.
func (c *Credentials) PublicDecisionKeys() map[string]ed25519.PublicKey {
	keys, err := c.publicDecisionKeys()
	if err != nil {
		return map[string]ed25519.PublicKey{}
	}
	return keys
}

func (c *Credentials) publicDecisionKeys() (map[string]ed25519.PublicKey, error) {
	keys := make(map[string]ed25519.PublicKey, len(c.DecisionKeys))
	for id, text := range c.DecisionKeys {
		field := "decision_keys." + id
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return nil, &CredentialsError{Field: field, Err: fmt.Errorf("not standard base64 of %d bytes", ed25519.PublicKeySize)}
		}
		if want := hitl.KeyID(raw); id != want {
			return nil, &CredentialsError{Field: field, Err: fmt.Errorf("the key's id is %s", want)}
		}
		keys[id] = raw
	}
	return keys, nil
}

// Signer returns the key decisions are signed with and its id. ErrNoSigner if
// the credential has none.
func (c *Credentials) Signer() (keyID string, key ed25519.PrivateKey, err error) {
	if c.SigningKey == "" {
		return "", nil, ErrNoSigner
	}
	if key, err = signingKey("signing_key", c.SigningKey); err != nil {
		return "", nil, err
	}
	id := hitl.KeyID(key.Public().(ed25519.PublicKey))
	if c.SigningKeyID != id {
		return "", nil, &CredentialsError{Field: "signing_key_id", Err: fmt.Errorf("the key's id is %s", id)}
	}
	return id, key, nil
}

// NextKeyID is the id of the key that is announced; empty if there is none.
func (c *Credentials) NextKeyID() string {
	key, err := signingKey("next_signing_key", c.NextSigningKey)
	if err != nil {
		return ""
	}
	return hitl.KeyID(key.Public().(ed25519.PublicKey))
}

func signingKey(field, text string) (ed25519.PrivateKey, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.SeedSize {
		return nil, &CredentialsError{Field: field, Err: fmt.Errorf("not standard base64 of %d bytes", ed25519.SeedSize)}
	}
	return ed25519.NewKeyFromSeed(raw), nil
}

// String names the identity without its secrets.
func (c Credentials) String() string {
	return fmt.Sprintf("%s %s/%s", c.Role, c.Tenant, c.Name)
}

// GoString keeps secrets out of %#v.
func (c Credentials) GoString() string { return "bus.Credentials{" + c.String() + "}" }

// LogValue keeps secrets out of logs.
func (c Credentials) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("role", string(c.Role)),
		slog.String("tenant", c.Tenant),
		slog.String("name", c.Name),
	)
}

// DefaultTenant is the tenant of an installation that never named one.
const DefaultTenant = "default"
