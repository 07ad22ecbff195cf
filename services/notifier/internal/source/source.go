// Package source reads the events that say what opens and closes, from the one
// durable consumer that all replicas of a tenant's notifier share.
//
// The notifier's account may pull from that durable and acknowledge, and
// nothing else of the JetStream API, so this is done in the protocol's own
// terms.
package source

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/run"
)

// Of every pull.
const (
	batch     = 64
	expires   = 30 * time.Second
	heartbeat = time.Second // the server's, while it has nothing to send
	silence   = 5 * heartbeat / 2
	workers   = 16
	maxPause  = time.Second
)

const ackPrefix = "$JS.ACK."

// Event is one stored event.
type Event struct {
	Subject string
	Header  map[string][]string // as stored
	Data    []byte
	Seq     uint64
	// Stored is when the server stored it.
	Stored time.Time
}

// Verdict is what becomes of an event.
type Verdict struct {
	word  string
	delay time.Duration
}

// Done acknowledges. Again has the event delivered once more, to any replica.
// Drop refuses an event that can never be handled.
func Done() Verdict                     { return Verdict{word: "+ACK"} }
func Again(after time.Duration) Verdict { return Verdict{word: "-NAK", delay: after} }
func Drop() Verdict                     { return Verdict{word: "+TERM"} }

// Options wire a Source.
type Options struct {
	Logger *slog.Logger
	Conn   *nats.Conn // the caller's
	Stream string
	// Durable is the consumer's name.
	Durable string
	// Handle decides about one event; it is called by several goroutines.
	Handle func(context.Context, Event) Verdict
	// Missing says whether the consumer cannot be reached, where set.
	Missing *atomic.Bool
	// Idle is called, again and again, when every event that is stored has been
	// handed out and this process has handled its own.
	Idle func()
}

// Run hands events out until ctx ends, which is no error, or the connection is
// closed. It returns when no handler runs any more.
func Run(ctx context.Context, o Options) error {
	s := &source{
		Options: o, inbox: o.Conn.NewInbox(),
		next: "$JS.API.CONSUMER.MSG.NEXT." + o.Stream + "." + o.Durable,
		msgs: make(chan *nats.Msg, 4*batch+1024), // never closed
	}
	if s.Missing == nil {
		s.Missing = new(atomic.Bool)
	}
	var err error
	if s.pull, err = json.Marshal(map[string]int64{
		"batch": batch, "expires": int64(expires), "idle_heartbeat": int64(heartbeat),
	}); err != nil {
		return err
	}
	sub, err := o.Conn.ChanSubscribe(s.inbox+".*", s.msgs)
	if err != nil {
		return fmt.Errorf("source: subscribe: %w", err)
	}
	status := o.Conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	work := make(chan job) // closed below
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for j := range work {
				s.handle(ctx, j)
			}
		})
	}
	err = s.feed(ctx, work, status)
	o.Conn.RemoveStatusListener(status)
	close(work)
	wg.Wait()
	s.giveBack(sub)
	return err
}

type source struct {
	Options
	inbox, next string
	pull        []byte
	msgs        chan *nats.Msg
	pulls       uint64 // so far; feed's own

	mu      sync.Mutex
	running int  // events that were received and not yet handled
	drained bool // the newest event said that none follows
}

type job struct {
	ev    Event
	reply string
}

