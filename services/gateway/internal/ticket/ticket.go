// Package ticket is how somebody decides who was told elsewhere: a token that an
// alert carries, for one interaction as it was when it was told, for certain
// people, until a certain time.
//
// A token is 32 random bytes, of which the bucket holds the SHA-256 only. It is
// used by compare-and-swap: whatever it was used for first, on any gateway, is all
// that it can be used for, so that saying the same again is safe and saying
// something else is not possible. It gives no right: what its person may do is
// looked up when it is used.
package ticket

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/permit"
	"github.com/banksman/banksman/services/gateway/internal/quota"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

const (
	// Longest is how long a ticket is good that has no deadline to end at.
	Longest   = 7 * 24 * time.Hour
	maxPeople = 100
	// callLimit bounds one call of the bucket.
	callLimit = 3 * time.Second
	// casTries is how often a use looks again because another one was faster.
	casTries = 3
	// dayBytes is what a tenant may add to the bucket in a day by one gateway: some
	// thousands of tickets. The bucket forgets the oldest where it is full, and must not
	// forget one tenant's for another's.
	dayBytes = 2 << 20
	// overhead is what an entry takes beside its value.
	overhead = 256
)

// Page is where links lead, below the base URL.
const Page = "/l/"

// ErrUnknown covers a token that never was and one that is forgotten.
var ErrUnknown = errors.New("unknown or expired")

// errUnavailable: the bucket cannot be reached.
var errUnavailable = errors.New("the tokens of alerts cannot be reached")

// People are those who may sign in here.
type People interface {
	Who(ctx context.Context, id string) (hitl.Principal, role.Set, error)
}

// Options wire a Book. All but Clock are required.
type Options struct {
	Conn    *nats.Conn // not closed here
	Engine  api.Engine
	People  People
	Logger  *slog.Logger
	BaseURL *url.URL
	Clock   func() time.Time // default time.Now
}

// Book is all tickets. Its methods are safe for concurrent use.
type Book struct {
	o   Options
	kv  jetstream.KeyValue
	log *slog.Logger
	now func() time.Time
	day *quota.Daily // by tenant
}

// Ticket is one as it is stored, under the hash of its token.
type Ticket struct {
	V      int    `json:"v"`
	Key    string `json:"key"` // the interaction's
	Digest string `json:"digest"`
	Shown  string `json:"shown,omitempty"`
	// DenyOnly: too much to be shown above a button, or too grave, so none lets it go on.
	DenyOnly  bool      `json:"deny_only,omitempty"`
	People    []string  `json:"people"`
	Recipient string    `json:"recipient"`
	Channel   string    `json:"channel"`
	Via       string    `json:"via"`
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is when nothing can be decided with it any more.
	ExpiresAt time.Time `json:"expires_at"`
	// Used is the decision that it was used for, and UsedBy who used it.
	Used   string `json:"used,omitempty"`
	UsedBy string `json:"used_by,omitempty"`
}

// Open binds the bucket.
func Open(ctx context.Context, o Options) (*Book, error) {
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	kv, err := js.KeyValue(ctx, journal.TicketsBucket)
	if err != nil {
		return nil, fmt.Errorf("ticket: bucket %s: %w", journal.TicketsBucket, err)
	}
	b := &Book{o: o, kv: kv, log: o.Logger.With("component", "ticket"), now: o.Clock, day: quota.NewDaily(dayBytes)}
	if b.now == nil {
		b.now = time.Now
	}
	return b, nil
}

// assurance is what is known of who decides with a ticket.
func assurance(via string) string {
	if via == wire.TicketChat {
		return permit.AssuranceChat
	}
	return permit.AssuranceLink
}

// Decisions are what can be decided with a ticket of a kind, of an interaction that
// waits: nothing of a question or a form, which take an answer.
func Decisions(via string, ix *wire.Interaction) []string {
	if ix.Body == nil || !slices.Contains(ix.Body.Verbs, hitl.VerbDeny) {
		return []string{}
	}
	out := []string{hitl.VerbDeny}
	if slices.Contains(ix.Body.Verbs, hitl.VerbAllow) && permit.Enough(assurance(via), ix.Risk) {
		out = append(out, hitl.VerbAllow)
	}
	return out
}

