// Package push sends alerts to browsers, which show them as notifications whether a
// page is open or not. Whoever is told is a user of the gateway, which knows the
// user's browsers; a browser that is gone is forgotten there.
//
// What is sent is encrypted for the browser, so its push service reads nothing but
// how urgent it is and when it ends. A later message about the same request takes the
// place of an earlier one, on the way (Topic) and on the screen (tag), so that sending
// again shows nothing twice.
//
//	https://www.rfc-editor.org/rfc/rfc8030 (the request)
//	https://www.rfc-editor.org/rfc/rfc8188, rfc8291 (the encryption)
//	https://www.rfc-editor.org/rfc/rfc8292 (who sends)
package push

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// Gateway knows the browsers of users; *bus.Client is one.
type Gateway interface {
	Call(ctx context.Context, verb string, in, out any) error
}

const (
	// endKeep is how long a push service keeps the word that something is over, and
	// longKeep what has no deadline.
	endKeep  = 6 * time.Hour
	longKeep = 7 * 24 * time.Hour
	// atOnce bounds the pushes under way of one alert.
	atOnce = 32
	// maxTaken bounds what is remembered of messages that only some browsers took.
	maxTaken = 1000
)

// Options wire a Channel.
type Options struct {
	// Key is the key of pushes, from the credentials; Gateway is asked for browsers.
	// They are called late: a configuration is checked without them.
	Key     func() string
	Gateway func() Gateway
	Clock   func() time.Time
	// Contact is where push services reach whoever runs this: mailto: or https:.
	Contact string
	// Redact are the risks at which a message says nothing but that something waits.
	Redact       []string
	AllowPrivate bool
}

// Channel sends to the browsers of users.
type Channel struct {
	o      Options
	client *web.Client

	mu    sync.Mutex
	taken map[string][]string // browsers that have an alert, by its id, while others have not
}

var _ channel.Updater = (*Channel)(nil)

// New checks the options. The error, if any, is a *channel.FieldError.
func New(o Options) (*Channel, error) {
	if o.Contact != "" {
		u, err := url.Parse(o.Contact)
		if err != nil || u.Scheme != "mailto" && u.Scheme != "https" {
			return nil, &channel.FieldError{Field: "from", Problem: "must begin with mailto: or https://"}
		}
	}
	for _, r := range o.Redact {
		if !slices.Contains([]string{"low", "medium", "high", "critical"}, r) {
			return nil, &channel.FieldError{Field: "redact", Problem: "are risks: low, medium, high or critical"}
		}
	}
	return &Channel{o: o, client: web.New(o.AllowPrivate), taken: map[string][]string{}}, nil
}

// CheckTo says what is wrong with a user's id; empty: nothing.
func CheckTo(to string) string {
	switch {
	case to == wire.Everybody:
		return "is everybody's sign, which counts with a channel where there are no routes: name a person"
	case !subject.ValidToken(to):
		return "not the id of a user: give the recipient a user, or the channel a to"
	}
	return ""
}

// Close ends the connections that are kept for later.
func (c *Channel) Close() { c.client.Close() }

// Message is what the service worker reads.
type Message struct {
	V    int    `json:"v"`
	Type string `json:"type"` // the last part of the alert's
	// Key is the interaction's, where there is one.
	Key string `json:"key,omitempty"`
	// Tag names the notification: another one of it takes its place.
	Tag   string `json:"tag"`
	Title string `json:"title"`
	Body  string `json:"body,omitempty"`
	// Risk is low, medium, high or critical.
	Risk string `json:"risk,omitempty"`
	// Until is when it is too late, in milliseconds since 1970.
	Until int64 `json:"until,omitempty"`
	// Token and Actions are there where a button may decide.
	Token   string   `json:"token,omitempty"`
	Actions []string `json:"actions,omitempty"`
	// Link is there for what has no key.
	Link string `json:"link,omitempty"`
}

