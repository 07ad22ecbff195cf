package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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

// Session names a session of this owner.
func (c *Client) Session(id string) subject.Session {
	return subject.NewSession(c.cred.Tenant, c.cred.Name, id)
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
// is closed. A command may come twice: fn remembers command ids. A reply without
// a status is not sent: somebody else answers.
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
	if m.Reply == "" || reply.Status == "" {
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

func decodeStart(data []byte) (st hitl.Start, err error) {
	if err = hitl.Decode(data, "start", &st); err == nil && st.SessionID == "" {
		err = hitl.Invalid("session_id", "is missing")
	}
	return st, err
}

func (c *Client) start(ctx context.Context, m *nats.Msg, fn func(context.Context, hitl.Start) bool) {
	st, err := decodeStart(m.Data)
	word := "+ACK"
	switch {
	case err != nil:
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
