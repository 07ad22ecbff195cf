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

// route is the channel with its rules.
func (c *Channel) route(logger *slog.Logger, source string) (engine.Route, *webhook.FieldError) {
	ch, err := c.build(logger.With("channel", c.Name), source)
	if err != nil {
		return engine.Route{}, err
	}
	sum := sha256.Sum256([]byte(c.URL))
	r := engine.Route{Name: c.Name, Reminder: c.Reminder == nil || *c.Reminder, Target: hex.EncodeToString(sum[:8]), Channel: ch}
	switch {
	case c.After != nil:
		r.After = time.Duration(*c.After)
	case c.Type == TypeWebhook:
		r.After = DefaultWebhookDelay
	}
	return r, nil
}
