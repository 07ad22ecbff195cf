package notifier

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/desktop"
	"github.com/banksman/banksman/services/notifier/internal/channel/discord"
	"github.com/banksman/banksman/services/notifier/internal/channel/gotify"
	"github.com/banksman/banksman/services/notifier/internal/channel/log"
	"github.com/banksman/banksman/services/notifier/internal/channel/mail"
	"github.com/banksman/banksman/services/notifier/internal/channel/ntfy"
	"github.com/banksman/banksman/services/notifier/internal/channel/opsgenie"
	"github.com/banksman/banksman/services/notifier/internal/channel/pagerduty"
	"github.com/banksman/banksman/services/notifier/internal/channel/push"
	"github.com/banksman/banksman/services/notifier/internal/channel/slack"
	"github.com/banksman/banksman/services/notifier/internal/channel/teams"
	"github.com/banksman/banksman/services/notifier/internal/channel/telegram"
	"github.com/banksman/banksman/services/notifier/internal/channel/webhook"
)

// Types of a channel.
const (
	TypeLog       = "log"
	TypeWebhook   = "webhook"
	TypeMail      = "mail"
	TypeSlack     = "slack"
	TypeTelegram  = "telegram"
	TypeDiscord   = "discord"
	TypeTeams     = "teams"
	TypeNtfy      = "ntfy"
	TypeGotify    = "gotify"
	TypePagerDuty = "pagerduty"
	TypeOpsgenie  = "opsgenie"
	TypeDesktop   = "desktop"
	TypePush      = "push"
)

// How long a request waits before a channel hears of it, without routes. What is
// in view on a page has been decided by then.
const (
	chatDelay   = 5 * time.Second
	mailDelay   = time.Minute
	onCallDelay = 5 * time.Minute
)

// ground is what channels are built on. What they need of the connection they ask for
// when they send: a configuration is checked without one.
type ground struct {
	logger *slog.Logger
	source string // of events
	// desk is the client of the gateway, and pushKey the key of pushes.
	desk    func() push.Gateway
	pushKey func() string
	now     func() time.Time
}

// channelType is what the configuration of a type must and may have.
type channelType struct {
	fields []string // the names of what a channel of the type may have
	after  time.Duration
	// checkTo says what is wrong with a recipient's address; nil: there is none.
	checkTo func(to string) string
	// build makes the channel. It opens nothing yet.
	build func(c *Channel, on *ground) (channel.Channel, error)
}

