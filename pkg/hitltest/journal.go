package hitltest

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
)

// ErrTaken is what Publish returns where the subject may have one message only
// and has it.
var ErrTaken = errors.New("hitltest: the subject has a message")

// MemoryJournal is a journal.Journal without a server. It passes the same
// conformance suite as the real one.
type MemoryJournal struct {
	key    ed25519.PrivateKey
	signer string

	mu      sync.Mutex
	fault   func(op, subj string) error
	changed chan struct{} // closed and replaced whenever something was stored or is due again
	streams map[string]*memoryStream
	intake  *memoryDurable
	sweeper *memoryDurable
	mailbox *memoryDurable
}

var _ journal.Journal = (*MemoryJournal)(nil)

type memoryStream struct {
	created time.Time
	last    uint64
	msgs    []journal.Message // by sequence
	once    bool              // one message per subject
}

type memoryDurable struct {
	stream *memoryStream
	queue  bool   // what is acknowledged is removed
	next   uint64 // the lowest sequence that was never delivered
	open   map[uint64]*memoryDelivery
}

// memoryDelivery is a message that was delivered and not acknowledged.
type memoryDelivery struct {
	count int
	due   time.Time // when it comes again
}

// NewMemoryJournal makes an empty journal with a signing key of its own.
func NewMemoryJournal() *MemoryJournal {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err) // the system has no randomness
	}
	j := &MemoryJournal{
		key: key, signer: hitl.KeyID(pub),
		changed: make(chan struct{}),
		streams: map[string]*memoryStream{},
	}
	now := time.Now().UTC()
	for _, name := range []string{journal.Requests, journal.Mailbox, journal.Decisions, journal.Events, journal.Transcripts, journal.Work} {
		j.streams[name] = &memoryStream{created: now, once: slices.Contains([]string{journal.Requests, journal.Mailbox, journal.Decisions}, name)}
	}
	j.intake = &memoryDurable{stream: j.streams[journal.Requests], next: 1, open: map[uint64]*memoryDelivery{}}
	j.sweeper = &memoryDurable{stream: j.streams[journal.Decisions], next: 1, open: map[uint64]*memoryDelivery{}}
	j.mailbox = &memoryDurable{stream: j.streams[journal.Mailbox], next: 1, open: map[uint64]*memoryDelivery{}, queue: true}
	return j
}

// Keys are the public keys whose signatures count.
func (j *MemoryJournal) Keys() map[string]ed25519.PublicKey {
	return map[string]ed25519.PublicKey{j.signer: j.key.Public().(ed25519.PublicKey)}
}

// SetFault makes every call first ask f, by method name and subject or stream;
// an error is returned to the caller and nothing is done. f must not call the
// journal. Nil ends it.
func (j *MemoryJournal) SetFault(f func(op, subj string) error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fault = f
}

// Publish stores a message as anybody with access to the bus might.
func (j *MemoryJournal) Publish(subj string, header map[string][]string, data []byte) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.store(subj, header, data)
}

var memoryRoutes = map[string]string{
	"req": journal.Requests, "cxl": journal.Requests, "box": journal.Mailbox, "dec": journal.Decisions,
	"ixe": journal.Events, "sgw": journal.Events,
	"evt": journal.Transcripts, "ses": journal.Transcripts, "ack": journal.Transcripts,
	"work": journal.Work,
}

// store needs the lock.
func (j *MemoryJournal) store(subj string, header map[string][]string, data []byte) (uint64, error) {
	tokens := strings.Split(subj, ".")
	if len(tokens) < 2 || tokens[0] != "hitl" || memoryRoutes[tokens[1]] == "" {
		return 0, fmt.Errorf("hitltest: no stream takes %q", subj)
	}
	s := j.streams[memoryRoutes[tokens[1]]]
	if s.once && s.find(subj) != nil {
		return 0, ErrTaken
	}
	s.last++
	s.msgs = append(s.msgs, journal.Message{
		Subject: subj, Seq: s.last, Time: time.Now().UTC(), Header: header, Data: slices.Clone(data),
	})
	j.wake()
	return s.last, nil
}

// wake needs the lock.
func (j *MemoryJournal) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// find returns the newest message on subj, or nil.
func (s *memoryStream) find(subj string) *journal.Message {
	for i := len(s.msgs) - 1; i >= 0; i-- {
		if s.msgs[i].Subject == subj {
			return &s.msgs[i]
		}
	}
	return nil
}

// from returns the index of the first message at or above seq.
func (s *memoryStream) from(seq uint64) int {
	i, _ := slices.BinarySearchFunc(s.msgs, seq, func(m journal.Message, seq uint64) int {
		switch {
		case m.Seq < seq:
			return -1
		case m.Seq > seq:
			return 1
		}
		return 0
	})
	return i
}

