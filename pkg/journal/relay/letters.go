package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// Requests and withdrawals, unlike what is told of sessions, wait here for their
// turn: every owner has a queue of its own, and the stream gets one of each in turn.
const (
	// maxLetters and maxLetterBytes bound one owner's queue. Who sends more is told
	// to try again.
	maxLetters     = 1024
	maxLetterBytes = 8 << 20
	// maxAllBytes is for all queues together. Beyond it an owner has one that waits.
	maxAllBytes = 256 << 20
	// maxOwnLetters of one owner may be on their way to the stream: whoever has its
	// turn waits until so many of each other owner are stored. It is enough to keep
	// the stream busy.
	maxOwnLetters = 32
	// maxLettersUnderWay may be on their way to the stream, of all owners together.
	maxLettersUnderWay = 1024
	// late is after which time a letter counts no more as under way: it may have been on
	// its way to a leader that died. Its acknowledgement is handed on when it comes.
	late = 2 * time.Second
	// heldFor is after which time it is looked again whether the gateways keep up.
	heldFor = 2 * time.Millisecond
)

// letter is a request or a withdrawal on its way into its stream.
type letter struct {
	msg   *nats.Msg // but for its reply
	owner owner
	size  int
	reply string          // of its sender
	ctx   context.Context // of Forward: nobody waits when it is over; nil: it came from its sender
	done  chan error      // of Forward; nil: it came from its sender
}

// fits reports whether the next letter may be under way.
func (l *load) fits() bool {
	return l.lettersOut == 0 || l.lettersOut < maxOwnLetters && l.bytes+l.letters[0].size <= maxBytesUnderWay
}

// enqueue gives a letter its place behind its owner's others. False: there is none.
func (r *Relay) enqueue(l letter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.load(l.owner)
	full := len(o.letters) >= maxLetters || o.waiting+l.size > maxLetterBytes && len(o.letters) > 0
	crowded := r.waiting+l.size > maxAllBytes && len(o.letters) > 0
	if l.done == nil && (full || crowded) {
		r.tidy(l.owner, o)
		return false
	}
	o.letters = append(o.letters, l)
	o.waiting += l.size
	r.waiting += l.size
	r.inTurn(l.owner, o)
	r.deliver()
	return true
}

// inTurn puts an owner that has something to send, and may, behind the others. With
// the lock held.
func (r *Relay) inTurn(who owner, o *load) {
	if !o.turn && len(o.letters) > 0 && o.fits() {
		o.turn = true
		r.turns = append(r.turns, who)
	}
}

// deliver sends what may go, one letter of each owner in turn. It holds the lock
// also while it publishes: a withdrawal does not overtake its request.
func (r *Relay) deliver() {
	for len(r.turns) > 0 && r.letters < maxLettersUnderWay {
		if r.o.Behind != nil && r.o.Behind() {
			if r.again == nil {
				r.again = time.AfterFunc(heldFor, func() {
					r.mu.Lock()
					defer r.mu.Unlock()
					r.again = nil
					r.deliver()
				})
			}
			return
		}
		who := r.turns[0]
		r.turns = r.turns[1:]
		o := r.owners[who]
		o.turn = false
		l := o.letters[0]
		o.letters[0] = letter{} // not kept by what comes behind it
		if o.letters = o.letters[1:]; len(o.letters) == 0 {
			o.letters = nil
		}
		o.waiting -= l.size
		r.waiting -= l.size
		if l.ctx != nil && l.ctx.Err() != nil { // it comes again
			r.inTurn(who, o)
			r.tidy(who, o)
			continue
		}
		token := r.departs(flight{owner: who, size: l.size, reply: l.reply, done: l.done, letter: true, since: time.Now()})
		l.msg.Reply = r.inbox + token
		if err := r.o.Conn.PublishMsg(l.msg); err != nil {
			f := r.flight[token]
			r.lands(token, f)
			r.unsent(f, l.msg, err)
		}
		r.inTurn(who, o)
	}
}

// unsent tells what became of a letter that did not go out.
func (r *Relay) unsent(f flight, m *nats.Msg, err error) {
	switch {
	case f.done != nil && errors.Is(err, nats.ErrMaxPayload):
		f.done <- fmt.Errorf("%w: %w", ErrNotMeant, err)
	case f.done != nil:
		f.done <- err
	case errors.Is(err, nats.ErrMaxPayload):
		r.refuse(f.reply, codeTooLarge, err)
	default: // its sender hears nothing, and tries again
		r.o.Logger.Debug("not passed on", "subject", m.Subject, "error", err)
	}
}

// Forward passes on what an owner has left while no gateway was there: at is where
// it lies, m what lies there and since when. It returns when the stream has it, or had it already.
// What can never get there is ErrNotMeant.
func (r *Relay) Forward(ctx context.Context, at string, header map[string][]string, data []byte, left time.Time) error {
	p, err := subject.Parse(at)
	if err != nil || p.Kind != "box" {
		return fmt.Errorf("%w: %q", ErrNotMeant, at)
	}
	h, err := r.header(header, p)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotMeant, err)
	}
	h.Del(expectAmong)
	h.Set(expect, "0")
	h.Set(wire.HeaderLeftAt, left.UTC().Format(time.RFC3339Nano))
	l := letter{
		msg:   &nats.Msg{Subject: subject.LeftFor(p), Header: h, Data: data},
		owner: owner{p.Tenant, p.Owner}, size: len(data) + Overhead, ctx: ctx, done: make(chan error, 1),
	}
	r.enqueue(l)
	select {
	case err := <-l.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrNotMeant: nothing that an owner may leave has this form.
var ErrNotMeant = errors.New("relay: neither a request nor a withdrawal")

// taken reads the stream's answer to a letter that was left. Another message is
// there: it is the same one, passed on before, or came first.
func taken(answer []byte) error {
	var ack struct {
		Seq   uint64 `json:"seq"`
		Error *struct {
			Code int    `json:"err_code"`
			Text string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &ack); err != nil {
		return fmt.Errorf("relay: not an acknowledgement: %w", err)
	}
	switch {
	case ack.Error == nil && ack.Seq > 0, ack.Error != nil && ack.Error.Code == codeWrongLast,
		ack.Error != nil && ack.Error.Code == codeStoreFailed && strings.Contains(ack.Error.Text, "per subject"):
		return nil
	case ack.Error == nil:
		return errors.New("relay: not an acknowledgement")
	case ack.Error.Code == codeTooLarge:
		return fmt.Errorf("%w: %s", ErrNotMeant, ack.Error.Text)
	}
	return fmt.Errorf("relay: %s (%d)", ack.Error.Text, ack.Error.Code)
}
