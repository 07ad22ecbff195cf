package ledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/channel"
)

// State is where a delivery stands.
type State string

// The states. The last four are final.
const (
	Planned   State = "planned"   // to be sent at DueAt
	Claimed   State = "claimed"   // somebody is sending it, until Until
	Sent      State = "sent"      // the receiver has taken it
	Retracted State = "retracted" // taken back before it was sent: it was over
	Failed    State = "failed"    // the receiver refused it
	Dead      State = "dead"      // given up
)

// Final reports whether nothing follows any more.
func (s State) Final() bool { return s != Planned && s != Claimed }

// Step is the occasion of a delivery.
type Step string

// The steps of an interaction.
const (
	StepOpen     Step = "open"
	StepReminder Step = "reminder"
	StepClosed   Step = "closed"
	// StepResolved ends what stands for digests: nothing of them waits any more.
	StepResolved Step = "resolved"
)

// Ends reports whether the step tells that something is over.
func (s Step) Ends() bool { return s == StepClosed || s == StepResolved }

// Key names a delivery: one occasion of one interaction, one channel.
type Key struct {
	Ref     subject.Ref
	Step    Step
	Channel string // a token, or two of them: recipient/channel
}

const (
	deliveries = "ix"
	overs      = "over"
	gones      = "gone"
)

func (k Key) String() string {
	return deliveries + "." + k.Ref.String() + "." + string(k.Step) + "." + k.Channel
}

func overKey(ref subject.Ref) string { return overs + "." + ref.String() }

func goneKey(channel, target string) string { return gones + "." + channel + "." + target }

func parseKey(s string) (Key, error) {
	t := strings.Split(s, ".")
	if len(t) != 6 || t[0] != deliveries {
		return Key{}, fmt.Errorf("ledger: %q is not the key of a delivery", s)
	}
	return Key{Ref: subject.Ref{Tenant: t[1], Owner: t[2], ID: t[3]}, Step: Step(t[4]), Channel: t[5]}, nil
}

// Entry is a delivery as it is stored.
type Entry struct {
	V     int    `json:"v"`
	Write string `json:"w"` // unique to each write
	State State  `json:"state"`
	// DueAt is when the next attempt is to be made.
	DueAt time.Time `json:"due_at"`
	// Tries counts the attempts that were begun.
	Tries int `json:"tries"`
	// By is the replica that holds the claim, or held it last; the claim is
	// void after Until.
	By    string     `json:"by,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// Uncertain: an attempt may have reached the receiver without our knowing.
	Uncertain bool       `json:"uncertain,omitempty"`
	SentAt    *time.Time `json:"sent_at,omitempty"`
	// Problem is what went wrong last, or why nothing was sent.
	Problem string `json:"problem,omitempty"`
	// Held is why it did not go out when it was due first.
	Held string `json:"held,omitempty"`
	// Prompt: it waits for no digest, for it left with one, or a person sends it again.
	Prompt bool `json:"prompt,omitempty"`
	// Into names the message that stands for this and perhaps for other
	// deliveries; Many says that it does for others.
	Into string `json:"into,omitempty"`
	Many bool   `json:"many,omitempty"`
	// Receipt is what the provider said when it took the alert.
	Receipt *channel.Receipt `json:"receipt,omitempty"`
	// Earlier are the receipts of what an ending corrects.
	Earlier []channel.Receipt `json:"earlier,omitempty"`
	// Trace is the traceparent of what it tells of; empty: there is none.
	Trace string `json:"trace,omitempty"`
	// Alert is absent in an entry that is final, unless it failed and can be sent again.
	Alert *channel.Alert `json:"alert,omitempty"`
}

// Lost reports whether it was given up or refused: a dead letter.
func (e *Entry) Lost() bool { return e.State == Dead || e.State == Failed }

// LeftToPeople reports whether a service has been asked and has left the request to
// people: it said so, or it failed, be it that it is asked again.
func (e *Entry) LeftToPeople() bool {
	return e.Problem != "" || e.Receipt != nil && e.Receipt.Pass
}

// Told reports whether the receiver knows, or may know, of the interaction.
func (e *Entry) Told() bool { return e.State == Sent || e.Uncertain }

// Record is an entry with its place. Treat it as read-only.
type Record struct {
	Key      Key
	Revision uint64
	Entry
}

func decode(key string, value []byte, revision uint64) (*Record, error) {
	k, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	r := &Record{Key: k, Revision: revision}
	if err := json.Unmarshal(value, &r.Entry); err != nil {
		return nil, fmt.Errorf("ledger: decode %s: %w", key, err)
	}
	if r.V != 1 {
		return nil, fmt.Errorf("ledger: %s has version %d, this build reads 1", key, r.V)
	}
	if !r.State.Final() && r.Alert == nil {
		return nil, fmt.Errorf("ledger: %s has no alert", key)
	}
	return r, nil
}

// Over says how an interaction ended.
type Over struct {
	Write   string       `json:"w"`
	Outcome hitl.Outcome `json:"outcome"`
	At      time.Time    `json:"at"`
}

func decodeOver(key string, value []byte) (*Over, error) {
	var o Over
	if err := json.Unmarshal(value, &o); err != nil {
		return nil, fmt.Errorf("ledger: decode %s: %w", key, err)
	}
	return &o, nil
}

// Gone is a channel's target that asked for no more.
type Gone struct {
	Write   string    `json:"w"`
	Channel string    `json:"channel"`
	Target  string    `json:"target"` // a digest
	At      time.Time `json:"at"`
	// Back: it is tried again since then.
	Back bool `json:"back,omitempty"`
}

// decodeGone takes an entry at its word only where it is the one of its key: it
// silences a channel.
func decodeGone(key string, value []byte) (Gone, error) {
	var g Gone
	if err := json.Unmarshal(value, &g); err != nil {
		return Gone{}, fmt.Errorf("ledger: decode %s: %w", key, err)
	}
	if goneKey(g.Channel, g.Target) != key {
		return Gone{}, fmt.Errorf("ledger: %s is about channel %q, target %q", key, g.Channel, g.Target)
	}
	return g, nil
}
