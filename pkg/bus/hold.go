package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus/internal/link"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// Hold is a worker's hold on a session, until another worker claims it with a
// higher generation. Each step that it stores is stored behind the one before or
// not at all, so nothing of it comes behind the other's claim. Its methods are
// safe for concurrent use.
type Hold struct {
	c          *Client
	session    subject.Session
	generation int
	id         string

	order sync.Mutex // one write at a time

	mu    sync.Mutex
	state []byte // the newest of ours
	at    uint64 // its sequence
	last  uint64 // sequence of the newest step, state or event
	stale error  // another worker has the session
}

// Claim takes a session for the worker and the generation that st names. It gets
// a session that has no state yet, or only states of lower generations; of
// several that claim the same generation one gets it. Otherwise the error is
// ErrStale. A first generation that is claimed again with the same content is the
// same claim, so that a process can find out whether an earlier one's has landed.
// Version, tenant and owner are filled in. It tries until ctx ends.
func (c *Client) Claim(ctx context.Context, st *hitl.SessionState) (*Hold, error) {
	h := &Hold{c: c, session: c.Session(st.SessionID), generation: st.Generation, id: uuid.NewString()}
	if st.Generation < 1 {
		return nil, hitl.Invalid("generation", "is less than 1")
	}
	if err := h.State(ctx, st); err != nil {
		return nil, err
	}
	return h, nil
}

// State stores the session's state and returns when the server has it; it tries
// until ctx ends. Version, tenant, owner and generation are filled in.
func (h *Hold) State(ctx context.Context, st *hitl.SessionState) error {
	s := *st
	s.V, s.Tenant, s.Owner, s.Generation = 1, h.c.cred.Tenant, h.c.cred.Name, h.generation
	if s.SessionID == "" {
		return hitl.Invalid("session_id", "is missing")
	}
	data, err := hitl.Marshal(s)
	if err != nil {
		return fmt.Errorf("bus: session state: %w", err)
	}
	return h.write(ctx, func(ctx context.Context) error { return h.put(ctx, data) })
}

// Event stores one step of the session's conversation and returns when the server
// has it; it tries until ctx ends, or a gateway says that the owner's quota of
// conversation is used up: ErrOverQuota. Events are stored in the order of the
// calls, and once, even when an acknowledgement is lost.
func (h *Hold) Event(ctx context.Context, ev hitl.Event) error {
	if !hitl.AgentMaySend(ev.Type) {
		return hitl.Invalid("type", "a worker may not publish events of type %q", ev.Type)
	}
	ev.V = 1
	data, err := hitl.Marshal(ev)
	if err != nil {
		return fmt.Errorf("bus: event: %w", err)
	}
	return h.write(ctx, func(ctx context.Context) error { return h.follow(ctx, data) })
}

// Live sends a delta to whoever watches now. Nobody stores it and nothing says
// whether it arrived; the stored event that follows has the whole.
func (h *Hold) Live(ev hitl.Event) error {
	if err := h.lost(); err != nil {
		return err
	}
	ev.V = 1
	return h.c.send(subject.Live(h.session), ev)
}

// Check reads whether the session is still ours. Its error is ErrStale when
// another worker has it, and anything else when that cannot be found out before
// ctx ends. In a cluster the answer may be a moment old: what must not happen
// behind another's claim is stored with State or Event.
func (h *Hold) Check(ctx context.Context) error {
	if err := h.lost(); err != nil {
		return err
	}
	if !h.c.link.Begin() {
		return ErrClosed
	}
	defer h.c.link.End()
	ctx, cancel := h.c.link.Bound(ctx)
	defer cancel(nil)
	m, err := h.c.link.Read(ctx, streamTranscripts, subject.State(h.session))
	if errors.Is(err, ErrNotFound) {
		return nil // it expired
	}
	if err != nil {
		return err
	}
	return h.judge(m)
}

func (h *Hold) lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stale
}

