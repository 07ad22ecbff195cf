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
	// Digest stands for several alerts at once; Data has Digest.
	Digest = "banksman.digest"
	// Test comes from a person who wants to see whether the channel works.
	Test = "banksman.test"
)

// Alert is one message. It holds all that a channel needs, and never what a
// tool was called with.
type Alert struct {
	// ID stays the same over every attempt of one delivery.
	ID string `json:"id"`
	// Type is one of the above.
	Type string `json:"type"`
	// Key is the interaction's key (tenant.owner.id), of a Digest its own.
	Key string `json:"key"`
	// Time is when the thing happened that the alert is about.
	Time time.Time `json:"time"`
	Data Data      `json:"data"`
	// Until is when an answer to it counts no more, of an alert that asks a service.
	Until time.Time `json:"until,omitzero"`
	// To is the recipient's address where the channel needs one. It is not kept
	// with the alert.
	To string `json:"-"`
	// Act is what the message may have buttons for; nil: for nothing. It is made for
	// one attempt and kept nowhere.
	Act *Act `json:"-"`
}

// Act is what buttons of a message decide by.
type Act struct {
	// Token is a ticket: whoever has it, and is one of its people, decides once.
	Token string
	// Allow: approving is possible by it, and not only denying. Then Text is all that
	// is asked, as it is shown everywhere. A channel that does not show it whole has no
	// button to approve.
	Allow bool
	Text  string
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
	// Recipient is who it is for, where the configuration names people.
	Recipient string `json:"recipient,omitempty"`
	// Digest is of a Digest only.
	Digest *Summary `json:"digest,omitempty"`
}

// Summary says how much a digest stands for.
type Summary struct {
	Waiting int `json:"waiting"` // requests that wait for a decision
	Over    int `json:"over"`    // that were told of before and are over now
	// Risks counts the waiting ones by risk.
	Risks map[string]int `json:"risks,omitempty"`
	// Sessions are those of the waiting ones, at most MaxSessions.
	Sessions []string `json:"sessions,omitempty"`
}

// MaxSessions is how many sessions a digest names.
const MaxSessions = 10

// Receipt is what is known of a message that the provider has taken.
type Receipt struct {
	// Ref is the provider's own name for the message, by which Update finds it.
	// Empty: it cannot be changed.
	Ref string `json:"ref,omitempty"`
	// Said is the provider's answer in a few words, for people. No secret.
	Said string `json:"said,omitempty"`
	// Pass is of a service that was asked: it leaves the request to people.
	Pass bool `json:"pass,omitempty"`
}

// Channel is a way out. It is safe for concurrent use.
type Channel interface {
	// Send makes one attempt to deliver the alert. No error says that the provider
	// has taken it. An error is fit for logs: no secret, no path or query of an
	// address. What kind it is says a *Problem; any other error counts as one that
	// another attempt may overcome.
	Send(ctx context.Context, a Alert) (Receipt, error)
}

// Updater is a Channel that can change a message that it has sent.
type Updater interface {
	Channel
	// Update turns the message of r into the end that a tells of.
	Update(ctx context.Context, r Receipt, a Alert) (Receipt, error)
}

// Resolver is an Updater whose messages stand until their end is told, digests as
// well: all those to one recipient are one message there.
type Resolver interface {
	Updater
	// Digest is the receipt of the message that the digests to a recipient are.
	Digest(recipient string) Receipt
}

// Class says what a failure means for further attempts.
type Class int

// The classes.
const (
	Retry   Class = iota // another attempt may do better
	Refused              // this message will never be taken
	Gone                 // the receiver wants nothing ever again
)

// Problem is why an attempt failed, where more is known than a text.
type Problem struct {
	Text  string
	Class Class
	// RetryAfter is how long the receiver asked to be left alone; 0: it did not.
	RetryAfter time.Duration
	// Unknown: the receiver may have got the alert all the same.
	Unknown bool
	// Idle: there is nobody to receive it, which is no fault.
	Idle bool
}

func (p *Problem) Error() string { return p.Text }

// FieldError names what is wrong with a channel's configuration, without its
// value.
type FieldError struct{ Field, Problem string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }
