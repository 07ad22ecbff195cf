package road

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	// AnswersPerSocket stays below the burst of frames that a gateway takes
	// from one socket without slowing it down.
	AnswersPerSocket = 180
	// SocketSlots is how many answers of one socket a gateway works on at once.
	SocketSlots = 8
	MaxSockets  = 16 // of the 20 that one person may have
	// SettleLimit bounds the wait for what follows a decision.
	SettleLimit = 2 * time.Minute
	openLimit   = time.Minute
)

// Readers are WebSocket clients of one person that allow what they see at once,
// each in the sessions of its shard.
type Readers struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu       sync.Mutex
	sights   map[string]Sight    // by key: when it was seen and answered
	accepted map[string][]string // decision ids of receipts
	closed   map[string][]string // decision ids of closed interactions
	cuts     int                 // sockets that the gateway cut and that came back
	errs     []error
	changed  chan struct{} // capacity 1
}

// Sight is on the system's clock, in ns.
type Sight struct {
	shard          int
	Seen, Answered int64
	Again          bool // answered again after a cut: no times
}

// Open signs in so many sockets.
func Open(ctx context.Context, addr, token string, count int) (*Readers, error) {
	rs := &Readers{
		sights: map[string]Sight{}, accepted: map[string][]string{}, closed: map[string][]string{},
		changed: make(chan struct{}, 1),
	}
	ctx, rs.stop = context.WithCancel(ctx)
	for i := range count {
		r := &reader{Readers: rs, shard: i, mark: []byte(shardMark(i)), addr: addr, token: token}
		if err := r.open(ctx); err != nil {
			rs.Close()
			return nil, fmt.Errorf("reader: %w", err)
		}
		rs.wg.Go(func() {
			if err := r.serve(ctx); ctx.Err() == nil {
				rs.note(func() { rs.errs = append(rs.errs, fmt.Errorf("reader: %w", err)) })
			}
		})
	}
	return rs, nil
}

// Close ends the sockets and waits for their readers.
func (rs *Readers) Close() {
	rs.stop()
	rs.wg.Wait()
}

// Seen is when each ask was seen and answered, by key, and how many sockets
// were cut. It is final after Settled.
func (rs *Readers) Seen() (sights map[string]Sight, cuts int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return maps.Clone(rs.sights), rs.cuts
}

// note changes what is known and wakes who waits for it.
func (rs *Readers) note(fn func()) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	fn()
	select {
	case rs.changed <- struct{}{}:
	default:
	}
}

// Settled waits until every key has its receipt and its end. What a socket that
// was cut was still to be told is not told again: then the askers' decisions
// and the record are what counts.
func (rs *Readers) Settled(ctx context.Context, asks []Timing) error {
	ctx, cancel := context.WithTimeout(ctx, SettleLimit)
	defer cancel()
	for {
		rs.mu.Lock()
		err := errors.Join(rs.errs...)
		if rs.cuts > 0 {
			rs.mu.Unlock()
			return err
		}
		missing := 0
		for _, t := range asks {
			if len(rs.accepted[t.Key]) == 0 || len(rs.closed[t.Key]) == 0 {
				missing++
			}
		}
		rs.mu.Unlock()
		if err != nil || missing == 0 {
			return err
		}
		select {
		case <-rs.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d asks never got receipt and end: %w", missing, len(asks), ctx.Err())
		}
	}
}

// Check compares what askers and readers got: one decision each, the same.
func (rs *Readers) Check(asks []Timing) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var errs []error
	keys := map[string]bool{}
	for _, t := range asks {
		switch {
		case t.Err != "":
			errs = append(errs, errors.New(t.Err))
			continue
		case keys[t.Key]:
			errs = append(errs, fmt.Errorf("%s was asked twice", t.Key))
		}
		keys[t.Key] = true
		for what, ids := range map[string][]string{"receipts": rs.accepted[t.Key], "ends": rs.closed[t.Key]} {
			if len(ids) == 0 && rs.cuts > 0 {
				continue
			}
			if len(ids) != 1 || ids[0] != t.Decision {
				errs = append(errs, fmt.Errorf("%s: the asker has decision %s, %s tell of %q", t.Key, t.Decision, what, ids))
			}
		}
	}
	return few(errs)
}

// reader is one socket.
type reader struct {
	*Readers
	shard       int
	mark        []byte // what frames of its shard contain
	addr, token string
	conn        *websocket.Conn
}

// open signs in and waits for the snapshot. A person's sockets that were just
// closed may still be counted, and a machine that is busy reads too slowly: it
// tries again for a while.
func (r *reader) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	for {
		err := r.signIn(ctx)
		code := websocket.CloseStatus(err)
		if err == nil || code != wire.CloseTooMany && (code < 0 || !wire.Reconnect(int(code))) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *reader) signIn(ctx context.Context) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+r.addr+"/api/ws", nil)
	if err != nil {
		return err
	}
	conn.SetReadLimit(64 << 20)
	r.conn = conn
	if err := r.send(ctx, wire.Client{Type: wire.TypeAuth, Token: r.token}); err != nil {
		return err
	}
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			_ = conn.CloseNow() // failed already
			return err
		}
		if bytes.Contains(raw, []byte(wire.TypeActiveProcesses)) {
			return r.frames(ctx, raw, time.Now())
		}
	}
}

