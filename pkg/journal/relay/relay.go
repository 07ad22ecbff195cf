// Package relay stands between the owners and the streams that all of them share:
// what they ask gets there one after the other, each owner in its turn, and what they
// say of their sessions if a gateway admits it, so that one owner's flood is its own.
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
	"github.com/banksman/banksman/pkg/trace"
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
	// And for a message that expects to be the first under its subject, and is not; the
	// other one also for a full stream.
	codeWrongLast, codeStoreFailed = 10071, 10077
	// maxHeaders bounds what a message says in headers, in bytes, whatever is kept of it.
	// As much again may be said of a trace, which fails nothing.
	maxHeaders = 4 << 10
)

// HeaderVia names the relay that a stored message came through.
const HeaderVia = "Hitl-Via"

// passed are the headers that are stored. Others could mean something to the server
// or to a reader, and now a gateway is who publishes them.
var passed = []struct {
	name string
	most int // bytes of its value
}{{expect, 20}, {expectAmong, 240}, {wire.HeaderHold, 64}, {hitl.HeaderAttempt, 20}, {hitl.HeaderWorker, 1024}}

const (
	expect      = "Nats-Expected-Last-Subject-Sequence"
	expectAmong = "Nats-Expected-Last-Subject-Sequence-Subject"
)

// Options wire a Relay.
type Options struct {
	// Conn has a gateway's rights. It is the caller's, and best not used for
	// anything else: what owners say can be much.
	Conn *nats.Conn
	// Admit says no with an error, which its sender is told, to something told of a
	// session that takes size bytes. It is called for one message at a time; nil admits all.
	Admit func(at subject.Parsed, size int) error
	// Behind reports that more requests are stored than the gateways keep up with:
	// the others wait for their turn meanwhile. It is called often; nil is never.
	Behind func() bool
	// Name goes into HeaderVia.
	Name   string
	Logger *slog.Logger // nil discards
}

// Relay passes on what owners ask, and what they say of their sessions.
type Relay struct {
	o       Options
	in, out *nats.Subscription
	inbox   string // acknowledgements come below it
	drained chan struct{}
	stop    chan struct{} // closed by Close
	swept   chan struct{} // closed when the sweeping goroutine ended

	mu      sync.Mutex
	last    uint64
	flight  map[string]flight
	owners  map[owner]*load
	turns   []owner     // those with a letter that may go, the next one first
	letters int         // of all owners, under way
	waiting int         // bytes of all letters that wait
	again   *time.Timer // deliver is called then; nil: nothing is held back
	idle    func()      // called when nothing is under way any more; nil: nobody waits for it
}

type owner struct{ tenant, name string }

// load is what is under way of one owner, and what waits for its turn.
type load struct {
	messages, bytes int
	lettersOut      int // of the messages
	letters         []letter
	waiting         int  // their bytes
	turn            bool // it is among the turns
}