// compose makes the message, as long as a push can be.
func (c *Channel) compose(a *channel.Alert) ([]byte, error) {
	w := words.Of(a)
	m := Message{V: 1, Type: a.Type[strings.LastIndex(a.Type, ".")+1:], Tag: Topic(a), Title: w.Head, Risk: a.Data.Risk, Link: a.Data.Link}
	ref, one := subject.ParseRef(a.Key)
	if one {
		m.Key = ref.String()
	}
	if at := a.Data.ExpiresAt; at != nil && a.Type != channel.Closed {
		m.Until = at.UnixMilli()
	}
	if slices.Contains(c.o.Redact, a.Data.Risk) && a.Type != channel.Digest {
		m.Title = "A request with " + a.Data.Risk + " risk waits for you"
		if a.Type == channel.Closed {
			m.Title = words.Outcome(&a.Data)
		}
		return hitl.Marshal(m)
	}
	var body []string
	if act := a.Act; act != nil {
		m.Token = act.Token
		m.Actions = []string{hitl.VerbDeny}
		// A button to approve stands only where all that it lets go on is above it, on
		// the few lines that a system shows.
		if act.Allow && fits(act.Text) {
			m.Actions = append(m.Actions, hitl.VerbAllow)
			body = append(body, act.Text)
		}
	}
	if w.Quote != "" {
		body = append(body, "In the agent's words: "+w.Quote)
	}
	for _, f := range w.Facts {
		body = append(body, f.Name+": "+f.Value)
	}
	m.Body = strings.Join(body, "\n")
	return hitl.Marshal(m)
}

// What is sure to be seen of a notification that is unfolded.
const (
	maxLines = 4
	maxWidth = 40 // characters of a line before it is broken
)

// fits reports whether all of a text is sure to be seen as it is. That is only known of
// printable ASCII: others are wider than one, look like it, or turn around what is beside.
func fits(text string) bool {
	lines := 0
	for line := range strings.SplitSeq(text, "\n") {
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			return false
		}
		lines += max(1, (len(line)+maxWidth-1)/maxWidth)
	}
	return lines <= maxLines
}

// Topic names what a message is about, in at most 32 characters of base64url; a later
// one replaces an earlier one of it.
func Topic(a *channel.Alert) string {
	about := a.Key
	if a.Type == channel.Digest {
		about = "digest " + a.Data.Recipient
	}
	sum := sha256.Sum256([]byte(about))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}

// urgency is how much a phone's battery may be used for it.
func urgency(a *channel.Alert) string {
	switch {
	case a.Type == channel.Closed:
		return "low"
	case a.Data.Risk == "high" || a.Data.Risk == "critical" || a.Type == channel.Reminder:
		return "high"
	}
	return "normal"
}

// keep is for how long a push service keeps it for a browser that is away.
func (c *Channel) keep(a *channel.Alert) time.Duration {
	switch at := a.Data.ExpiresAt; {
	case a.Type == channel.Closed:
		return endKeep
	case at != nil:
		return max(at.Sub(c.o.Clock()), 0)
	}
	return longKeep
}

// Send sends to all browsers of the user that have not taken it yet.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	key := c.o.Key()
	if key == "" {
		return channel.Receipt{}, &channel.Problem{Text: "the notifier's credentials have no key for pushes: write them anew (banksman creds)", Class: channel.Refused}
	}
	s, err := newSigner(key, c.o.Contact)
	if err != nil {
		return channel.Receipt{}, &channel.Problem{Text: err.Error(), Class: channel.Refused}
	}
	text, err := c.compose(&a)
	if err != nil {
		return channel.Receipt{}, &channel.Problem{Text: "the message cannot be encoded", Class: channel.Refused}
	}
	browsers, err := c.browsers(ctx, &a, nil)
	if err != nil {
		return channel.Receipt{}, err
	}
	if len(browsers) == 0 {
		return channel.Receipt{}, &channel.Problem{Text: "no browser of " + whose(&a) + " wants pushes (Settings, Notify this browser)", Class: channel.Refused, Idle: true}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	results := make([]error, len(browsers))
	have := c.have(a.ID)
	for i, b := range browsers {
		if slices.Contains(have, b.ID) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = c.push(ctx, s, &a, b, text)
		})
	}
	wg.Wait()
	return c.sum(ctx, &a, browsers, results)
}

