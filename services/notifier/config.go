package notifier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// Types of a channel.
const (
	TypeLog     = "log"
	TypeWebhook = "webhook"
)

// DefaultWebhookDelay leaves a decision to whoever has the page in view.
const DefaultWebhookDelay = 5 * time.Second

// maxConfig bounds a configuration file, in bytes; maxChannels what it lists.
const (
	maxConfig   = 1 << 20
	maxChannels = 64
	maxDelay    = 7 * 24 * time.Hour
)

// Config is what a person writes. The zero value is one log channel.
type Config struct {
	// Channels are told of everything that waits. A list replaces the default.
	Channels []Channel `json:"channels,omitempty"`
	// LedgerReplicas is how many servers of a cluster keep the ledger, when it is
	// made; default 1.
	LedgerReplicas int `json:"ledger_replicas,omitempty"`
}

// Channel configures one way out.
type Channel struct {
	// Name is a token, unique, and part of the record of what was sent: a
	// channel of another name is told anew.
	Name string `json:"name"`
	Type string `json:"type"` // log or webhook
	// After is how long an interaction has to wait before this channel hears of
	// it; default 0s for log, DefaultWebhookDelay for webhook.
	After *hitl.Duration `json:"after,omitempty"`
	// Reminder says whether the channel is told again, once, when an answer
	// becomes urgent; default true.
	Reminder *bool `json:"reminder,omitempty"`
	// Of a webhook: where to, what to sign with ("whsec_" and base64 of 24 to 64
	// bytes; several while a receiver changes over), and whether plain HTTP,
	// loopback and private addresses are welcome.
	URL          Secret   `json:"url,omitempty"`
	Secrets      []Secret `json:"secrets,omitempty"`
	AllowPrivate bool     `json:"allow_private,omitempty"`
}

// Secret is a text that is not shown when it is printed, logged or encoded. A
// webhook's address is one, because its path often is the receiver's password.
type Secret string

const hidden = "(secret)"

func (s Secret) String() string   { return hidden }
func (s Secret) GoString() string { return hidden }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements encoding.TextMarshaler.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// ConfigError says which field of a configuration cannot be used and why. It
// carries no secret.
type ConfigError struct {
	Path  string // empty for a value that was not read from a file
	Field string // empty: the file as a whole
	Err   error
}

func (e *ConfigError) Error() string {
	s := "notifier configuration"
	if e.Path != "" {
		s += " " + e.Path
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Err.Error()
}

func (e *ConfigError) Unwrap() error { return e.Err }

// ErrConfigMode: the file holds secrets and others may read it.
var ErrConfigMode = errors.New("file mode is too open")

// LoadConfig reads and checks a configuration file: JSON, no unknown or doubled
// fields, and mode 0600 where it holds secrets. The error is a *ConfigError.
func LoadConfig(path string) (Config, error) {
	c, field, err := loadConfig(path)
	if err == nil {
		return c, nil
	}
	var ce *ConfigError
	if errors.As(err, &ce) {
		ce.Path = path
		return Config{}, ce
	}
	return Config{}, &ConfigError{Path: path, Field: field, Err: err}
}

func loadConfig(path string) (c Config, field string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return c, "", err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return c, "", err
	}
	if len(raw) > maxConfig {
		return c, "", fmt.Errorf("larger than %d bytes", maxConfig)
	}
	if err := hitl.CheckJSON(raw); err != nil {
		return c, "", err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			// The decoder's own text would quote the value.
			return c, te.Field, fmt.Errorf("wrong JSON type, want %s", te.Type)
		}
		return c, "", err
	}
	for _, ch := range c.Channels {
		if perm := info.Mode().Perm(); len(ch.Secrets) > 0 && perm&0o077 != 0 {
			return c, "", fmt.Errorf("%w: %04o with secrets inside, want 0600 (chmod 600 it)", ErrConfigMode, perm)
		}
	}
	return c, "", c.Validate()
}

// Validate reports the first field that cannot be used, as a *ConfigError.
func (c *Config) Validate() error {
	fail := func(field, format string, args ...any) error {
		return &ConfigError{Field: field, Err: fmt.Errorf(format, args...)}
	}
	if c.LedgerReplicas < 0 || c.LedgerReplicas > 5 {
		return fail("ledger_replicas", "must be 1 to 5")
	}
	if len(c.Channels) > maxChannels {
		return fail("channels", "are %d, at most %d are possible", len(c.Channels), maxChannels)
	}
	names := map[string]bool{}
	for i := range c.Channels {
		ch := &c.Channels[i]
		at := fmt.Sprintf("channels[%d].", i)
		switch {
		case ch.Name == "":
			return fail(at+"name", "missing")
		case !subject.ValidToken(ch.Name):
			return fail(at+"name", "%q is not a token of 1 to 64 letters, digits, - or _", ch.Name)
		case names[ch.Name]:
			return fail(at+"name", "%q stands twice", ch.Name)
		case ch.After != nil && (*ch.After < 0 || time.Duration(*ch.After) > maxDelay):
			return fail(at+"after", "must be 0s to %s", maxDelay)
		}
		names[ch.Name] = true
		if _, err := ch.build(slog.New(slog.DiscardHandler), ""); err != nil {
			return &ConfigError{Field: at + err.Field, Err: errors.New(err.Problem)}
		}
	}
	return nil
}

// channels are the configured ones, or the default.
func (c *Config) channels() []Channel {
	if len(c.Channels) == 0 {
		return []Channel{{Name: TypeLog, Type: TypeLog}}
	}
	return c.Channels
}
