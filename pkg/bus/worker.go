package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus/internal/link"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

const (
	// pullExpires is how long the server keeps a pull of the work queue.
	pullExpires = 25 * time.Second
	// putBack is how long refused work rests before somebody gets it again.
	putBack = 2 * time.Second
	// stillAtIt is how often the server is told that a start is being worked on;
	// it gives it to somebody else after 10 s without a word.
	stillAtIt = 3 * time.Second
	// sendQueue is how many commands of a session may wait for the handler.
	sendQueue = 64
)

// ErrStale: somebody else has written the session's state since.
var ErrStale = errors.New("bus: the session's state was written by somebody else")

// Session names a session of this owner.
func (c *Client) Session(id string) subject.Session {
	return subject.NewSession(c.cred.Tenant, c.cred.Name, id)
}

// transcript orders the events of one session.
type transcript struct {
	mu    sync.Mutex
	last  uint64 // sequence of its newest event; 0: it has none
	known bool   // last is true
}

func (c *Client) transcript(s subject.Session) *transcript {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.transcripts[s.ID]
	if t == nil {
		t = &transcript{}
		c.transcripts[s.ID] = t
	}
	return t
}

// Event stores one step of a session's conversation and returns when the server
// has it; it tries until ctx ends. Events of one session are stored in the
// order of the calls, and once, even when an acknowledgement is lost; only the
// first event of a session that somebody else claimed can then stand twice.
func (c *Client) Event(ctx context.Context, session subject.Session, ev hitl.Event) error {
	if !hitl.AgentMaySend(ev.Type) {
		return hitl.Invalid("type", "a worker may not publish events of type %q", ev.Type)
	}
	ev.V = 1
	data, err := hitl.Marshal(ev)
	if err != nil {
		return fmt.Errorf("bus: event: %w", err)
	}
	if !c.link.Begin() {
		return ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)

	t := c.transcript(session)
	t.mu.Lock()
	defer t.mu.Unlock()
	subj := subject.Transcript(session)
	m := nats.NewMsg(subj)
	m.Data = data
	var b link.Backoff
	for {
		seq, err := c.link.Put(ctx, m)
		var conflict *link.ConflictError
		switch {
		case err == nil:
			t.last, t.known = seq, true
			return nil
		case link.Fatal(err):
			return err
		case errors.As(err, &conflict) && conflict.Code == link.CodeWrongLastSeq:
			// Nobody else writes this session: the earlier try has landed, and
			// the server says where.
			t.last, t.known = conflict.Last()
			return nil
		}
		if wait := c.link.Pause(ctx, b.Next(err)); wait != nil {
			return errors.Join(wait, err)
		}
		if t.known {
			m = link.Expecting(subj, data, t.last)
		}
	}
}

// Live sends a delta to whoever watches now. Nobody stores it and nothing says
// whether it arrived; the stored event that follows has the whole.
func (c *Client) Live(session subject.Session, ev hitl.Event) error {
	ev.V = 1
	return c.send(subject.Live(session), ev)
}

// Beat sends a worker's heartbeat.
func (c *Client) Beat(b hitl.Beat) error {
	b.V = 1
	return c.send(subject.Beat(c.cred.Tenant, c.cred.Name, b.Worker), b)
}

