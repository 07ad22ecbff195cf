package wire

import (
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// What is said of the notifier that was asked about alerts.
const (
	NotifierAnswered = "answered"
	NotifierSilent   = "silent" // none is there, or none answered in time
)

// VerbExplain is what a gateway asks a notifier (hitl.alerts.<tenant>.explain); the
// call is an AlertsCall, the reply an Alerts.
const VerbExplain = "explain"

// AlertsCall names the interaction whose alerts are asked for, or asks for the
// channels: then the reply is an AlertChannels.
type AlertsCall struct {
	Key      string `json:"key,omitempty"`
	Channels bool   `json:"channels,omitempty"`
}

// AlertChannels are the ways by which a notifier tells people.
type AlertChannels struct {
	Channels []AlertChannel `json:"channels"`
}

// AlertChannel is how the addresses of one kind of channel do, as the notifier that
// was asked knows it since its start.
type AlertChannel struct {
	Type      string `json:"type"`      // for example mail
	Addresses int    `json:"addresses"` // how many it tells
	Failing   int    `json:"failing"`   // of them: the last attempt failed
	Gone      int    `json:"gone"`      // of them: the receiver wants nothing any more
	// LastSuccess is when a provider last took a message; absent: none yet.
	LastSuccess *time.Time `json:"last_success,omitempty"`
}

// Alerts is what became, or will become, of the alerts about an interaction.
type Alerts struct {
	Key string `json:"key"` // the interaction's
	// Notifier is answered, or silent where no notifier was there to ask: then nothing
	// is known, and everything but Key is empty.
	Notifier string `json:"notifier,omitempty"`
	// PlannedAt is when a notifier planned them; absent: nobody was to be told.
	PlannedAt *time.Time `json:"planned_at,omitempty"`
	// Route is the one it follows: absent without routes, "none" where none matches.
	Route string `json:"route,omitempty"`
	// Outcome and OverAt are there once it is over.
	Outcome hitl.Outcome `json:"outcome,omitempty"`
	OverAt  *time.Time   `json:"over_at,omitempty"`
	// Claim is who looks after it.
	Claim *AlertClaim `json:"claim,omitempty"`
	// Deliveries are in the order of time.
	Deliveries []AlertDelivery `json:"deliveries"`
}

// AlertClaim says that a recipient looks after an interaction: until then nobody else
// is told who was not told yet.
type AlertClaim struct {
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// AlertDelivery is one alert to one address.
type AlertDelivery struct {
	Step    string `json:"step"`    // its occasion, for example step1, reminder or closed
	Address string `json:"address"` // recipient/channel, or a channel alone
	// ChannelType is the kind of channel, for example mail, where that is known.
	ChannelType string `json:"channel_type,omitempty"`
	// State is planned, claimed (being sent), sent, retracted, failed (refused), dead
	// (given up), or skipped (never to be sent).
	State string `json:"state"`
	// DueAt is when it is, or was, to be sent next.
	DueAt  time.Time  `json:"due_at"`
	SentAt *time.Time `json:"sent_at,omitempty"`
	Tries  int        `json:"tries"`
	// Said is what the provider said, Problem what went wrong last or why nothing is
	// sent, Held why it was or is put off. Texts are for people.
	Said    string `json:"said,omitempty"`
	Problem string `json:"problem,omitempty"`
	Held    string `json:"held,omitempty"`
	// Digest: it went out in one message with others.
	Digest bool `json:"digest,omitempty"`
	// Uncertain: it may have arrived without our knowing.
	Uncertain bool `json:"uncertain,omitempty"`
}
