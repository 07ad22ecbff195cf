// Package log is the channel that writes a line into the service's own log. It
// leaves out the agent's words, which may quote what a tool is called with.
package log

import (
	"context"
	"log/slog"

	"github.com/banksman/banksman/services/notifier/internal/channel"
)

// Channel writes to a logger.
type Channel struct{ log *slog.Logger }

var _ channel.Channel = (*Channel)(nil)

// New makes a channel that writes to log.
func New(log *slog.Logger) *Channel { return &Channel{log} }

// Send writes one line. It cannot fail.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	d := &a.Data
	attrs := []slog.Attr{
		slog.String("interaction", a.Key), slog.String("kind", d.Kind),
		slog.String("agent", d.Agent), slog.String("session", d.Session),
	}
	optional := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	optional("project", d.Project)
	optional("tool", d.Tool)
	optional("risk", d.Risk)
	text := "waiting for a decision"
	switch a.Type {
	case channel.Reminder:
		text = "still waiting for a decision"
	case channel.Test:
		text = "a test message"
	case channel.Digest:
		text = "several are waiting for a decision"
		if s := d.Digest; s != nil {
			attrs = []slog.Attr{slog.Int("waiting", s.Waiting), slog.Int("over", s.Over)}
		}
	case channel.Closed:
		text = "no longer waiting"
		attrs = append(attrs, slog.String("outcome", string(d.Outcome)))
		if p := d.DecidedBy; p != nil {
			attrs = append(attrs, slog.String("decided_by", p.Kind+" "+p.ID))
		}
	}
	if d.ExpiresAt != nil && a.Type != channel.Closed {
		attrs = append(attrs, slog.Time("expires_at", *d.ExpiresAt))
	}
	optional("link", d.Link)
	c.log.LogAttrs(ctx, slog.LevelInfo, text, attrs...)
	return channel.Receipt{Said: "logged"}, nil
}
