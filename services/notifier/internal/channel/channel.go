// Package channel is what all ways out have in common: the alert, the one method
// that sends it, and how a failure is described.
package channel

import (
	"context"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// Types of an alert.
const (
	Opened   = "banksman.interaction.opened"
	Reminder = "banksman.interaction.reminder"
	Closed   = "banksman.interaction.closed"
)

// Alert is one message. It holds all that a channel needs, and never what a
// tool was called with.
type Alert struct {
	// ID stays the same over every attempt of one delivery.
	ID string `json:"id"`
	// Type is Opened, Reminder or Closed.
	Type string `json:"type"`
	// Key is the interaction's key (tenant.owner.id).
	Key string `json:"key"`
	// Time is when the thing happened that the alert is about.
	Time time.Time `json:"time"`
	Data Data      `json:"data"`
}

// Data is what an alert says. Texts are display text.
type Data struct {
	Title     string     `json:"title"`    // the agent's own words
	Headline  string     `json:"headline"` // made from data
	Agent     string     `json:"agent"`
	Session   string     `json:"session"`
	Project   string     `json:"project,omitempty"`
	Risk      string     `json:"risk,omitempty"`
	Kind      string     `json:"kind"`
	Tool      string     `json:"tool,omitempty"` // its name only
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	Link      string     `json:"link,omitempty"`
	// Of Closed only. DecidedBy is absent where nobody decided.
	Outcome   hitl.Outcome    `json:"outcome,omitempty"`
	DecidedBy *hitl.Principal `json:"decided_by,omitempty"`
	At        *time.Time      `json:"at,omitempty"`
}

// Channel is a way out.
type Channel interface {
	// Notify makes one attempt. err is nil when the receiver has taken the
	// alert; retry says whether another attempt makes sense. err is fit for
	// logs: no secret, no path or query of an address.
	Notify(ctx context.Context, a Alert) (retry bool, err error)
}

// Problem is why an attempt failed, where more is known than a text.
type Problem struct {
	Text string
	// RetryAfter is how long the receiver asked to be left alone; 0: it did not.
	RetryAfter time.Duration
	// Gone: the receiver wants nothing ever again.
	Gone bool
	// Unknown: the receiver may have got the alert all the same.
	Unknown bool
}

func (p *Problem) Error() string { return p.Text }