func (s *source) feed(ctx context.Context, work chan<- job, status <-chan nats.Status) error {
	timer := time.NewTimer(silence)
	defer timer.Stop()
	open, again := 0, true
	wait := time.Duration(0)
	for {
		if again || open <= 0 {
			if wait > 0 && !run.Pause(ctx, wait) {
				return nil
			}
			s.pulls++
			open, again = batch, false
			// Fails while the connection is down; its return is a status.
			_ = s.Conn.PublishRequest(s.next, s.inbox+"."+strconv.FormatUint(s.pulls, 10), s.pull)
		}
		timer.Reset(silence)
		select {
		case <-ctx.Done():
			return nil
		case st := <-status:
			if st == nats.CLOSED {
				return fmt.Errorf("source: %w", nats.ErrConnectionClosed)
			}
			again = true
		case <-timer.C:
			if s.Conn.IsClosed() {
				return fmt.Errorf("source: %w", nats.ErrConnectionClosed)
			}
			again = true
		case m := <-s.msgs:
			if strings.HasPrefix(m.Reply, ackPrefix) {
				open, wait = open-1, 0
				s.Missing.Store(false)
				j, more, err := parse(m)
				if err != nil {
					s.Logger.Error("an event without usable metadata", "error", err)
					continue
				}
				s.begin(!more)
				select {
				case work <- j:
				case <-ctx.Done():
					s.answer(j.reply, Again(0))
					return nil
				}
				continue
			}
			if m.Subject != s.inbox+"."+strconv.FormatUint(s.pulls, 10) {
				continue // of an earlier pull
			}
			switch code := m.Header.Get("Status"); {
			case code == "100":
				s.Missing.Store(false)
				s.idle()
			case code == "503" || m.Header.Get("Description") == "Consumer Deleted":
				if !s.Missing.Swap(true) {
					s.Logger.Warn("the notifier's consumer cannot be reached", "stream", s.Stream, "consumer", s.Durable)
				}
				again, wait = true, maxPause
			default:
				again = true
				// A pull that ends at once, again and again, must not spin.
				if open == batch {
					wait = min(max(2*wait, 10*time.Millisecond), maxPause)
				}
			}
		}
	}
}

func (s *source) begin(last bool) {
	s.mu.Lock()
	s.running++
	s.drained = last
	s.mu.Unlock()
}

// idle is the server's word that nothing is waiting.
func (s *source) idle() {
	s.mu.Lock()
	s.drained = true
	quiet := s.running == 0
	s.mu.Unlock()
	if quiet {
		s.Idle()
	}
}

func (s *source) handle(ctx context.Context, j job) {
	s.answer(j.reply, s.Handle(ctx, j.ev))
	s.mu.Lock()
	s.running--
	quiet := s.running == 0 && s.drained
	s.mu.Unlock()
	if quiet {
		s.Idle()
	}
}

// answer fails while the connection is down; the event comes again then.
func (s *source) answer(reply string, v Verdict) {
	word := v.word
	if v.delay > 0 {
		word += fmt.Sprintf(` {"delay": %d}`, v.delay.Nanoseconds())
	}
	if err := s.Conn.Publish(reply, []byte(word)); err != nil {
		s.Logger.Debug("not acknowledged, will come again", "error", err)
	}
}

// giveBack returns what was delivered and not begun, so that another replica
// need not wait for it.
func (s *source) giveBack(sub *nats.Subscription) {
	_ = sub.Unsubscribe() // fails on a closed connection only
	for {
		select {
		case m := <-s.msgs:
			if strings.HasPrefix(m.Reply, ackPrefix) {
				s.answer(m.Reply, Again(0))
			}
		default:
			return
		}
	}
}

// parse reads the server's metadata, which stand in the reply subject: stream,
// consumer, deliveries, stream sequence, consumer sequence, time, pending;
// newer forms put domain and account before them.
func parse(m *nats.Msg) (j job, more bool, err error) {
	t := strings.Split(strings.TrimPrefix(m.Reply, ackPrefix), ".")
	if len(t) >= 9 {
		t = t[2:]
	} else if len(t) != 7 {
		return job{}, false, fmt.Errorf("source: acknowledgement subject has %d tokens", len(t)+2)
	}
	var n [3]int64 // sequence, time, pending
	for i, at := range []int{3, 5, 6} {
		if n[i], err = strconv.ParseInt(t[at], 10, 64); err != nil {
			return job{}, false, fmt.Errorf("source: acknowledgement subject: %w", err)
		}
	}
	return job{
		reply: m.Reply,
		ev:    Event{Subject: m.Subject, Header: m.Header, Data: m.Data, Seq: uint64(n[0]), Stored: time.Unix(0, n[1]).UTC()},
	}, n[2] > 0, nil
}