// comeBack signs in again after a cut, as a browser does. Whether the answers
// on the way arrived is unknown: what still waits is answered again.
func (r *reader) comeBack(ctx context.Context) error {
	_ = r.conn.CloseNow() // closed already
	r.note(func() {
		r.cuts++
		for key, at := range r.sights {
			if at.shard == r.shard && len(r.accepted[key]) == 0 {
				at.Again, at.Answered = true, 0
				r.sights[key] = at
			}
		}
	})
	return r.open(ctx)
}

func (r *reader) send(ctx context.Context, v any) error {
	raw, err := hitl.Marshal(v)
	if err != nil {
		return err
	}
	return r.conn.Write(ctx, websocket.MessageText, raw)
}

// frame is what a reader needs of a frame.
type frame struct {
	Type      string       `json:"type"`
	Sessions  []frame      `json:"sessions"` // of the snapshot
	Pending   []pending    `json:"pending_requests"`
	Closed    []closedItem `json:"closed"`
	RequestID string       `json:"request_id"`
	hitl.Receipt
}

type pending struct {
	Key        string `json:"key"`
	SessionKey string `json:"session_key"`
	Type       string `json:"request_type"`
	Digest     string `json:"digest"`
}

type closedItem struct {
	Key      string         `json:"key"`
	Decision *hitl.Decision `json:"decision"`
}

// serve reads frames and answers them until ctx ends. What reads is also what
// writes, as in a page that answers from its message handler.
func (r *reader) serve(ctx context.Context) error {
	defer func() { _ = r.conn.CloseNow() }()
	for {
		_, raw, err := r.conn.Read(ctx)
		at := time.Now()
		if err != nil && ctx.Err() == nil && wire.Reconnect(int(websocket.CloseStatus(err))) {
			if err = r.comeBack(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if bytes.Contains(raw, []byte(`"`+wire.TypePing+`"`)) {
			_ = r.send(ctx, wire.Client{Type: wire.TypePong}) // what fails, the next read tells
		}
		if err := r.frames(ctx, raw, at); err != nil {
			return err
		}
	}
}

// frames takes what a message holds for this shard.
func (r *reader) frames(ctx context.Context, raw []byte, at time.Time) error {
	if !bytes.Contains(raw, r.mark) {
		return nil
	}
	list := []json.RawMessage{raw}
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
	}
	for _, one := range list {
		if !bytes.Contains(one, r.mark) {
			continue
		}
		if err := r.take(ctx, one, at); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) take(ctx context.Context, raw []byte, at time.Time) error {
	var f frame
	if err := json.Unmarshal(raw, &f); err != nil {
		return err
	}
	switch f.Type {
	case wire.TypeReceipt:
		r.mu.Lock()
		again := r.sights[f.RequestID].Again && f.Status == hitl.Duplicate
		r.mu.Unlock()
		if f.Status != hitl.Accepted && !again || f.Decision == nil {
			return fmt.Errorf("%s: the receipt says %s: %s", f.RequestID, f.Status, f.Error)
		}
		r.note(func() { r.accepted[f.RequestID] = append(r.accepted[f.RequestID], f.Decision.DecisionID) })
	case wire.TypeProcessState:
		if len(f.Closed) > 0 {
			r.note(func() {
				for _, c := range f.Closed {
					id := ""
					if c.Decision != nil {
						id = c.Decision.DecisionID
					}
					r.closed[c.Key] = append(r.closed[c.Key], id)
				}
			})
		}
		return r.answerAll(ctx, f.Pending, at)
	case wire.TypeActiveProcesses:
		for _, one := range f.Sessions {
			if err := r.answerAll(ctx, one.Pending, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) answerAll(ctx context.Context, list []pending, at time.Time) error {
	for _, p := range list {
		if !strings.Contains(p.SessionKey, string(r.mark)) {
			continue
		}
		if err := r.answer(ctx, p, at); err != nil {
			return err
		}
	}
	return nil
}

// answer allows what is seen for the first time, or for the first time since a
// cut.
func (r *reader) answer(ctx context.Context, p pending, at time.Time) error {
	now := time.Now().UnixNano()
	r.mu.Lock()
	old := r.sights[p.Key]
	done := old.Answered != 0
	if !done {
		r.sights[p.Key] = Sight{shard: r.shard, Seen: at.UnixNano(), Answered: now, Again: old.Again}
	}
	r.mu.Unlock()
	if done {
		return nil
	}
	raw, err := hitl.Marshal(wire.Client{Type: wire.TypeResponse, Response: hitl.Response{
		Ref: p.Key, SessionID: p.SessionKey, RequestID: p.Key, RequestType: p.Type, Digest: p.Digest,
		Decision: hitl.VerbAllow,
	}})
	if err != nil {
		return err
	}
	_ = r.conn.Write(ctx, websocket.MessageText, raw) // what fails, the next read tells
	return nil
}
