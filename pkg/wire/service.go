package wire

import (
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// Verbs of the service API (hitl.svc.<tenant>.<caller>.<verb>).
const (
	VerbAsk    = "ask"
	VerbGet    = "get"
	VerbList   = "list"
	VerbDecide = "decide"
	VerbCancel = "cancel"
	VerbLogin  = "login"  // a login link for this machine's person
	VerbExport = "export" // a decision as it stands in the record
	VerbTicket = "ticket" // a token by which a recipient of an alert decides, for notifiers
	VerbPush   = "push"   // the browsers that want pushes of a person, for notifiers
)

// TicketPrefix begins every token of a Ticket.
const TicketPrefix = "ticket_"

// TicketCall asks for a token by which one of some people may decide one
// interaction, once. It is for notifiers, which give it away in an alert.
type TicketCall struct {
	Key string `json:"key"` // the interaction's
	// People are ids of users. Of a link and of a push it is one: whoever has it.
	People []string `json:"people"`
	// Recipient and Channel are the notifier's names for where the alert goes.
	Recipient string `json:"recipient"`
	Channel   string `json:"channel"`
	// Via is what a person decides by: TicketLink, TicketChat or TicketPush.
	Via string `json:"via"`
	// Token is what the token is to be, so that who calls again has the same one: 32
	// bytes that nobody else knows, in the form of TicketReply's. Empty: a new one.
	Token string `json:"token,omitempty"`
}

// What a ticket is given away by.
const (
	TicketLink = "link" // to a page of the gateway
	TicketChat = "chat" // with a button, whose presser the notifier knows
	TicketPush = "push" // with a button of a browser's notification
)

// TicketReply is the reply. Token is told this once; URL is there for a link.
type TicketReply struct {
	Token     string    `json:"token"`
	URL       string    `json:"url,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
	// Decisions are what can be decided with it: deny, and allow where the assurance is
	// enough for the risk.
	Decisions []string `json:"decisions"`
	// Text is all that is shown of what is asked, where that is short and a button is
	// to decide it. Empty: the button would not show what it lets go on, so let nobody
	// allow by one.
	Text string `json:"text,omitempty"`
}

// MaxTicketText is the longest Text, in characters.
const MaxTicketText = 600

// Everybody stands for the id of a person in a PushCall.
const Everybody = "*"

// PushCall asks for the browsers of a person, after it has forgotten those that are
// gone. User may be Everybody: then it is for all people who may decide the interaction
// of Key, or have a role in the tenant where there is no key.
type PushCall struct {
	User string   `json:"user"`
	Key  string   `json:"key,omitempty"`
	Gone []string `json:"gone,omitempty"` // ids
}

// PushReply is the reply.
type PushReply struct {
	Browsers []PushTarget `json:"browsers"`
}

// PushTarget is where pushes to one browser go, and what they are encrypted with
// (RFC 8291), base64url.
type PushTarget struct {
	ID       string `json:"id"`
	Endpoint string `json:"endpoint"`
	P256dh   string `json:"p256dh"`
	Auth     string `json:"auth"`
}

// DecideCall decides. Token is a person's login token, for callers that
// may not decide themselves, or that of a ticket; then Person is who of its people
// pressed the button.
type DecideCall struct {
	ID     string `json:"id"` // interaction id or key
	Token  string `json:"token,omitempty"`
	Person string `json:"person,omitempty"`
	// AsTold: what is decided is the request as it was when the ticket was made. It
	// stands for digest and shown where a button has no room for them.
	AsTold bool `json:"as_told,omitempty"`
	hitl.Response
}

// GetCall names an interaction by id or key.
type GetCall struct {
	ID string `json:"id"`
}

// ExportCall asks for a decision as it stands in the record. Token is a person's
// login token.
type ExportCall struct {
	ID    string `json:"id"` // interaction id or key
	Token string `json:"token"`
}

// Evidence is an exported decision: what the record holds, byte by byte.
type Evidence struct {
	V         int    `json:"v"`
	Subject   string `json:"subject"`
	Signer    string `json:"signer"`
	Signature string `json:"signature"`
	// Decision is the exact body, in base64; the request is inside it.
	Decision []byte `json:"decision_b64"`
	// Seq and StoredAt are where and when the server stored it. They are not
	// signed.
	Seq      string `json:"seq,omitempty"`
	StoredAt string `json:"stored_at,omitempty"`
}

// ListCall filters a list.
type ListCall struct {
	State string `json:"state,omitempty"` // pending (default) or closed
	Limit int    `json:"limit,omitempty"` // default and most 1,000
	// After goes on behind an earlier list: its Next.
	After string `json:"after,omitempty"`
	// Follow asks to be told on the caller's feed, for some minutes, what opens and what
	// ends: Interactions without bodies.
	Follow bool `json:"follow,omitempty"`
}

// ListReply is the reply to list: an element per interaction.
type ListReply struct {
	Interactions []Interaction `json:"interactions"`
	// Next goes on from here, as after, and in a search as before; absent where there is
	// nothing more.
	Next string `json:"next,omitempty"`
	// ReadTo is how far back a search has looked.
	ReadTo *time.Time `json:"read_to,omitempty"`
}

// AskReply is the decision, or pending: then the caller repeats the call.
type AskReply struct {
	Status   string         `json:"status"` // decided or pending
	ID       string         `json:"id"`
	Decision *hitl.Decision `json:"decision,omitempty"`
}

// The status of an AskReply.
const (
	AskDecided = "decided"
	AskPending = "pending"
)

// LoginCall asks for a link, or (CLI) for a code that a person confirms
// in the browser.
type LoginCall struct {
	CLI  bool   `json:"cli,omitempty"`
	Poll string `json:"poll,omitempty"` // the secret of an earlier CLI request
	Name string `json:"name,omitempty"` // what the confirmation shows, for example the host
	// Manage asks that the terminal may manage people and tokens as well.
	Manage bool `json:"manage,omitempty"`
}

// LoginReply is the reply: URL for a link; Code and Poll while a CLI request
// waits for its confirmation, Token once it has it.
type LoginReply struct {
	URL       string `json:"url,omitempty"`
	Code      string `json:"code,omitempty"`
	Poll      string `json:"poll,omitempty"`
	Token     string `json:"token,omitempty"`
	ExpiresAt string `json:"expires_at,omitempty"`
}

// ErrorReply is the body of a failed call.
type ErrorReply struct {
	Error Error `json:"error"`
}
