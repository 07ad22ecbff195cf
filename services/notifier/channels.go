package notifier

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/log"
	"github.com/banksman/banksman/services/notifier/internal/channel/webhook"
	"github.com/banksman/banksman/services/notifier/internal/engine"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

// build makes the channel. It opens nothing yet.
func (c *Channel) build(logger *slog.Logger, source string) (channel.Channel, *webhook.FieldError) {
	switch c.Type {
	case TypeLog:
		if c.URL != "" || len(c.Secrets) > 0 || c.AllowPrivate {
			return nil, &webhook.FieldError{Field: "type", Problem: "a log channel has no url, secrets or allow_private"}
		}
		return log.New(logger), nil
	case TypeWebhook:
		secrets := make([]string, len(c.Secrets))
		for i, s := range c.Secrets {
			secrets[i] = string(s)
		}
		w, err := webhook.New(webhook.Options{
			URL: string(c.URL), Secrets: secrets, AllowPrivate: c.AllowPrivate, Source: source,
		})
		var fe *webhook.FieldError
		if errors.As(err, &fe) {
			return nil, fe
		}
		return w, nil
	}
	return nil, &webhook.FieldError{Field: "type", Problem: "must be " + TypeLog + " or " + TypeWebhook}
}

func (c *Channel) after() time.Duration {
	switch {
	case c.After != nil:
		return time.Duration(*c.After)
	case c.Type == TypeWebhook:
		return DefaultWebhookDelay
	}
	return 0
}

// lanes are the addresses that alerts go to, and the channels behind them, which
// the caller closes.
func (c *Config) lanes(p *plan.Policy, logger *slog.Logger, source string) ([]engine.Route, []channel.Channel, error) {
	var lanes []engine.Route
	var built []channel.Channel
	for _, ch := range c.channels() {
		impl, err := ch.build(logger.With("channel", ch.Name), source)
		if err != nil {
			return nil, built, &ConfigError{Field: ch.Name, Err: err}
		}
		built = append(built, impl)
		target := func(to string) string {
			sum := sha256.Sum256([]byte(string(ch.URL) + to))
			return hex.EncodeToString(sum[:8])
		}
		if len(p.Routes) == 0 {
			lanes = append(lanes, engine.Route{Name: ch.Name, Target: target(""), Channel: impl})
		}
		for i := range p.Recipients {
			r := &p.Recipients[i]
			for _, reach := range r.Channels {
				if reach.Channel == ch.Name {
					lanes = append(lanes, engine.Route{
						Name: r.Name + "/" + ch.Name, Target: target(reach.To), Channel: impl, To: reach.To, Recipient: r,
						Decides: reach.Decide == plan.DecideLink,
					})
				}
			}
		}
	}
	return lanes, built, nil
}