// flight is a message that the server has not acknowledged.
type flight struct {
	owner  owner
	size   int
	reply  string // of its sender; empty: it does not care
	letter bool
	late   bool       // not counted any more
	done   chan error // of a letter that was left; holds one
	since  time.Time
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
	if len(r.owners) == 0 {
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
	asked := at.Kind == "req" || at.Kind == "cxl"
	if err == nil && !asked && at.Kind != "evt" && at.Kind != "ses" && at.Kind != "ack" {
		err = fmt.Errorf("nothing is said there: %q", sub)
	}
	n := m.Size() - len(m.Subject) - len(m.Reply) - len(m.Data)
	if n -= min(trace.Size(m.Header), maxHeaders); err == nil && n > maxHeaders {
		err = fmt.Errorf("the headers are %d bytes, the limit is %d", n, maxHeaders)
	}
	header, headerErr := r.header(m.Header, at)
	if err = errors.Join(err, headerErr); err != nil {
		r.refuse(m.Reply, wire.CodeRefused, err)
		return
	}
	who, size := owner{at.Tenant, at.Owner}, len(m.Data)+Overhead
	if asked {
		l := letter{msg: &nats.Msg{Subject: sub, Header: header, Data: m.Data}, owner: who, size: size, reply: m.Reply}
		if !r.enqueue(l) {
			r.refuseTooMany(m.Reply)
		}
		return
	}
	token, ok := r.depart(flight{owner: who, size: size, reply: m.Reply, since: time.Now()})
	if !ok {
		r.refuseTooMany(m.Reply)
		return
	}
	if r.o.Admit != nil {
		if err := r.o.Admit(at, size); err != nil {
			r.arrive(token)
			r.refuse(m.Reply, wire.CodeQuota, err)
			return
		}
	}
	err = r.o.Conn.PublishMsg(&nats.Msg{Subject: sub, Reply: r.inbox + token, Header: header, Data: m.Data})
	if err != nil {
		r.arrive(token)
	}
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		r.refuse(m.Reply, codeTooLarge, err)
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
	trace.Read(h).Write(out) // it is stored as we write it
	return out, nil
}

// refuseTooMany is refuse as cheap as it gets: it answers floods.
func (r *Relay) refuseTooMany(reply string) {
	if reply == "" {
		return
	}
	if err := r.o.Conn.Publish(reply, tooMany); err != nil {
		r.o.Logger.Debug("refusal not sent", "error", err)
	}
}

var tooMany = []byte(`{"error":{"code":429,"err_code":10167,"description":"too many requests"}}`)

func (r *Relay) refuse(reply string, code int, why error) {
	if reply == "" {
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
		err = r.o.Conn.Publish(reply, raw)
	}
	if err != nil {
		r.o.Logger.Debug("refusal not sent", "error", err)
	}
}

// depart counts a message as under way, unless its owner has too much there.
func (r *Relay) depart(f flight) (token string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.load(f.owner)
	if l.messages >= maxUnderWay || l.bytes+f.size > maxBytesUnderWay {
		r.tidy(f.owner, l)
		return "", false
	}
	return r.departs(f), true
}

// load, departs, lands, uncount and tidy are called with the lock held.
func (r *Relay) load(o owner) *load {
	l := r.owners[o]
	if l == nil {
		l = &load{}
		r.owners[o] = l
	}
	return l
}

func (r *Relay) departs(f flight) (token string) {
	l := r.load(f.owner)
	l.messages++
	l.bytes += f.size
	if f.letter {
		l.lettersOut++
		r.letters++
	}
	r.last++
	token = strconv.FormatUint(r.last, 36)
	r.flight[token] = f
	return token
}

func (r *Relay) arrive(token string) (f flight, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok = r.flight[token]; ok {
		r.lands(token, f)
		r.deliver()
	}
	return f, ok
}

func (r *Relay) lands(token string, f flight) {
	delete(r.flight, token)
	if !f.late {
		r.uncount(f)
	}
}

// uncount makes room for others.
func (r *Relay) uncount(f flight) {
	l := r.owners[f.owner]
	l.messages--
	l.bytes -= f.size
	if f.letter {
		l.lettersOut--
		r.letters--
	}
	r.inTurn(f.owner, l)
	r.tidy(f.owner, l)
}

// tidy forgets an owner of whom nothing is here.
func (r *Relay) tidy(o owner, l *load) {
	if l.messages == 0 && len(l.letters) == 0 {
		delete(r.owners, o)
	}
	if r.idle != nil && len(r.owners) == 0 {
		r.idle()
	}
}

// answered takes the server's word to its sender, whatever it is.
func (r *Relay) answered(m *nats.Msg) {
	f, ok := r.arrive(strings.TrimPrefix(m.Subject, r.inbox))
	switch {
	case ok && f.done != nil:
		f.done <- taken(m.Data)
		return
	case !ok || f.reply == "":
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
			switch age := time.Since(f.since); {
			case age > forget:
				r.lands(token, f)
				if f.done != nil {
					f.done <- errors.New("relay: not acknowledged")
				}
			case f.letter && !f.late && age > late:
				f.late = true
				r.flight[token] = f
				r.uncount(f)
			}
		}
		r.deliver()
		r.mu.Unlock()
	}
}