var channelTypes = map[string]channelType{
	TypeLog: {build: func(_ *Channel, on *ground) (channel.Channel, error) { return log.New(on.logger), nil }},
	TypeWebhook: {
		fields: []string{"url", "secrets", "allow_private"}, after: chatDelay,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			secrets := make([]string, len(c.Secrets))
			for i, s := range c.Secrets {
				secrets[i] = string(s)
			}
			return webhook.New(webhook.Options{URL: string(c.URL), Secrets: secrets, AllowPrivate: c.AllowPrivate, Source: on.source})
		},
	},
	TypeMail: {
		fields: []string{"url", "user", "password", "from", "to", "allow_private"}, after: mailDelay, checkTo: mail.CheckTo,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			return mail.New(mail.Options{URL: string(c.URL), AllowPrivate: c.AllowPrivate, User: c.User, Password: string(c.Password), From: c.From})
		},
	},
	TypeSlack: {
		fields: []string{"url", "token", "to", "allow_private", "people", "signing_secret", "listen", "app_token", "team"}, after: chatDelay, checkTo: slack.CheckTo,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			if c.Token == "" {
				return slack.NewHook(string(c.URL), c.AllowPrivate)
			}
			return slack.NewBot(string(c.Token), string(c.URL), c.AllowPrivate, slack.Buttons{
				Secret: string(c.SigningSecret), Listen: c.Listen, AppToken: string(c.AppToken), Team: c.Team, Clock: on.now,
			})
		},
	},
	TypeTelegram: {
		fields: []string{"url", "token", "to", "allow_private", "people"}, after: chatDelay, checkTo: telegram.CheckTo,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			return telegram.New(string(c.Token), string(c.URL), c.AllowPrivate)
		},
	},
	TypeDesktop: {
		fields: []string{"url"}, after: chatDelay,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			return desktop.New(string(c.URL))
		},
	},
	TypePush: {
		fields: []string{"from", "to", "redact", "allow_private"}, after: chatDelay, checkTo: push.CheckTo,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			// Not the configuration says where pushes go, but whoever signs in.
			if c.AllowPrivate && on.source != "" && !push.Local(on.source) {
				return nil, &channel.FieldError{Field: "allow_private", Problem: "is for pushes only where the page's own address is http on this machine"}
			}
			return push.New(push.Options{
				Key: on.pushKey, Gateway: on.desk, Clock: on.now, Contact: push.Contact(c.From, on.source), Redact: c.Redact, AllowPrivate: c.AllowPrivate,
			})
		},
	},
	TypeDiscord: {
		fields: []string{"url", "allow_private"}, after: chatDelay,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			return discord.New(string(c.URL), c.AllowPrivate)
		},
	},
	TypeTeams: {
		fields: []string{"url", "allow_private"}, after: chatDelay,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			return teams.New(string(c.URL), c.AllowPrivate)
		},
	},
	TypeNtfy: {
		fields: []string{"url", "token", "to", "allow_private"}, after: chatDelay, checkTo: ntfy.CheckTo,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			return ntfy.New(string(c.URL), string(c.Token), c.AllowPrivate)
		},
	},
	TypeGotify: {
		fields: []string{"url", "token", "allow_private"}, after: chatDelay,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			return gotify.New(string(c.URL), string(c.Token), c.AllowPrivate)
		},
	},
	TypePagerDuty: {
		fields: []string{"url", "token", "allow_private"}, after: onCallDelay,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			return pagerduty.New(pagerduty.Options{RoutingKey: string(c.Token), URL: string(c.URL), AllowPrivate: c.AllowPrivate, Source: on.source})
		},
	},
	TypeOpsgenie: {
		fields: []string{"url", "token", "allow_private"}, after: onCallDelay,
		build: func(c *Channel, on *ground) (channel.Channel, error) {
			return opsgenie.New(opsgenie.Options{Key: string(c.Token), URL: string(c.URL), AllowPrivate: c.AllowPrivate, Source: on.source})
		},
	},
}

// build makes the channel. It opens nothing yet.
func (c *Channel) build(on *ground) (channel.Channel, *channel.FieldError) {
	t, ok := channelTypes[c.Type]
	if !ok {
		return nil, &channel.FieldError{Field: "type", Problem: "must be one of " + strings.Join(slices.Sorted(maps.Keys(channelTypes)), ", ")}
	}
	given := map[string]bool{
		"url": c.URL != "", "secrets": len(c.Secrets) > 0, "allow_private": c.AllowPrivate, "token": c.Token != "",
		"user": c.User != "", "password": c.Password != "", "from": c.From != "", "to": c.To != "",
		"redact": len(c.Redact) > 0, "people": len(c.People) > 0, "signing_secret": c.SigningSecret != "", "listen": c.Listen != "",
		"app_token": c.AppToken != "", "team": c.Team != "",
	}
	for _, field := range slices.Sorted(maps.Keys(given)) {
		if given[field] && !slices.Contains(t.fields, field) {
			return nil, &channel.FieldError{Field: field, Problem: "is not known to a channel of the type " + c.Type}
		}
	}
	ch, err := t.build(c, on)
	var fe *channel.FieldError
	if errors.As(err, &fe) {
		return nil, fe
	}
	return ch, nil
}

// checkTo says what is wrong with a recipient's address in the channel.
func (c *Channel) checkTo(to string) string {
	t := channelTypes[c.Type]
	hook := c.Type == TypeSlack && c.Token == "" // leads to one conversation
	switch {
	case (t.checkTo == nil || hook) && to != "":
		return "is not known to such a channel: its address says where to"
	case t.checkTo == nil || hook:
		return ""
	case to == "":
		return "missing: " + c.Type + " needs an address to send to"
	}
	return t.checkTo(to)
}

// secret reports whether there is something in the configuration that others may
// not read. An address is its own password where there is nothing else.
func (c *Channel) secret() bool {
	bare := c.URL != "" && c.Token == "" && len(c.Secrets) == 0 && (c.Type == TypeSlack || c.Type == TypeDiscord || c.Type == TypeTeams)
	return len(c.Secrets) > 0 || c.Token != "" || c.Password != "" || c.SigningSecret != "" || c.AppToken != "" || bare
}

func (c *Channel) after() time.Duration {
	if c.After != nil {
		return time.Duration(*c.After)
	}
	return channelTypes[c.Type].after
}
