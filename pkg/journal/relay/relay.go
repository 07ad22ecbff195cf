// Package relay stands between the owners and the stream that all of them share:
// what they say of their sessions gets there if a gateway admits it, so that one
// owner's flood is refused and not stored.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	// maxUnderWay and maxBytesUnderWay bound what the server has not acknowledged
	// of one owner: whoever else says something waits behind no more than that.
	// A stream takes in four times as much (package natsd).
	maxUnderWay      = 256
	maxBytesUnderWay = 8 << 20
	// forget is after which time nobody waits for an acknowledgement any more.
	forget = 10 * time.Second
	// closeWait bounds how long Close waits.
	closeWait = 3 * time.Second
	// pendingBytes may wait in this process until they are looked at.
	pendingBytes = 64 << 20
	// Overhead is counted for each message besides its body: the longest subject,
	// headers, and what the server stores with it, in bytes.
	Overhead = 768
	queue    = "relay"
	// The server's own words: for too much under way, after which one tries again,
	// and for a message that is too large.
	codeTooMany, codeTooLarge = 10167, 10054
)

// HeaderVia names the relay that a stored message came through.
const HeaderVia = "Hitl-Via"

// passed are the headers that are stored. Others could mean something to the server
// or to a reader, and now a gateway is who publishes them.
var passed = []struct {
	name string
	most int // bytes of its value
}{{expect, 20}, {expectAmong, 240}, {wire.HeaderHold, 64}}

const (
	expect      = "Nats-Expected-Last-Subject-Sequence"
	expectAmong = "Nats-Expected-Last-Subject-Sequence-Subject"
)

// Options wire a Relay.
type Options struct {
	// Conn has a gateway's rights. It is the caller's, and best not used for
	// anything else: what owners say can be much.
	Conn *nats.Conn
	// Admit says no with an error, which its sender is told, to a message that
	// takes size bytes. It is called for one message at a time; nil admits all.
	Admit func(at subject.Parsed, size int) error
	// Name goes into HeaderVia.
	Name   string
	Logger *slog.Logger // nil discards
}

// Relay passes on what owners say of their sessions.
type Relay struct {
	o       Options
	in, out *nats.Subscription
	inbox   string // acknowledgements come below it
	drained chan struct{}
	stop    chan struct{} // closed by Close
	swept   chan struct{} // closed when the sweeping goroutine ended

	mu     sync.Mutex
	last   uint64
	flight map[string]flight
	owners map[owner]*load
	idle   func() // called when nothing is under way any more; nil: nobody waits for it
}

type owner struct{ tenant, name string }

// load is what is under way of one owner.
type load struct{ messages, bytes int }

// flight is a message that the server has not acknowledged.
type flight struct {
	owner owner
	size  int
	reply string // of its sender; empty: it does not care
	since time.Time
}

// Start begins to pass on; the caller ends it with Close. All relays share the
// work.
func Start(o Options) (r *Relay, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r = &Relay{
		o: o, inbox: o.Conn.NewInbox() + ".", drained: make(chan struct{}), stop: make(chan struct{}), swept: make(chan struct{}),
		flight: map[string]flight{}, owners: map[owner]*load{},
	}
	if r.out, err = o.Conn.Subscribe(r.inbox+"*", r.answered); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	if r.in, err = o.Conn.QueueSubscribe(subject.Said("hitl.>"), queue, r.pass); err != nil {
		_ = r.out.Unsubscribe()
		return nil, fmt.Errorf("relay: %w", err)
	}
	r.in.SetClosedHandler(func(string) { close(r.drained) })
	err = errors.Join(r.in.SetPendingLimits(-1, pendingBytes), r.out.SetPendingLimits(-1, -1))
	if err != nil {
		_, _ = r.in.Unsubscribe(), r.out.Unsubscribe()
		return nil, fmt.Errorf("relay: %w", err)
	}
	go r.sweep()
	return r, nil
}

// Close takes nothing new, and waits for a moment until what it passed on is
// acknowledged.
func (r *Relay) Close() {
	limit, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if r.in.Drain() == nil {
		select {
		case <-r.drained:
		case <-limit.Done():
		}
	}
	idle := make(chan struct{})
	r.mu.Lock()
	r.idle = sync.OnceFunc(func() { close(idle) })
	if len(r.flight) == 0 {
		r.idle()
	}
	r.mu.Unlock()
	select {
	case <-idle:
	case <-limit.Done():
	}
	_ = r.out.Unsubscribe() // the connection may be gone already
	close(r.stop)
	<-r.swept
}

