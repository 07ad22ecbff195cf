package notifier

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/strictyaml"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/engine"
	"github.com/banksman/banksman/services/notifier/internal/plan"
	"github.com/banksman/banksman/services/notifier/internal/secretfile"
)

// maxConfig bounds a configuration file, in bytes; maxChannels what it lists.
const (
	maxConfig   = 1 << 20
	maxChannels = 64
	maxDelay    = 7 * 24 * time.Hour
)

// Config is what a person writes. The zero value is a log, and the browsers in which
// people want to be notified of what they may decide.
type Config struct {
	// Channels are the ways out. A list replaces the default. Without routes, each
	// is told of everything that waits.
	Channels []Channel `json:"channels,omitempty"`
	// Recipients are who can be told, and Routes who is told of what, and when.
	Recipients []plan.Recipient `json:"recipients,omitempty"`
	Routes     []plan.Route     `json:"routes,omitempty"`
	// Deciders are services that a step of a route asks before people are told.
	Deciders []Decider `json:"deciders,omitempty"`
	// LedgerReplicas is how many servers of a cluster keep the ledger at least; default:
	// three, and one without a cluster.
	LedgerReplicas int `json:"ledger_replicas,omitempty"`
}

// Channel configures one way out.
type Channel struct {
	// Name is a token, unique, and part of the record of what was sent: a
	// channel of another name is told anew.
	Name string `json:"name"`
	Type string `json:"type"` // one of the types above
	// After is how long an interaction has to wait before this channel hears of
	// it; the default is the type's. Only without routes.
	After *hitl.Duration `json:"after,omitempty"`
	// Reminder says whether the channel is told again, once, when an answer
	// becomes urgent; default true. Only without routes.
	Reminder *bool `json:"reminder,omitempty"`
	// URL is where to: an endpoint, or the provider's API where that is not the
	// usual one. AllowPrivate welcomes loopback, private addresses, and no TLS.
	URL          Secret `json:"url,omitempty"`
	AllowPrivate bool   `json:"allow_private,omitempty"`
	// Secrets are what a webhook's messages are signed with ("whsec_" and base64 of
	// 24 to 64 bytes); several while a receiver changes over.
	Secrets []Secret `json:"secrets,omitempty"`
	// Token is what the provider knows us by.
	Token Secret `json:"token,omitempty"`
	// User and Password log in to a mail server, From is who its mails come from.
	User     string `json:"user,omitempty"`
	Password Secret `json:"password,omitempty"`
	From     string `json:"from,omitempty"`
	// What is secret may lie in files of its own, mode 0600, whose names are relative to
	// the configuration. SecretsFile has a secret in each line.
	URLFile      string `json:"url_file,omitempty"`
	SecretsFile  string `json:"secrets_file,omitempty"`
	TokenFile    string `json:"token_file,omitempty"`
	PasswordFile string `json:"password_file,omitempty"`

	SigningSecretFile string `json:"signing_secret_file,omitempty"`
	AppTokenFile      string `json:"app_token_file,omitempty"`
	// People are who may press buttons here: accounts of the platform, and the users of
	// the gateway that decide by them. Nobody else decides anything.
	People []Account `json:"people,omitempty"`
	// SigningSecret is what Slack signs presses with, Listen where they arrive.
	SigningSecret Secret `json:"signing_secret,omitempty"`
	Listen        string `json:"listen,omitempty"`
	// AppToken is the token of Slack's app, by which presses come over a socket that the
	// notifier opens, in place of both.
	AppToken Secret `json:"app_token,omitempty"`
	// Team is the id of Slack's workspace whose people may press; default: the bot's own.
	Team string `json:"team,omitempty"`
	// Redact are the risks at which a push says only that something waits.
	Redact []string `json:"redact,omitempty"`
	// To is the address of recipients who have none of their own here, and of the
	// channel itself where there are no routes.
	To string `json:"to,omitempty"`
}

// Account is a person of a chat.
type Account struct {
	Account string `json:"account"` // the platform's id of it
	User    string `json:"user"`    // the gateway's id of the person
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
	// Line and Column are where it stands in the file, from 1; 0: nowhere.
	Line, Column int
	Err          error
}

func (e *ConfigError) Error() string {
	s := "notifier configuration"
	if e.Path != "" {
		s += " " + e.Path
	}
	if e.Line > 0 {
		s += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Err.Error()
}

func (e *ConfigError) Unwrap() error { return e.Err }

// ErrConfigMode: the file holds secrets and others may read it.
var ErrConfigMode = secretfile.ErrMode

// LoadConfig reads and checks a configuration file: YAML, of which JSON is a
// part, no unknown or doubled fields, and mode 0600 where it holds secrets. The
// error is a *ConfigError.
func LoadConfig(path string) (Config, error) {
	c, err := loadConfig(path)
	if err == nil {
		return c, nil
	}
	var ce *ConfigError
	if !errors.As(err, &ce) {
		ce = &ConfigError{Err: err}
	}
	ce.Path = path
	return Config{}, ce
}

func loadConfig(path string) (c Config, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return c, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return c, err
	}
	if len(raw) > maxConfig {
		return c, fmt.Errorf("larger than %d bytes", maxConfig)
	}
	at, err := strictyaml.Decode(raw, &c)
	var se *strictyaml.Error
	if errors.As(err, &se) {
		return c, &ConfigError{Field: se.Path, Line: se.Line, Column: se.Column, Err: errors.New(se.Problem)}
	}
	secret := false
	for _, d := range c.Deciders {
		secret = secret || d.Token != "" || len(d.Secrets) > 0
	}
	for _, ch := range c.Channels {
		secret = secret || ch.secret()
	}
	if perm := info.Mode().Perm(); secret && perm&0o077 != 0 {
		return c, fmt.Errorf("%w: %04o with secrets inside, want 0600 (chmod 600 it)", ErrConfigMode, perm)
	}
	filled, err := c.fromFiles(filepath.Dir(path))
	if err == nil {
		err = c.Validate()
	}
	var ce *ConfigError
	if errors.As(err, &ce) {
		ce.Field = fileField(ce.Field, filled)
		p := at.At(ce.Field)
		ce.Line, ce.Column = p.Line, p.Column
	}
	return c, err
}