func (c *Client) send(subj string, v any) error {
	data, err := hitl.Marshal(v)
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	if err := c.link.Conn().Publish(subj, data); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// owned fills in what the identity says.
func (c *Client) owned(st *hitl.SessionState) (subject.Session, []byte, error) {
	s := *st
	s.V, s.Tenant, s.Owner = 1, c.cred.Tenant, c.cred.Name
	if s.SessionID == "" {
		return subject.Session{}, nil, hitl.Invalid("session_id", "is missing")
	}
	data, err := hitl.Marshal(s)
	if err != nil {
		return subject.Session{}, nil, fmt.Errorf("bus: session state: %w", err)
	}
	return c.Session(s.SessionID), data, nil
}

// Claim stores a session's first state if it has none yet, and reports whether
// it is this one: of all workers that claim a session exactly one wins. Version,
// tenant and owner are filled in.
func (c *Client) Claim(ctx context.Context, st *hitl.SessionState) (won bool, err error) {
	_, err = c.StateAfter(ctx, st, 0)
	if errors.Is(err, ErrStale) {
		return false, nil
	}
	if err == nil {
		t := c.transcript(c.Session(st.SessionID)) // a new one
		t.mu.Lock()
		t.known = true
		t.mu.Unlock()
	}
	return err == nil, err
}

// State stores a session's state whatever the one before is, and returns its
// sequence. Version, tenant and owner are filled in.
func (c *Client) State(ctx context.Context, st *hitl.SessionState) (seq uint64, err error) {
	session, data, err := c.owned(st)
	if err != nil {
		return 0, err
	}
	if !c.link.Begin() {
		return 0, ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)
	m := nats.NewMsg(subject.State(session))
	m.Data = data
	var b link.Backoff
	for {
		seq, err = c.link.Store(ctx, m)
		var conflict *link.ConflictError
		if !errors.As(err, &conflict) {
			break
		}
		if wait := c.link.Pause(ctx, b.Next(err)); wait != nil { // the store is full
			return 0, errors.Join(wait, err)
		}
	}
	if err == nil && st.State == hitl.StateDead {
		c.mu.Lock()
		delete(c.transcripts, session.ID)
		c.mu.Unlock()
	}
	return seq, err
}

// StateAfter stores a session's state only if the newest one has the sequence
// last (0: there is none); otherwise the error is ErrStale.
func (c *Client) StateAfter(ctx context.Context, st *hitl.SessionState, last uint64) (seq uint64, err error) {
	session, data, err := c.owned(st)
	if err != nil {
		return 0, err
	}
	if !c.link.Begin() {
		return 0, ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)
	subj := subject.State(session)
	var b link.Backoff
	for {
		seq, err := c.link.Store(ctx, link.Expecting(subj, data, last))
		var conflict *link.ConflictError
		if !errors.As(err, &conflict) {
			return seq, err
		}
		if conflict.Code == link.CodeWrongLastSeq {
			// An earlier try of this call may have landed.
			there, err := c.link.Read(ctx, streamTranscripts, subj)
			if err == nil {
				if bytes.Equal(there.Data, data) && link.Sequence(there) > last {
					return link.Sequence(there), nil
				}
				return 0, ErrStale
			}
			if !errors.Is(err, ErrNotFound) {
				return 0, err
			}
			if last > 0 {
				return 0, ErrStale // it expired
			}
		}
		if wait := c.link.Pause(ctx, b.Next(err)); wait != nil {
			return 0, errors.Join(wait, err)
		}
	}
}

// LastState reads a session's newest state; ErrNotFound if it has none.
func (c *Client) LastState(ctx context.Context, session subject.Session) (st *hitl.SessionState, seq uint64, err error) {
	if !c.link.Begin() {
		return nil, 0, ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)
	m, err := c.link.Read(ctx, streamTranscripts, subject.State(session))
	if err != nil {
		return nil, 0, err
	}
	st = &hitl.SessionState{}
	if err := json.Unmarshal(m.Data, st); err != nil {
		return nil, 0, fmt.Errorf("bus: stored session state: %w", err)
	}
	return st, link.Sequence(m), nil
}

// Commands answers the commands for a session with fn, one after the other,
// until unsubscribe is called (it does not wait for a running fn) or the client
// is closed. A command may come twice: fn remembers command ids.
func (c *Client) Commands(session subject.Session, fn func(hitl.Command) hitl.CommandReply) (unsubscribe func(), err error) {
	if !c.link.Begin() {
		return nil, ErrClosed
	}
	queue := make(chan *nats.Msg, sendQueue)
	sub, err := c.link.Conn().ChanSubscribe(subject.Command(session), queue)
	if err != nil {
		c.link.End()
		return nil, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	ctx, cancel := c.link.Bound(context.Background())
	go func() {
		defer c.link.End()
		defer func() { _ = sub.Unsubscribe() }()
		for {
			select {
			case <-ctx.Done():
				return
			case m := <-queue:
				c.command(m, fn)
			}
		}
	}()
	once, stop := context.WithTimeout(ctx, link.TryTimeout)
	defer stop()
	if err := c.link.Conn().FlushWithContext(once); err != nil {
		// The subscription is made at the next connect.
		c.log.Debug("commands: not flushed", "session", session.ID, "error", err)
	}
	return func() { cancel(nil) }, nil
}

func (c *Client) command(m *nats.Msg, fn func(hitl.Command) hitl.CommandReply) {
	var reply hitl.CommandReply
	var cmd hitl.Command
	err := hitl.Decode(m.Data, "command", &cmd)
	switch {
	case err != nil:
		reply = hitl.CommandReply{Status: "invalid", Error: err.Error()}
	case cmd.CommandID == "":
		reply = hitl.CommandReply{Status: "invalid", Error: "command_id is missing"}
	default:
		reply = fn(cmd)
	}
	if m.Reply == "" {
		return
	}
	if err := c.send(m.Reply, reply); err != nil {
		c.log.Warn("command reply not sent", "command", cmd.CommandID, "error", err)
	}
}

// Work takes starts from a pool's queue, one at a time, until ctx ends (then
// its error is ctx's cause) or the client is closed. fn claims the session and
// returns: true takes the start off the queue, false puts it back for a moment.
// A start may come more than once; the claim decides.
func (c *Client) Work(ctx context.Context, pool string, fn func(context.Context, hitl.Start) (ack bool)) error {
	if !c.link.Begin() {
		return ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)
	next := "$JS.API.CONSUMER.MSG.NEXT." + streamWork + "." + subject.WorkConsumer(c.cred.Tenant, pool)
	ctx, done := c.link.WatchDenial(ctx, next)
	defer done()
	// Not a response inbox: the connection would hand work, which keeps its own
	// subject, to whatever request is the only one under way.
	inbox := c.link.Conn().NewInbox()
	queue := make(chan *nats.Msg, sendQueue)
	sub, err := c.link.Conn().ChanSubscribe(inbox, queue)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.link.Flush(ctx); err != nil {
		return err
	}
	pull, err := json.Marshal(map[string]any{"batch": 1, "expires": pullExpires})
	if err != nil {
		return err
	}
	var b link.Backoff
	for {
		again := c.link.Connected()
		if err := c.link.Conn().PublishRequest(next, inbox, pull); err != nil {
			if wait := c.link.Pause(ctx, b.Next(err)); wait != nil {
				return wait
			}
			continue
		}
		timer := time.NewTimer(pullExpires + link.TryTimeout)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		case <-again:
			timer.Stop()
		case m := <-queue:
			timer.Stop()
			if strings.HasPrefix(m.Reply, "$JS.ACK.") {
				b = link.Backoff{}
				c.start(ctx, m, fn)
				continue
			}
			// No work within the time (404, 408) is the normal case; anything
			// else, a missing consumer for one, is asked again slowly.
			if status := m.Header.Get("Status"); status != "404" && status != "408" {
				c.log.Warn("work queue", "pool", pool, "status", status, "description", m.Header.Get("Description"))
				if wait := c.link.Pause(ctx, b.Next(nil)); wait != nil {
					return wait
				}
			}
		}
	}
}

// busy runs fn and keeps the server from giving m to somebody else meanwhile.
func (c *Client) busy(m *nats.Msg, fn func() bool) bool {
	stop, stopped := make(chan struct{}), make(chan struct{}) // closed here; by the goroutine
	go func() {
		defer close(stopped)
		tick := time.NewTicker(stillAtIt)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				// Lost ones do no harm: the claim decides who runs a session.
				_ = c.link.Conn().Publish(m.Reply, []byte("+WPI"))
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	return fn()
}

func (c *Client) start(ctx context.Context, m *nats.Msg, fn func(context.Context, hitl.Start) bool) {
	var st hitl.Start
	err := hitl.Decode(m.Data, "start", &st)
	word := "+ACK"
	switch {
	case err != nil || st.SessionID == "":
		c.log.Error("unreadable start in the work queue, dropped", "error", err)
		word = "+TERM"
	case !c.busy(m, func() bool { return fn(ctx, st) }):
		word = fmt.Sprintf(`-NAK {"delay": %d}`, putBack)
	}
	// The acknowledgement is confirmed, or the start comes again. It may still
	// be given when ctx has just ended.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	ack := nats.NewMsg(m.Reply)
	ack.Data = []byte(word)
	var b link.Backoff
	for {
		_, err := c.link.Try(last, ack)
		if err == nil {
			return
		}
		if link.Fatal(err) || c.link.Pause(last, b.Next(err)) != nil {
			c.log.Warn("start not acknowledged; it comes again", "session", st.SessionID, "error", err)
			return
		}
	}
}