// Mint makes a ticket for a notifier of a tenant. People who may not decide the
// interaction are left out; nobody left is a refusal.
func (b *Book) Mint(ctx context.Context, tenant string, in wire.TicketCall) (*wire.TicketReply, *wire.Error) {
	inv := &hitl.InvalidError{}
	bad := func(field, problem string) {
		inv.Fields = append(inv.Fields, hitl.Field{Field: field, Problem: problem})
	}
	ref, ok := subject.ParseRef(in.Key)
	if !ok {
		bad("key", "is not the key of an interaction")
	}
	if !slices.Contains(vias, in.Via) {
		bad("via", "must be link, chat or push")
	}
	if !several(len(in.People), in.Via) {
		bad("people", "must be one for a link or a push, 1 to 100 for a chat")
	}
	if in.Token != "" && !wellFormed(in.Token) {
		bad("token", "is not the token of a ticket")
	}
	for field, v := range map[string]string{"recipient": in.Recipient, "channel": in.Channel} {
		if !subject.ValidToken(v) {
			bad(field, "is not a token")
		}
	}
	if len(inv.Fields) > 0 {
		return nil, &wire.Error{Code: string(hitl.BadInput), Error: inv.Error(), Fields: inv.Fields}
	}
	refuse := func(code hitl.Status, words string) (*wire.TicketReply, *wire.Error) {
		return nil, &wire.Error{Code: string(code), Error: words}
	}
	if ref.Tenant != tenant {
		return refuse(hitl.NotFound, "no such interaction")
	}
	ix, err := b.o.Engine.Interaction(ctx, in.Key)
	switch {
	case errors.Is(err, api.ErrNotFound):
		return refuse(hitl.NotFound, "no such interaction")
	case err != nil:
		b.log.Warn("no ticket made", "interaction", in.Key, "error", err)
		return refuse(hitl.Unavailable, "no ticket can be made now")
	case ix.State != wire.StatePending:
		return refuse(hitl.AlreadyDecided, "it is decided already")
	}
	var people []string
	for _, id := range in.People {
		_, may, err := b.o.People.Who(ctx, id)
		if err != nil {
			b.log.Warn("no ticket made", "interaction", in.Key, "error", err)
			return refuse(hitl.Unavailable, "no ticket can be made now")
		}
		if _, ok := may.Decides(ix.Kind, ix.Tenant, ix.ProjectID); ok && !slices.Contains(people, id) {
			people = append(people, id)
		}
	}
	if len(people) == 0 {
		return refuse(hitl.Forbidden, "none of these people may decide this")
	}
	now := b.now().UTC()
	t := Ticket{
		V: 1, Key: in.Key, Digest: ix.Digest, People: people, Recipient: in.Recipient, Channel: in.Channel, Via: in.Via,
		CreatedAt: now, ExpiresAt: now.Add(Longest),
	}
	if at := ix.ExpiresAt; at != nil && at.Before(t.ExpiresAt) {
		t.ExpiresAt = *at
	}
	out := &wire.TicketReply{ExpiresAt: t.ExpiresAt, Decisions: Decisions(in.Via, ix)}
	if ix.Body != nil {
		t.Shown = ix.Body.Shown
	}
	if in.Via != wire.TicketLink && slices.Contains(out.Decisions, hitl.VerbAllow) {
		// A button is pressed in passing, so what is grave is looked at first, whoever
		// the presser is known to be.
		if out.Text = text(ix.Body); !permit.Enough(permit.AssuranceLink, ix.Risk) {
			out.Text = ""
		}
		if t.DenyOnly = out.Text == ""; t.DenyOnly {
			out.Decisions = []string{hitl.VerbDeny}
		}
	}
	token := in.Token
	if token == "" {
		var raw [32]byte
		rand.Read(raw[:]) // never fails since Go 1.24
		token = wire.TicketPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	}
	data, err := json.Marshal(t)
	paid := err == nil && b.day.Take(tenant, len(data)+overhead, now)
	switch {
	case paid:
		call, cancel := context.WithTimeout(ctx, callLimit)
		_, err = b.kv.Create(call, hash(token), data)
		cancel()
		if errors.Is(err, jetstream.ErrKeyExists) {
			b.day.Give(tenant, len(data)+overhead)
		}
	case err == nil:
		err = jetstream.ErrKeyExists // what is there already costs nothing
	}
	if in.Token != "" && errors.Is(err, jetstream.ErrKeyExists) {
		var have *Ticket
		if have, err = b.Read(ctx, token); err == nil {
			if !have.same(&t) {
				return refuse(hitl.Forbidden, "the token is that of another ticket")
			}
			out.ExpiresAt = have.ExpiresAt // asked for again
		}
	}
	if !paid && (in.Token == "" || errors.Is(err, ErrUnknown)) {
		b.log.Warn("no ticket made: the tenant has had too many", "tenant", tenant, "interaction", in.Key)
		return refuse(hitl.Forbidden, "this tenant has had as many tickets made as it may in a day")
	}
	if err != nil {
		b.log.Warn("no ticket made", "interaction", in.Key, "error", err)
		return refuse(hitl.Unavailable, "no ticket can be made now")
	}
	out.Token = token
	if in.Via == wire.TicketLink {
		u := *b.o.BaseURL
		u.Path, u.RawQuery, u.Fragment = Page+token, "", ""
		out.URL = u.String()
	}
	b.log.Debug("ticket made", "interaction", in.Key, "recipient", in.Recipient, "channel", in.Channel)
	return out, nil
}