// pass takes one message. Messages come one at a time, and go on in their order.
func (r *Relay) pass(m *nats.Msg) {
	// The server takes a client's word for where an answer goes. What crosses
	// accounts has the server's own address.
	if m.Reply != "" && !strings.HasPrefix(m.Reply, "_R_.") {
		return
	}
	sub := subject.Meant(m.Subject)
	at, err := subject.Parse(sub)
	if err == nil && at.Kind != "evt" && at.Kind != "ses" && at.Kind != "ack" {
		err = fmt.Errorf("nothing is said there: %q", sub)
	}
	header, headerErr := r.header(m.Header, at)
	if err = errors.Join(err, headerErr); err != nil {
		r.refuse(m, wire.CodeRefused, err)
		return
	}
	who, size := owner{at.Tenant, at.Owner}, len(m.Data)+Overhead
	token, ok := r.depart(flight{owner: who, size: size, reply: m.Reply, since: time.Now()})
	if !ok {
		r.refuse(m, codeTooMany, errors.New("too many requests"))
		return
	}
	if r.o.Admit != nil {
		if err := r.o.Admit(at, size); err != nil {
			r.arrive(token)
			r.refuse(m, wire.CodeQuota, err)
			return
		}
	}
	err = r.o.Conn.PublishMsg(&nats.Msg{Subject: sub, Reply: r.inbox + token, Header: header, Data: m.Data})
	if err != nil {
		r.arrive(token)
	}
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		r.refuse(m, codeTooLarge, err)
	case err != nil: // its sender hears nothing, and tries again
		r.o.Logger.Debug("not passed on", "subject", sub, "error", err)
	}
}

// header is what is stored of a message's headers.
func (r *Relay) header(h nats.Header, at subject.Parsed) (nats.Header, error) {
	out := nats.Header{}
	if r.o.Name != "" {
		out.Set(HeaderVia, r.o.Name)
	}
	for _, p := range passed {
		v := h.Get(p.name)
		if v == "" {
			continue
		}
		if len(v) > p.most {
			return nil, fmt.Errorf("header %s is %d bytes, the limit is %d", p.name, len(v), p.most)
		}
		if p.name == expectAmong {
			// The server's answer would tell of others.
			if t := strings.Split(v, "."); len(t) < 5 || t[2] != at.Tenant || t[3] != at.Owner {
				return nil, fmt.Errorf("header %s: %q is not this owner's", p.name, v)
			}
		}
		out.Set(p.name, v)
	}
	return out, nil
}

func (r *Relay) refuse(m *nats.Msg, code int, why error) {
	if m.Reply == "" {
		return
	}
	status := http.StatusTooManyRequests
	if code == wire.CodeRefused || code == codeTooLarge {
		status = http.StatusBadRequest
	}
	raw, err := hitl.Marshal(map[string]any{ // as the server writes it
		"error": map[string]any{"code": status, "err_code": code, "description": why.Error()},
	})
	if err == nil {
		err = r.o.Conn.Publish(m.Reply, raw)
	}
	if err != nil {
		r.o.Logger.Debug("refusal not sent", "error", err)
	}
}

// depart counts a message as under way, unless its owner has too much there.
func (r *Relay) depart(f flight) (token string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.owners[f.owner]
	if l == nil {
		l = &load{}
		r.owners[f.owner] = l
	}
	if l.messages >= maxUnderWay || l.bytes+f.size > maxBytesUnderWay {
		return "", false
	}
	l.messages++
	l.bytes += f.size
	r.last++
	token = strconv.FormatUint(r.last, 36)
	r.flight[token] = f
	return token, true
}

func (r *Relay) arrive(token string) (f flight, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok = r.flight[token]; ok {
		r.land(token, f)
	}
	return f, ok
}

// land is called with the lock held.
func (r *Relay) land(token string, f flight) {
	delete(r.flight, token)
	l := r.owners[f.owner]
	l.messages--
	l.bytes -= f.size
	if l.messages == 0 {
		delete(r.owners, f.owner)
	}
	if r.idle != nil && len(r.flight) == 0 {
		r.idle()
	}
}

// answered takes the server's word to its sender, whatever it is.
func (r *Relay) answered(m *nats.Msg) {
	f, ok := r.arrive(strings.TrimPrefix(m.Subject, r.inbox))
	if !ok || f.reply == "" {
		return
	}
	if err := r.o.Conn.PublishMsg(&nats.Msg{Subject: f.reply, Header: m.Header, Data: m.Data}); err != nil {
		r.o.Logger.Debug("acknowledgement not passed on", "error", err)
	}
}

// sweep forgets what was never acknowledged.
func (r *Relay) sweep() {
	defer close(r.swept)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
		}
		r.mu.Lock()
		for token, f := range r.flight {
			if time.Since(f.since) > forget {
				r.land(token, f)
			}
		}
		r.mu.Unlock()
	}
}