// sum makes one word of what came of all browsers.
func (c *Channel) sum(ctx context.Context, a *channel.Alert, browsers []wire.PushTarget, results []error) (channel.Receipt, error) {
	var took, gone []string
	var later, refused *channel.Problem
	for i, err := range results {
		var p *channel.Problem
		switch {
		case err == nil:
			took = append(took, browsers[i].ID)
		case errors.As(err, &p) && p.Class == channel.Gone:
			gone = append(gone, browsers[i].ID)
		case errors.As(err, &p) && p.Class == channel.Refused:
			refused = p
		case errors.As(err, &p):
			if later == nil || p.RetryAfter > later.RetryAfter {
				later = p
			}
		default:
			later = &channel.Problem{Text: "the push could not be made"}
		}
	}
	if len(gone) > 0 {
		// What is not forgotten now is told to be gone once more.
		_, _ = c.browsers(ctx, a, gone)
	}
	said := fmt.Sprintf("taken for %d of %d browsers", len(took), len(browsers)-len(gone))
	if later != nil {
		c.remember(a.ID, took)
		later.Text = said + "; " + later.Text
		return channel.Receipt{}, later
	}
	c.forget(a.ID)
	switch {
	case len(took) > 0 && refused != nil:
		said += "; " + refused.Text
	case len(took) > 0:
	case refused != nil:
		return channel.Receipt{}, refused
	default:
		return channel.Receipt{}, &channel.Problem{Text: "no browser of " + whose(a) + " takes pushes any more", Class: channel.Refused, Idle: true}
	}
	return channel.Receipt{Ref: "browsers", Said: said}, nil
}

// Update has the notification say how it ended.
func (c *Channel) Update(ctx context.Context, _ channel.Receipt, a channel.Alert) (channel.Receipt, error) {
	return c.Send(ctx, a)
}

// browsers are those that are to be told; gone are some that are to be forgotten before.
func (c *Channel) browsers(ctx context.Context, a *channel.Alert, gone []string) ([]wire.PushTarget, error) {
	var out wire.PushReply
	call := wire.PushCall{User: a.To, Gone: gone}
	if ref, one := subject.ParseRef(a.Key); one && a.To == wire.Everybody {
		call.Key = ref.String()
	}
	if err := c.o.Gateway().Call(ctx, wire.VerbPush, call, &out); err != nil {
		return nil, &channel.Problem{Text: "the gateway does not tell the browsers of " + whose(a) + ": " + err.Error()}
	}
	return out.Browsers, nil
}

func whose(a *channel.Alert) string {
	switch {
	case a.To != wire.Everybody:
		return a.To
	case a.Type == channel.Test:
		return "anybody"
	}
	return "anybody who may decide this"
}

// push makes one push.
func (c *Channel) push(ctx context.Context, s *signer, a *channel.Alert, b wire.PushTarget, text []byte) error {
	u, fe := web.Check("endpoint", b.Endpoint, c.o.AllowPrivate)
	if fe != nil {
		return &channel.Problem{Text: fe.Error(), Class: channel.Refused}
	}
	r, err := readReceiver(b.P256dh, b.Auth)
	if err != nil {
		return &channel.Problem{Text: err.Error(), Class: channel.Refused}
	}
	body, err := r.encrypt(text)
	if err != nil {
		return &channel.Problem{Text: err.Error(), Class: channel.Refused}
	}
	by, err := s.authorize(u, c.o.Clock())
	if err != nil {
		return &channel.Problem{Text: err.Error(), Class: channel.Refused}
	}
	head := http.Header{
		"Authorization": {by}, "Content-Encoding": {"aes128gcm"}, "Content-Type": {"application/octet-stream"},
		"Ttl": {strconv.FormatInt(int64(c.keep(a)/time.Second), 10)}, "Topic": {Topic(a)}, "Urgency": {urgency(a)},
	}
	resp, err := c.client.Call(ctx, http.MethodPost, u.String(), head, body)
	if err != nil {
		return err
	}
	p := resp.Problem()
	switch {
	case p == nil:
		return nil
	case resp.Status == http.StatusNotFound: // as 410: the subscription ended (RFC 8030, section 7.3)
		p.Class = channel.Gone
	}
	return p
}

func (c *Channel) have(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.taken[id])
}

// remember keeps who has an alert already, so that another attempt goes to the rest.
// What is lost of it is sent again, and shown once all the same.
func (c *Channel) remember(id string, took []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.taken) >= maxTaken {
		clear(c.taken)
	}
	c.taken[id] = took
}

func (c *Channel) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.taken, id)
}

// Local reports whether a page's address is on this machine alone, where who signs in is
// at the machine.
func Local(base string) bool {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return false
	}
	at, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && at.IsLoopback()
}

// Contact is what push services are told: the address of the configuration, or the
// page's own.
func Contact(from, base string) string {
	if strings.HasPrefix(base, "https://") {
		return cmp.Or(from, base)
	}
	return from
}
