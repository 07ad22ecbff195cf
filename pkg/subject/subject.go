package subject

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// MaxToken is the longest token, in bytes.
const MaxToken = 64

const hashed = "h_"

// Token returns text as one subject token. It is one-way for text that does
// not fit the grammar, and never empty.
func Token(text string) string {
	if ValidToken(text) && !strings.HasPrefix(text, hashed) {
		return text
	}
	return digest(text)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hashed + base64.RawURLEncoding.EncodeToString(sum[:])
}

// ValidToken reports whether text is a token of the grammar.
func ValidToken(text string) bool {
	if len(text) == 0 || len(text) > MaxToken {
		return false
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// Ref names an interaction. Another owner's equal id is another interaction.
// The fields are tokens.
type Ref struct{ Tenant, Owner, ID string }

// NewRef makes a Ref of plain names.
func NewRef(tenant, owner, id string) Ref { return Ref{Token(tenant), Token(owner), Token(id)} }

func (r Ref) String() string { return r.Tenant + "." + r.Owner + "." + r.ID }

// ParseRef reads what String writes: tenant.owner.id, each a token.
func ParseRef(s string) (Ref, bool) {
	t := strings.Split(s, ".")
	if len(t) != 3 || !ValidToken(t[0]) || !ValidToken(t[1]) || !ValidToken(t[2]) {
		return Ref{}, false
	}
	return Ref{Tenant: t[0], Owner: t[1], ID: t[2]}, true
}

// Session names a session. The fields are tokens.
type Session struct{ Tenant, Owner, ID string }

// NewSession makes a Session of plain names.
func NewSession(tenant, owner, id string) Session {
	return Session{Token(tenant), Token(owner), Token(id)}
}

func (s Session) String() string { return s.Tenant + "." + s.Owner + "." + s.ID }

// Phases of an interaction on HITL_EVENTS.
const (
	Open   = "open"
	Closed = "closed"
)

// The subjects, by what they carry.
func Request(r Ref) string  { return "hitl.req." + r.String() }
func Withdraw(r Ref) string { return "hitl.cxl." + r.String() }
func Decision(r Ref) string { return "hitl.dec." + r.String() }
func Inbox(r Ref) string    { return "hitl.inbox." + r.String() }

// Left is where an owner leaves a request or a withdrawal while no gateway is there
// to pass it on; sub is the subject it is meant for.
func Left(sub string) string {
	kind, ref, _ := strings.Cut(strings.TrimPrefix(sub, system), ".")
	return "hitl.box." + ref + "." + kind
}

// LeftFor is the subject that Left was made of; p is of kind box.
func LeftFor(p Parsed) string { return system + p.Tail + "." + p.Ref().String() }

// Event is where a gateway says that an interaction is open or closed.
func Event(r Ref, session, phase string) string {
	return "hitl.ixe." + r.Tenant + "." + r.Owner + "." + session + "." + r.ID + "." + phase
}

// Taken is the stage of an ack by which a worker claims the one use of an
// approval, before it hands it over. It is no word to people.
const Taken = "taken"

// Ack is the asker's receipt for a decision at one stage.
func Ack(r Ref, stage string) string { return "hitl.ack." + r.String() + "." + stage }

// said is what takes the place of the system's first token where the account of
// the streams gets what owners say of their sessions.
const system, said = "hitl.", "hitl.say."

// Said is where CORE gets what an owner publishes under sub: not in the stream, but
// where gateways look at it first.
func Said(sub string) string { return said + strings.TrimPrefix(sub, system) }

// Meant is the subject that Said was made of.
func Meant(s string) string { return system + strings.TrimPrefix(s, said) }

// Told is the conversation and the state of a session, as a filter.
func Told(s Session) string { return "hitl.*." + s.String() }

// Of a session: its conversation, state, live deltas, commands, and what the
// gateways know of it.
func Transcript(s Session) string { return "hitl.evt." + s.String() }
func State(s Session) string      { return "hitl.ses." + s.String() }
func Live(s Session) string       { return "hitl.live." + s.String() }
func Command(s Session) string    { return "hitl.cmd." + s.String() }
func GatewayState(s Session) string {
	return "hitl.sgw." + s.String()
}

// Beat is a worker's heartbeat, Work the queue of a pool.
func Beat(tenant, owner, worker string) string {
	return "hitl.beat." + Token(tenant) + "." + Token(owner) + "." + Token(worker)
}

func Work(tenant, pool string) string { return "hitl.work." + Token(tenant) + "." + Token(pool) }

// Service is where a caller calls a verb of the service API.
func Service(tenant, caller, verb string) string {
	return "hitl.svc." + Token(tenant) + "." + Token(caller) + "." + Token(verb)
}

// Feed is what a caller may see, as it happens.
func Feed(caller, tenant string) string { return "hitl.feed." + Token(caller) + "." + Token(tenant) }

// Alerts is where gateways ask the notifiers of a tenant what became of alerts.
func Alerts(tenant, verb string) string { return "hitl.alerts." + Token(tenant) + "." + Token(verb) }

// Decider is where the notifier of a tenant asks a caller whether it decides
// something, before people are told.
func Decider(tenant, caller string) string {
	return "hitl.decider." + Token(tenant) + "." + Token(caller)
}

// Seen is where gateways say that somebody has the interaction before their eyes.
// Nobody stores it.
func Seen(r Ref) string { return "hitl.seen." + r.String() }

// Direct is the API subject of a raw Direct Get of the last message under sub.
func Direct(stream, sub string) string { return "$JS.API.DIRECT.GET." + stream + "." + sub }

// WorkConsumer is the durable that the workers of a pool share. Different pools
// never get the same one: a tenant that contains the separator is hashed.
func WorkConsumer(tenant, pool string) string {
	t, p := Token(tenant), Token(pool)
	if strings.Contains(t, "-") {
		return Token(t + "." + p)
	}
	return t + "-" + p
}

// Parsed is what a stored subject says.
type Parsed struct {
	Kind    string // req, cxl, box, dec, ixe, ack, evt, ses, sgw, live, beat, work
	Tenant  string
	Owner   string // the pool, for work
	Session string // ixe, evt, ses, sgw, live
	ID      string // req, cxl, box, dec, ixe, ack; the worker, for beat
	Tail    string // ixe: open or closed; ack: the stage; box: req or cxl
}

// Ref is the interaction the subject is about.
func (p Parsed) Ref() Ref { return Ref{p.Tenant, p.Owner, p.ID} }

// SessionRef is the session the subject is about.
func (p Parsed) SessionRef() Session { return Session{p.Tenant, p.Owner, p.Session} }

// Parse reads a subject and refuses everything that is not exactly of the
// grammar, whatever its length.
func Parse(s string) (Parsed, error) {
	if len(s) > 7*(MaxToken+1) {
		return Parsed{}, fmt.Errorf("subject is %d bytes long", len(s))
	}
	t := strings.Split(s, ".")
	if len(t) < 4 || t[0] != "hitl" {
		return Parsed{}, fmt.Errorf("not a subject of this system: %q", s)
	}
	p := Parsed{Kind: t[1], Tenant: t[2], Owner: t[3]}
	rest := t[4:]
	want := map[string]int{
		"req": 1, "cxl": 1, "box": 2, "dec": 1, "ixe": 3, "ack": 2,
		"evt": 1, "ses": 1, "sgw": 1, "live": 1, "cmd": 1, "beat": 1, "work": 0,
	}
	n, ok := want[p.Kind]
	if !ok || len(rest) != n {
		return Parsed{}, fmt.Errorf("not a subject of this system: %q", s)
	}
	for _, tok := range t[2:] {
		if !ValidToken(tok) {
			return Parsed{}, fmt.Errorf("subject %q: %q is not a token", s, tok)
		}
	}
	switch p.Kind {
	case "req", "cxl", "dec", "beat":
		p.ID = rest[0]
	case "ixe":
		p.Session, p.ID, p.Tail = rest[0], rest[1], rest[2]
		if p.Tail != Open && p.Tail != Closed {
			return Parsed{}, fmt.Errorf("subject %q: neither open nor closed", s)
		}
	case "ack":
		p.ID, p.Tail = rest[0], rest[1]
	case "box":
		p.ID, p.Tail = rest[0], rest[1]
		if p.Tail != "req" && p.Tail != "cxl" {
			return Parsed{}, fmt.Errorf("subject %q: neither a request nor a withdrawal", s)
		}
	case "evt", "ses", "sgw", "live", "cmd":
		p.Session = rest[0]
	}
	return p, nil
}