// same reports whether both are for the same people to decide the same.
func (t *Ticket) same(u *Ticket) bool {
	return t.Key == u.Key && t.Digest == u.Digest && t.Via == u.Via && t.Recipient == u.Recipient && t.Channel == u.Channel && slices.Equal(t.People, u.People)
}

// hash names a ticket in the bucket.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// wellFormed keeps what cannot be a token away from the bucket.
func wellFormed(token string) bool {
	text, ok := strings.CutPrefix(token, wire.TicketPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return ok && err == nil && len(raw) == 32 && base64.RawURLEncoding.EncodeToString(raw) == text
}

// Read is the ticket of a token. It changes nothing.
func (b *Book) Read(ctx context.Context, token string) (*Ticket, error) {
	t, _, err := b.read(ctx, token)
	return t, err
}

func (b *Book) read(ctx context.Context, token string) (*Ticket, uint64, error) {
	if !wellFormed(token) {
		return nil, 0, ErrUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	e, err := b.kv.Get(ctx, hash(token))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, ErrUnknown
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	t, err := decode(e.Value())
	if err != nil {
		b.log.Error("a ticket cannot be read and counts for nothing", "error", err)
		return nil, 0, ErrUnknown
	}
	return t, e.Revision(), nil
}

// decode reads a stored ticket. It takes none that Mint would not have made.
func decode(raw []byte) (*Ticket, error) {
	var t Ticket
	if err := hitl.Decode(raw, "ticket", &t); err != nil {
		return nil, err
	}
	_, keyed := subject.ParseRef(t.Key)
	switch n := len(t.People); {
	case t.V != 1:
		return nil, hitl.Invalid("v", "is %d, this build reads 1", t.V)
	case !keyed:
		return nil, hitl.Invalid("key", "is not the key of an interaction")
	case t.Digest == "":
		return nil, hitl.Invalid("digest", "is missing")
	case !slices.Contains(vias, t.Via):
		return nil, hitl.Invalid("via", "is unknown")
	case !several(n, t.Via) || slices.Contains(t.People, ""):
		return nil, hitl.Invalid("people", "are too few, or too many")
	case t.ExpiresAt.IsZero() || t.ExpiresAt.After(t.CreatedAt.Add(Longest)):
		return nil, hitl.Invalid("expires_at", "is missing or too late")
	case (t.Used == "") != (t.UsedBy == "") || t.Used != "" && !slices.Contains(t.People, t.UsedBy):
		return nil, hitl.Invalid("used_by", "is nobody whom the ticket is for")
	}
	return &t, nil
}

var vias = []string{wire.TicketLink, wire.TicketChat, wire.TicketPush}

// several reports whether a ticket of a kind is for so many people.
func several(n int, via string) bool {
	return n == 1 || n > 1 && n <= maxPeople && via == wire.TicketChat
}

// Good reports whether something can be decided with it still, as far as it says
// itself.
func (b *Book) Good(t *Ticket) bool { return t.Used == "" && b.now().Before(t.ExpiresAt) }

// Use is an attempt to decide with a token.
type Use struct {
	Token string
	// Via is the door: a ticket of another one does not open it.
	Via string
	// Person is who decides; empty where the ticket has one person only.
	Person string
	// From is where the attempt came from.
	From string
	// Key is the interaction that is meant, where the door says so.
	Key string
	// Tenant is whose notifier brings it, where one does.
	Tenant string
	// AsTold: what is decided is the request as it was when the ticket was made.
	AsTold bool
	hitl.Response
}

// Decide decides with a token. It takes deny or allow, and a message.
func (b *Book) Decide(ctx context.Context, u Use) wire.Receipt {
	rec := b.decide(ctx, u)
	for range casTries {
		if rec != nil {
			break
		}
		rec = b.decide(ctx, u) // another use was faster: see what it was
	}
	if rec == nil {
		rec = &wire.Receipt{Receipt: hitl.Receipt{Status: hitl.Unavailable, Error: "this cannot be decided now; try again"}}
	}
	rec.Type, rec.Ref = wire.TypeReceipt, u.Ref
	return *rec
}

// decide makes one attempt; nil: another use of the token was faster.
func (b *Book) decide(ctx context.Context, u Use) *wire.Receipt {
	told := func(status hitl.Status, words string) *wire.Receipt {
		return &wire.Receipt{Receipt: hitl.Receipt{Status: status, Error: words}}
	}
	t, rev, err := b.read(ctx, u.Token)
	switch {
	case errors.Is(err, ErrUnknown):
		return told(hitl.Forbidden, "the token is unknown or has expired")
	case err != nil:
		b.log.Warn("ticket not read", "error", err)
		return told(hitl.Unavailable, "this cannot be decided now; try again")
	case t.Via != u.Via || u.Key != "" && u.Key != t.Key || u.Tenant != "" && !strings.HasPrefix(t.Key, u.Tenant+"."):
		return told(hitl.Forbidden, "the token is for something else")
	case u.Decision != hitl.VerbAllow && u.Decision != hitl.VerbDeny:
		return &wire.Receipt{Receipt: api.Invalid(hitl.Invalid("decision", "must be allow or deny"))}
	case !u.AsTold && u.Digest != t.Digest:
		return told(hitl.DigestMismatch, "this is not the request that was told; nothing was decided")
	}
	if t.DenyOnly && u.Decision == hitl.VerbAllow {
		return told(hitl.Forbidden, "this is too long or too grave to be approved by a button: open it")
	}
	if u.AsTold {
		u.Digest = t.Digest
		if u.Decision == hitl.VerbAllow {
			u.Shown = t.Shown // it stood above the button, whole
		}
	}
	if u.Person == "" && len(t.People) == 1 {
		u.Person = t.People[0]
	}
	if !slices.Contains(t.People, u.Person) {
		return told(hitl.Forbidden, "the token is for somebody else")
	}
	who, may, err := b.o.People.Who(ctx, u.Person)
	if err != nil {
		b.log.Warn("rights not looked up", "error", err)
		return told(hitl.Unavailable, "this cannot be decided now; try again")
	}
	attempt := func() *wire.Receipt {
		rec := b.o.Engine.Decide(ctx, api.Attempt{
			Response: hitl.Response{
				Ref: u.Ref, RequestID: t.Key, Digest: u.Digest, Shown: u.Shown, Decision: u.Decision, Message: u.Message,
			},
			Principal: who, Rights: may, Channel: t.Via + ":" + t.Channel, Assurance: assurance(t.Via), From: u.From,
		})
		return &rec
	}
	switch {
	case t.Used == u.Decision && t.UsedBy == u.Person:
		return attempt() // said again: the receipt may have got lost
	case t.Used != "" || !b.now().Before(t.ExpiresAt):
		// What is decided is refused by the engine, with the words for it.
		if ix, err := b.o.Engine.Interaction(ctx, t.Key); err == nil && ix.State == wire.StateClosed {
			return attempt()
		}
		return told(hitl.Forbidden, "the token was used already, or has expired")
	}
	mine := *t
	mine.Used, mine.UsedBy = u.Decision, u.Person
	rev, err = b.swap(ctx, u.Token, mine, rev)
	switch {
	case errors.Is(err, errLost):
		return nil
	case err != nil:
		b.log.Warn("ticket not stored", "error", err)
		return told(hitl.Unavailable, "this cannot be decided now; try again")
	}
	rec := attempt()
	switch rec.Status {
	case hitl.Forbidden, hitl.BadInput, hitl.DigestMismatch:
		// Nothing was decided, so that something else still can be.
		if _, err := b.swap(context.WithoutCancel(ctx), u.Token, *t, rev); err != nil {
			b.log.Warn("a ticket stays used whose decision was refused", "interaction", t.Key, "error", err)
		}
	}
	return rec
}

// errLost: the ticket is not of the revision any more.
var errLost = errors.New("another use was faster")

// swap stores a ticket at its revision and returns the new one.
func (b *Book) swap(ctx context.Context, token string, t Ticket, rev uint64) (uint64, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	next, err := b.kv.Update(ctx, hash(token), data, rev)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return 0, errLost
	}
	return next, err
}