// begin takes the lock and returns the error that the call has to end with.
func (j *MemoryJournal) begin(ctx context.Context, op, subj string) error {
	j.mu.Lock()
	if j.fault != nil {
		if err := j.fault(op, subj); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Decide implements journal.Journal.
func (j *MemoryJournal) Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*journal.StoredDecision, bool, error) {
	body, err := hitl.Marshal(d)
	if err != nil {
		return nil, false, err
	}
	subj := subject.Decision(ref)
	err = j.begin(ctx, "Decide", subj)
	defer j.mu.Unlock()
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", journal.ErrUnknown, err)
	}
	header := map[string][]string{
		hitl.HeaderSigner:    {j.signer},
		hitl.HeaderSignature: {hitl.Sign(j.key, subj, body)},
	}
	trace.Of(ctx).Write(header)
	if _, err := j.store(subj, header, body); err != nil && !errors.Is(err, ErrTaken) {
		return nil, false, err
	}
	winner, err := journal.Verify(j.Keys(), j.streams[journal.Decisions].find(subj))
	if err != nil {
		return nil, false, err
	}
	return winner, winner.DecisionID == d.DecisionID, nil
}

// Decision implements journal.Journal.
func (j *MemoryJournal) Decision(ctx context.Context, ref subject.Ref) (*journal.StoredDecision, error) {
	subj := subject.Decision(ref)
	err := j.begin(ctx, "Decision", subj)
	defer j.mu.Unlock()
	if err != nil {
		return nil, err
	}
	m := j.streams[journal.Decisions].find(subj)
	if m == nil {
		return nil, journal.ErrNotFound
	}
	return journal.Verify(j.Keys(), m)
}

// Request implements journal.Journal.
func (j *MemoryJournal) Request(ctx context.Context, ref subject.Ref) (*journal.Message, error) {
	subj := subject.Request(ref)
	err := j.begin(ctx, "Request", subj)
	defer j.mu.Unlock()
	if err != nil {
		return nil, err
	}
	m := j.streams[journal.Requests].find(subj)
	if m == nil && j.streams[journal.Mailbox].find(subject.Left(subj)) != nil {
		return nil, journal.ErrLeft
	}
	if m == nil {
		return nil, journal.ErrNotFound
	}
	c := *m
	return &c, nil
}

// Left implements journal.Journal.
func (j *MemoryJournal) Left(ctx context.Context, at string) (*journal.Message, error) {
	err := j.begin(ctx, "Left", at)
	defer j.mu.Unlock()
	if err != nil {
		return nil, err
	}
	m := j.streams[journal.Mailbox].find(subject.Left(at))
	if m == nil {
		return nil, journal.ErrNotFound
	}
	c := *m
	return &c, nil
}

// DeleteRequest implements journal.Journal.
func (j *MemoryJournal) DeleteRequest(ctx context.Context, seq uint64) error {
	err := j.begin(ctx, "DeleteRequest", journal.Requests)
	defer j.mu.Unlock()
	if err != nil {
		return err
	}
	s := j.streams[journal.Requests]
	if i := s.from(seq); i < len(s.msgs) && s.msgs[i].Seq == seq {
		s.msgs = slices.Delete(s.msgs, i, i+1)
		delete(j.intake.open, seq)
	}
	return nil
}

// WriteEvent implements journal.Journal.
func (j *MemoryJournal) WriteEvent(ctx context.Context, subj string, data []byte) (uint64, error) {
	err := j.begin(ctx, "WriteEvent", subj)
	defer j.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if m := j.streams[journal.Events].find(subj); m != nil {
		return m.Seq, nil
	}
	header := map[string][]string{}
	trace.Of(ctx).Write(header)
	return j.store(subj, header, data)
}

// WriteGatewayState implements journal.Journal.
func (j *MemoryJournal) WriteGatewayState(ctx context.Context, s subject.Session, data []byte) error {
	return j.write(ctx, "WriteGatewayState", subject.GatewayState(s), data)
}

// Enqueue implements journal.Journal.
func (j *MemoryJournal) Enqueue(ctx context.Context, st *hitl.Start) error {
	data, err := hitl.Marshal(st)
	if err != nil {
		return err
	}
	return j.write(ctx, "Enqueue", subject.Work(st.Tenant, st.Pool), data)
}

func (j *MemoryJournal) write(ctx context.Context, op, subj string, data []byte) error {
	err := j.begin(ctx, op, subj)
	defer j.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = j.store(subj, nil, data)
	return err
}
