package notifier

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/decider"
	"github.com/banksman/banksman/services/notifier/internal/channel/webhook"
	"github.com/banksman/banksman/services/notifier/internal/engine"
)

// Decider is a service that is asked first.
type Decider struct {
	// Name is a token, and none of a channel.
	Name string `json:"name"`
	// Caller is the name of the NATS account that is asked. Without one the service is
	// asked over HTTP: URL, Secrets and AllowPrivate are as a webhook's.
	Caller       string   `json:"caller,omitempty"`
	URL          Secret   `json:"url"`
	Secrets      []Secret `json:"secrets"`
	AllowPrivate bool     `json:"allow_private,omitempty"`
	// Token is the service's own at the gateway: it decides by the roles of it.
	Token Secret `json:"token"`
	// As of a channel.
	URLFile     string `json:"url_file,omitempty"`
	SecretsFile string `json:"secrets_file,omitempty"`
	TokenFile   string `json:"token_file,omitempty"`
}

func (c *Config) checkDeciders() error {
	var names []string
	for _, ch := range c.channels() {
		names = append(names, ch.Name)
	}
	for i := range c.Deciders {
		d := &c.Deciders[i]
		at := fmt.Sprintf("deciders[%d].", i)
		switch {
		case !subject.ValidToken(d.Name):
			return &ConfigError{Field: at + "name", Err: fmt.Errorf("%q is not a token of 1 to 64 letters, digits, - or _", d.Name)}
		case slices.Contains(names, d.Name):
			return &ConfigError{Field: at + "name", Err: fmt.Errorf("%q stands twice, or is a channel", d.Name)}
		}
		names = append(names, d.Name)
		if _, err := d.build(asks{}); err != nil {
			return &ConfigError{Field: at + err.Field, Err: errors.New(err.Problem)}
		}
	}
	return nil
}

// asks is what a decider needs to ask and to decide.
type asks struct {
	source, tenant string
	gateway        func() decider.Gateway
	bus            decider.Bus
	clock          func() time.Time
}

// build makes the channel that asks the service.
func (d *Decider) build(by asks) (*decider.Channel, *channel.FieldError) {
	o := decider.Options{
		Options: webhook.Options{URL: string(d.URL), AllowPrivate: d.AllowPrivate, Source: by.source},
		Token:   string(d.Token), Gateway: by.gateway, Bus: by.bus, Clock: by.clock,
	}
	switch {
	case d.Caller == "":
	case d.URL != "" || len(d.Secrets) > 0 || d.AllowPrivate:
		return nil, &channel.FieldError{Field: "caller", Problem: "stands beside url, secrets or allow_private: a service is asked over NATS or over HTTP"}
	case !subject.ValidToken(d.Caller):
		return nil, &channel.FieldError{Field: "caller", Problem: "is not the name of a caller (banksman creds --caller)"}
	default:
		o.Subject = subject.Decider(by.tenant, d.Caller)
	}
	for _, s := range d.Secrets {
		o.Secrets = append(o.Secrets, string(s))
	}
	c, err := decider.New(o)
	var fe *channel.FieldError
	if errors.As(err, &fe) {
		return nil, fe
	}
	return c, nil
}

// typeDecider is what deciders are called where channels are counted by type.
const typeDecider = "decider"

// asking are the lanes of the deciders, whose channels the caller closes.
func (c *Config) asking(by asks) (lanes []engine.Route, built []channel.Channel, err error) {
	for _, d := range c.Deciders {
		impl, fe := d.build(by)
		if fe != nil {
			return nil, built, &ConfigError{Field: d.Name, Err: fe}
		}
		built = append(built, impl)
		sum := sha256.Sum256([]byte(string(d.URL) + d.Caller))
		lanes = append(lanes, engine.Route{Name: d.Name, Type: typeDecider, Target: hex.EncodeToString(sum[:8]), Channel: impl})
	}
	return lanes, built, nil
}