// judge says whether the stored state m is another worker's claim that counts
// more than ours: one of a higher generation, or of the same one behind our own
// word. (An older one than ours is the newest when the server's data were put
// back to an older copy.) One that cannot be read claims nothing.
func (h *Hold) judge(m *nats.Msg) error {
	var st hitl.SessionState
	if json.Unmarshal(m.Data, &st) != nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.stale != nil:
	case st.Generation > h.generation,
		st.Generation == h.generation && link.Sequence(m) > h.at && m.Header.Get(wire.HeaderHold) != h.id:
		h.stale = fmt.Errorf("%w: worker %s took it with generation %d, this was %d", ErrStale, st.Worker, st.Generation, h.generation)
	}
	return h.stale
}

func (h *Hold) write(ctx context.Context, put func(context.Context) error) error {
	if !h.c.link.Begin() {
		return ErrClosed
	}
	defer h.c.link.End()
	ctx, cancel := h.c.link.Bound(ctx)
	defer cancel(nil)
	h.order.Lock()
	defer h.order.Unlock()
	if err := h.lost(); err != nil {
		return err
	}
	return put(ctx)
}

// stored notes the newest step; state is nil for an event.
func (h *Hold) stored(seq uint64, state []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = seq
	if state != nil {
		h.state, h.at = state, seq
	}
}

func (h *Hold) where() (state []byte, at, last uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.at, h.last
}

// put makes data the newest state, unless another worker has the session.
func (h *Hold) put(ctx context.Context, data []byte) error {
	subj := subject.State(h.session)
	var b link.Backoff
	for {
		_, at, _ := h.where()
		m := link.Expecting(subj, data, at)
		m.Header.Set(wire.HeaderHold, h.id)
		seq, err := h.c.link.Store(ctx, m)
		var conflict *link.ConflictError
		switch {
		case err == nil:
			h.stored(seq, data)
			return nil
		case !errors.As(err, &conflict):
			return err
		case conflict.Code == link.CodeWrongLastSeq:
			landed, err := h.reconcile(ctx, conflict, data)
			if landed || err != nil {
				return err
			}
			if _, now, _ := h.where(); now != at {
				continue
			}
		}
		// The store is full, or the read was behind.
		if wait := h.c.link.Pause(ctx, b.Next(err)); wait != nil {
			return errors.Join(wait, err)
		}
	}
}

// reconcile finds out why a state was not stored. It reports whether that very
// state is there; without that and an error another try is due.
func (h *Hold) reconcile(ctx context.Context, conflict *link.ConflictError, data []byte) (landed bool, err error) {
	newest, ok := conflict.Last()
	if ok && newest == 0 { // ours has expired
		h.expect(0)
		return false, nil
	}
	m, err := h.c.link.Read(ctx, streamTranscripts, subject.State(h.session))
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	seq := link.Sequence(m)
	_, at, _ := h.where()
	mine := m.Header.Get(wire.HeaderHold) == h.id || h.generation == 1
	if seq > at && mine && bytes.Equal(m.Data, data) {
		h.stored(seq, data)
		return true, nil
	}
	if err := h.judge(m); err != nil {
		return false, err
	}
	if seq == newest {
		h.expect(seq)
	}
	return false, nil
}

func (h *Hold) expect(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = seq
}

// follow stores an event behind the newest step.
func (h *Hold) follow(ctx context.Context, data []byte) error {
	subj, among := subject.Transcript(h.session), subject.Told(h.session)
	var b link.Backoff
	unknown := false // an earlier try may have landed
	for {
		state, _, last := h.where()
		seq, err := h.c.link.Put(ctx, link.Behind(subj, data, last, among))
		var conflict *link.ConflictError
		switch {
		case err == nil:
			h.stored(seq, nil)
			return nil
		case link.Fatal(err):
			return err
		case errors.As(err, &conflict) && conflict.Code == link.CodeWrongLastSeq:
			// Something else is the newest step. Only a state can be made the
			// newest by nobody but the session's holder.
			if err := h.put(ctx, state); err != nil {
				return err
			}
			if newest, ok := conflict.Last(); unknown && ok && newest > last {
				return nil // it was this very event
			}
		}
		unknown = unknown || errors.Is(err, ErrUnavailable)
		if wait := h.c.link.Pause(ctx, b.Next(err)); wait != nil {
			return errors.Join(wait, err)
		}
	}
}