// Validate reports the first field that cannot be used, as a *ConfigError.
func (c *Config) Validate() error {
	_, err := c.policy()
	return err
}

// policy checks everything and compiles what says who is told.
func (c *Config) policy() (*plan.Policy, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	p := &plan.Policy{Recipients: slices.Clone(c.Recipients), Routes: slices.Clone(c.Routes)}
	for _, d := range c.Deciders {
		p.Deciders = append(p.Deciders, d.Name)
	}
	var names []string
	for _, ch := range c.channels() {
		names = append(names, ch.Name)
		p.Direct = append(p.Direct, plan.Direct{Channel: ch.Name, After: ch.after(), Reminder: ch.Reminder == nil || *ch.Reminder})
	}
	if err := p.Check(subject.ValidToken, names); err != nil {
		var fe *plan.FieldError
		if errors.As(err, &fe) {
			return nil, &ConfigError{Field: fe.Field, Err: errors.New(fe.Problem)}
		}
		return nil, err
	}
	for i, r := range p.Recipients {
		for j, reach := range r.Channels {
			if problem := c.decideProblem(reach); problem != "" {
				return nil, &ConfigError{Field: fmt.Sprintf("recipients[%d].channels[%d].decide", i, j), Err: errors.New(problem)}
			}
		}
	}
	return p, nil
}

func (c *Config) check() error {
	fail := func(field, format string, args ...any) error {
		return &ConfigError{Field: field, Err: fmt.Errorf(format, args...)}
	}
	if c.LedgerReplicas < 0 || c.LedgerReplicas > 5 {
		return fail("ledger_replicas", "must be 1 to 5, or 0 for the default")
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
		case len(c.Routes) > 0 && ch.After != nil:
			return fail(at+"after", "counts only where there are no routes")
		case len(c.Routes) > 0 && ch.Reminder != nil:
			return fail(at+"reminder", "counts only where there are no routes")
		}
		names[ch.Name] = true
		if field, problem := ch.checkPeople(); problem != "" {
			return fail(at+field, "%s", problem)
		}
		built, err := ch.build(&ground{logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return &ConfigError{Field: at + err.Field, Err: errors.New(err.Problem)}
		}
		closeAll([]channel.Channel{built})
	}
	return c.checkTo()
}

// checkTo checks the addresses of recipients in channels that need one.
func (c *Config) checkTo() error {
	byName := map[string]*Channel{}
	for i := range c.Channels {
		ch := &c.Channels[i]
		byName[ch.Name] = ch
		all := ch.Type == TypePush && ch.To == wire.Everybody && len(c.Routes) == 0
		if !all && (ch.To != "" || len(c.Routes) == 0) {
			if problem := ch.checkTo(ch.To); problem != "" {
				return &ConfigError{Field: fmt.Sprintf("channels[%d].to", i), Err: errors.New(problem)}
			}
		}
	}
	for i := range c.Recipients {
		for j, reach := range c.Recipients[i].Channels {
			ch := byName[reach.Channel]
			if ch == nil {
				continue // the policy names it
			}
			if problem := ch.checkTo(ch.address(&c.Recipients[i], reach)); problem != "" {
				return &ConfigError{Field: fmt.Sprintf("recipients[%d].channels[%d].to", i, j), Err: errors.New(problem)}
			}
		}
	}
	return c.checkDeciders()
}

// types are the types of all channels by their names, those of deciders included.
func (c *Config) types() map[string]string {
	out := map[string]string{}
	for _, ch := range c.channels() {
		out[ch.Name] = ch.Type
	}
	for _, d := range c.Deciders {
		out[d.Name] = "decider"
	}
	return out
}

// onBus reports whether a message to an address takes the bus.
func (c *Config) onBus(to engine.Route) bool {
	return to.Type == TypePush || slices.ContainsFunc(c.Deciders, func(d Decider) bool { return d.Name == to.Name && d.Caller != "" })
}

// channels are the configured ones, or the default.
func (c *Config) channels() []Channel {
	if len(c.Channels) == 0 {
		return []Channel{{Name: TypeLog, Type: TypeLog}, {Name: "browser", Type: TypePush, To: wire.Everybody}}
	}
	return c.Channels
}
