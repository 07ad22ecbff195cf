package journal

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

// puller asks a consumer for messages, one pull after another, and tells the
// stored messages from the server's own words: a stored message is delivered
// with an ack subject as its reply, and no stored header can change that.
type puller struct {
	nc     *nats.Conn
	next   string // where pulls go
	inbox  string // each pull has a subject of its own below it
	sub    *nats.Subscription
	msgs   chan *nats.Msg   // never closed
	status chan nats.Status // closed by close
	pull   []byte
	batch  int

	n     uint64    // pulls so far
	open  int       // what the latest pull may still deliver
	asked time.Time // when it was sent
	got   bool      // whether it delivered anything
	timer *time.Timer
}

// what a puller saw.
type signal int

const (
	message     signal = iota
	heartbeat          // the consumer is alive and has nothing to send
	ended              // the pull is over, for whatever reason
	gone               // the consumer does not exist, or cannot be reached
	silent             // no sign of life
	reconnected        // messages may be lost on the way
	closed             // the connection is closed for good
	done               // ctx has ended
)

func newPuller(nc *nats.Conn, stream, consumer string, batch int) (*puller, error) {
	pull, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		MaxBytes  int           `json:"max_bytes"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}{batch, pullBytes, pullExpires, pullHeartbeat})
	if err != nil {
		return nil, err
	}
	p := &puller{
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

func (p *puller) close() {
	p.timer.Stop()
	p.nc.RemoveStatusListener(p.status)
	_ = p.sub.Unsubscribe() // fails on a closed connection only
}

// request sends the next pull.
func (p *puller) request() error {
	p.n++
	p.open = p.batch
	p.asked, p.got = time.Now(), false
	return p.nc.PublishRequest(p.next, p.inbox+"."+strconv.FormatUint(p.n, 10), p.pull)
}

// quick reports whether the latest pull delivered nothing and lasted so short
// that repeating it at once would be a busy loop.
func (p *puller) quick() bool {
	return !p.got && time.Since(p.asked) < 100*time.Millisecond
}

// receive waits for the next thing to know; m and meta belong to message.
func (p *puller) receive(ctx context.Context) (*nats.Msg, meta, signal) {
	for {
		// What has arrived comes before any doubt about what has not.
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
			return nil, meta{}, done
		case m := <-p.msgs:
			if m, meta, s, ok := p.sort(m); ok {
				return m, meta, s
			}
		case s := <-p.status:
			if s == nats.CLOSED {
				return nil, meta{}, closed
			}
			return nil, meta{}, reconnected
		case <-p.timer.C:
			if p.nc.IsClosed() {
				return nil, meta{}, closed
			}
			return nil, meta{}, silent
		}
	}
}

// sort tells what m is; ok is false for what means nothing.
func (p *puller) sort(m *nats.Msg) (*nats.Msg, meta, signal, bool) {
	if strings.HasPrefix(m.Reply, ackPrefix) {
		mt, err := parseMeta(m.Reply)
		if err != nil {
			// Only a server that changed its protocol does this.
			return nil, meta{}, silent, true
		}
		p.open--
		p.got = true
		return m, mt, message, true
	}
	// The server's word is addressed to the pull it is about.
	if m.Subject != p.inbox+"."+strconv.FormatUint(p.n, 10) {
		return nil, meta{}, 0, false
	}
	code := m.Header.Get("Status")
	if code == "100" {
		return nil, meta{}, heartbeat, true
	}
	if code == "503" || code == "409" && m.Header.Get("Description") == "Consumer Deleted" {
		return nil, meta{}, gone, true
	}
	p.open = 0 // it delivers nothing more, whatever it was asked for
	return nil, meta{}, ended, true
}
