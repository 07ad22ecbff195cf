package pull

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Of every pull.
const (
	pullExpires   = 30 * time.Second
	pullHeartbeat = time.Second // the server's, while nothing else is to send
	pullSilence   = 5 * pullHeartbeat / 2
	pullBytes     = 8 << 20 // more than the largest message
)

// Puller asks a consumer for messages, one pull after another, and tells the
// stored messages from the server's own words: a stored message is delivered
// with an ack subject as its reply, and no stored header can change that.
type Puller struct {
	nc     *nats.Conn
	next   string // where pulls go
	inbox  string // each pull has a subject of its own below it
	sub    *nats.Subscription
	msgs   chan *nats.Msg   // never closed
	status chan nats.Status // closed by Close
	pull   []byte
	batch  int

	ahead []*nats.Msg // seen by Ahead and not yet by Receive

	n     uint64    // pulls so far
	open  int       // what the latest pull may still deliver
	asked time.Time // when it was sent
	got   bool      // whether it delivered anything
	timer *time.Timer
}

// Signal is what a Puller saw.
type Signal int

// The signals.
const (
	Message     Signal = iota
	Heartbeat          // the consumer is alive and has nothing to send
	Ended              // the pull is over, for whatever reason
	Gone               // the consumer does not exist, or cannot be reached
	Silent             // no sign of life
	Reconnected        // messages may be lost on the way
	Closed             // the connection is closed for good
	Done               // ctx has ended
)

// New listens for what the consumer will deliver; nothing is asked for before
// Request. batch is how many messages a pull may deliver.
func New(nc *nats.Conn, stream, consumer string, batch int) (*Puller, error) {
	pull, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		MaxBytes  int           `json:"max_bytes"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{batch, pullBytes, pullExpires, pullHeartbeat})
	if err != nil {
		return nil, err
	}
	p := &Puller{
		nc: nc, next: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
		inbox: nc.NewInbox(), pull: pull, batch: batch,
		// Two pulls, and heartbeats for as long as a slow handler may take.
		msgs: make(chan *nats.Msg, 2*batch+1024),
	}
	if p.sub, err = nc.ChanSubscribe(p.inbox+".*", p.msgs); err != nil {
		return nil, fmt.Errorf("journal: subscribe: %w", err)
	}
	p.status = nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	p.timer = time.NewTimer(pullSilence)
	return p, nil
}

// Close ends listening.
func (p *Puller) Close() {
	p.timer.Stop()
	p.nc.RemoveStatusListener(p.status)
	_ = p.sub.Unsubscribe() // fails on a closed connection only
}

// Request sends the next pull.
func (p *Puller) Request() error {
	p.n++
	p.open = p.batch
	p.asked, p.got = time.Now(), false
	return p.nc.PublishRequest(p.next, p.inbox+"."+strconv.FormatUint(p.n, 10), p.pull)
}

// Quick reports whether the latest pull delivered nothing and lasted so short
// that repeating it at once would be a busy loop.
func (p *Puller) Quick() bool {
	return !p.got && time.Since(p.asked) < 100*time.Millisecond
}

// Receive waits for the next thing to know; m and meta belong to Message.
func (p *Puller) Receive(ctx context.Context) (*nats.Msg, Meta, Signal) {
	for {
		// What has arrived comes before any doubt about what has not.
		if len(p.ahead) > 0 {
			m := p.ahead[0]
			p.ahead = p.ahead[1:]
			if m, meta, s, ok := p.sort(m); ok {
				return m, meta, s
			}
			continue
		}
		select {
		case m := <-p.msgs:
			if m, meta, s, ok := p.sort(m); ok {
				return m, meta, s
			}
			continue
		default:
		}
		p.timer.Reset(pullSilence)
		select {
		case <-ctx.Done():
			return nil, Meta{}, Done
		case m := <-p.msgs:
			if m, meta, s, ok := p.sort(m); ok {
				return m, meta, s
			}
		case s := <-p.status:
			if s == nats.CLOSED {
				return nil, Meta{}, Closed
			}
			return nil, Meta{}, Reconnected
		case <-p.timer.C:
			if p.nc.IsClosed() {
				return nil, Meta{}, Closed
			}
			return nil, Meta{}, Silent
		}
	}
}

// sort tells what m is; ok is false for what means nothing.
func (p *Puller) sort(m *nats.Msg) (*nats.Msg, Meta, Signal, bool) {
	if strings.HasPrefix(m.Reply, ackPrefix) {
		mt, err := ParseMeta(m.Reply)
		if err != nil {
			// Only a server that changed its protocol does this.
			return nil, Meta{}, Silent, true
		}
		p.open--
		p.got = true
		return m, mt, Message, true
	}
	// The server's word is addressed to the pull it is about.
	if m.Subject != p.inbox+"."+strconv.FormatUint(p.n, 10) {
		return nil, Meta{}, 0, false
	}
	code := m.Header.Get("Status")
	if code == "100" {
		return nil, Meta{}, Heartbeat, true
	}
	if code == "503" || code == "409" && m.Header.Get("Description") == "Consumer Deleted" {
		return nil, Meta{}, Gone, true
	}
	p.open = 0 // it delivers nothing more, whatever it was asked for
	return nil, Meta{}, Ended, true
}

// Over reports that the latest pull delivers nothing more.
func (p *Puller) Over() bool { return p.open <= 0 }

// Waiting reports whether something has come that Receive did not return yet.
func (p *Puller) Waiting() bool { return len(p.ahead)+len(p.msgs) > 0 }

// Ahead calls fn for the messages that have come and that neither Receive has
// returned nor Ahead has named yet.
func (p *Puller) Ahead(fn func(*nats.Msg)) {
	for {
		select {
		case m := <-p.msgs:
			p.ahead = append(p.ahead, m)
			if strings.HasPrefix(m.Reply, ackPrefix) {
				fn(m)
			}
		default:
			return
		}
	}
}

// Dead reports whether the connection is closed for good.
func (p *Puller) Dead() bool { return p.nc.IsClosed() }

// GiveBack ends the pull that is waiting and calls fn for what it delivered, so
// that another process need not wait for it.
func (p *Puller) GiveBack(fn func(*nats.Msg)) {
	if p.sub.Drain() != nil || p.nc.FlushTimeout(time.Second) != nil {
		return // the server will find out by itself
	}
	p.Ahead(func(*nats.Msg) {})
	for _, m := range p.ahead {
		if _, _, sig, ok := p.sort(m); ok && sig == Message {
			fn(m)
		}
	}
}
