package journal

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal/internal/pace"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
)

// Signer signs decisions. KeyID names the public half in credential files.
type Signer struct {
	KeyID string
	Key   ed25519.PrivateKey
}

// NewSigner makes a Signer under the key id that belongs to key.
func NewSigner(key ed25519.PrivateKey) Signer {
	return Signer{KeyID: hitl.KeyID(key.Public().(ed25519.PublicKey)), Key: key}
}

// Options wire a JetStream.
type Options struct {
	// Signer signs what Decide stores. Without a key Decide fails.
	Signer Signer
	// Keys are the public keys by id whose decisions count; the signer's own
	// is added. Keys that were rotated out stay here as long as the record.
	Keys map[string]ed25519.PublicKey
	// Current, if set, takes the place of both and is asked for each decision:
	// keys can then be rotated while this runs. Safe for concurrent use.
	Current func() (Signer, map[string]ed25519.PublicKey)
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Timeout of one attempt of a call; default 2 s. Calls are repeated until
	// their context ends.
	Timeout time.Duration
}

// JetStream is the Journal on a NATS server. The connection is the caller's,
// who should disable its reconnect buffer: a publish that timed out must not
// be sent later behind the journal's back (it would do no harm, but the
// attempt could not be accounted for).
type JetStream struct {
	api
	current func() (Signer, map[string]ed25519.PublicKey)
	log     *slog.Logger
}

var _ Journal = (*JetStream)(nil)

// New makes a Journal on nc. The streams must exist, see Provision and Check.
func New(nc *nats.Conn, o Options) *JetStream {
	j := &JetStream{api: api{nc: nc, timeout: o.Timeout}, current: o.Current, log: o.Logger}
	if j.current == nil {
		keys := map[string]ed25519.PublicKey{}
		for id, key := range o.Keys {
			keys[id] = key
		}
		if len(o.Signer.Key) == ed25519.PrivateKeySize {
			keys[o.Signer.KeyID] = o.Signer.Key.Public().(ed25519.PublicKey)
		}
		j.current = func() (Signer, map[string]ed25519.PublicKey) { return o.Signer, keys }
	}
	if j.timeout <= 0 {
		j.timeout = 2 * time.Second
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	j.log = j.log.With("component", "journal")
	return j
}

// expectNone makes the server refuse the message if its subject has one.
const (
	expectHeader = "Nats-Expected-Last-Subject-Sequence"
	expectNone   = "0"
)

// Decide implements Journal. The time of a decision that was just won is this
// process's clock at the acknowledgement; everywhere else it is the server's.
func (j *JetStream) Decide(ctx context.Context, ref subject.Ref, d *hitl.Decision) (*StoredDecision, bool, error) {
	signer, _ := j.current()
	if len(signer.Key) != ed25519.PrivateKeySize {
		return nil, false, errors.New("journal: no signing key")
	}
	body, err := hitl.Marshal(d)
	if err != nil {
		return nil, false, fmt.Errorf("journal: encode decision: %w", err)
	}
	if room := j.room(); len(body) > room {
		return nil, false, fmt.Errorf("%w: a decision of %d bytes, the limit is %d", ErrTooLarge, len(body), room)
	}
	subj := subject.Decision(ref)
	header := nats.Header{
		expectHeader:         {expectNone},
		hitl.HeaderSigner:    {signer.KeyID},
		hitl.HeaderSignature: {hitl.Sign(signer.Key, subj, body)},
	}
	var b pace.Backoff
	doubt := false // an earlier try may have landed
	var why error
	for {
		seq, err := j.publish(ctx, Decisions, subj, header, body)
		if err == nil {
			return &StoredDecision{Decision: d, Seq: seq, Time: time.Now().UTC(), Trace: trace.Of(ctx)}, true, nil
		}
		if code := apiCode(err); soon(err) {
			if !run.Pause(ctx, pace.Soon()) {
				return nil, false, unknown(ctx, err)
			}
			continue
		} else if code != codeWrongLast && code != codeStoreFailed && !full(err) && !transient(err) && ctx.Err() == nil {
			return nil, false, err
		}
		// Refused because there is one, or unknown: what is stored counts.
		winner, readErr := j.decisionOnce(ctx, ref)
		switch {
		case readErr == nil:
			return winner, winner.DecisionID == d.DecisionID, nil
		case errors.Is(readErr, ErrNotFound):
			if full(err) && !doubt {
				return nil, false, fmt.Errorf("journal: %s: %w (%w)", Decisions, ErrFull, err)
			}
		case ctx.Err() == nil && !transient(readErr):
			return nil, false, readErr
		}
		doubt = doubt || !full(err)
		if ctx.Err() == nil {
			why = cause(err, readErr)
		}
		if !b.Sleep(ctx) {
			return nil, false, because(unknown(ctx, err), why)
		}
	}
}

// room is the largest decision, in bytes. What says that it was made is a
// message too, with a summary beside what was decided.
func (j *JetStream) room() int {
	if p := j.nc.MaxPayload(); p > 0 {
		return min(MaxDecisionMsg, int(p)-32<<10)
	}
	return MaxDecisionMsg // no server has told its limit yet
}

// unknown is the error of a write whose outcome could not be found out before
// ctx ended.
func unknown(ctx context.Context, last error) error {
	return fmt.Errorf("%w: %w (last: %w)", ErrUnknown, ctx.Err(), last)
}

// Decision implements Journal.
func (j *JetStream) Decision(ctx context.Context, ref subject.Ref) (*StoredDecision, error) {
	return j.verify(j.get(ctx, Decisions, getRequest{Last: subject.Decision(ref)}))
}

func (j *JetStream) decisionOnce(ctx context.Context, ref subject.Ref) (*StoredDecision, error) {
	return j.verify(j.getOnce(ctx, Decisions, getRequest{Last: subject.Decision(ref)}))
}

func (j *JetStream) verify(found *stored, err error) (*StoredDecision, error) {
	if err != nil {
		return nil, err
	}
	m := found.message()
	_, keys := j.current()
	d, err := Verify(keys, m)
	if errors.Is(err, ErrUnsigned) {
		j.log.Error("a decision without a valid signature is in the record", "subject", m.Subject, "seq", m.Seq)
	}
	return d, err
}

// Verify reads a stored decision and checks its signature; ErrUnsigned if no
// key of keys made it for the subject it is stored under.
func Verify(keys map[string]ed25519.PublicKey, m *Message) (*StoredDecision, error) {
	h := nats.Header(m.Header)
	if err := hitl.Verify(keys, h.Get(hitl.HeaderSigner), h.Get(hitl.HeaderSignature), m.Subject, m.Data); err != nil {
		return nil, fmt.Errorf("%w: %s at %d: %w", ErrUnsigned, m.Subject, m.Seq, err)
	}
	d, err := hitl.ParseDecision(m.Data)
	if err != nil {
		return nil, fmt.Errorf("journal: decision %s at %d: %w", m.Subject, m.Seq, err)
	}
	return &StoredDecision{Decision: d, Seq: m.Seq, Time: m.Time, Trace: trace.Read(m.Header)}, nil
}

// Request implements Journal.
func (j *JetStream) Request(ctx context.Context, ref subject.Ref) (*Message, error) {
	at := subject.Request(ref)
	m, err := j.get(ctx, Requests, getRequest{Last: at})
	if errors.Is(err, ErrNotFound) {
		if _, err = j.get(ctx, Mailbox, getRequest{Last: subject.Left(at)}); err == nil {
			return nil, ErrLeft
		}
		if errors.Is(err, ErrNotFound) { // it may have been passed on between the two looks
			m, err = j.get(ctx, Requests, getRequest{Last: at})
		}
	}
	if err != nil {
		return nil, err
	}
	return m.message(), nil
}

// Left implements Journal.
func (j *JetStream) Left(ctx context.Context, at string) (*Message, error) {
	m, err := j.get(ctx, Mailbox, getRequest{Last: subject.Left(at)})
	if err != nil {
		return nil, err
	}
	return m.message(), nil
}

// DeleteRequest implements Journal.
func (j *JetStream) DeleteRequest(ctx context.Context, seq uint64) error {
	err := j.call(ctx, "STREAM.MSG.DELETE."+Requests, spec{"seq": seq, "no_erase": true}, nil)
	switch apiCode(err) {
	case codeSeqNotFound:
		return nil
	case codeDeleteFailed:
		// Also the server's word for a message that is gone.
		if _, readErr := j.get(ctx, Requests, getRequest{Seq: seq}); errors.Is(readErr, ErrNotFound) {
			return nil
		}
	}
	return err
}

// WriteEvent implements Journal.
func (j *JetStream) WriteEvent(ctx context.Context, subj string, data []byte) (uint64, error) {
	header := nats.Header{expectHeader: {expectNone}}
	var b pace.Backoff
	var why error
	for {
		seq, err := j.publish(ctx, Events, subj, header, data)
		if err == nil {
			return seq, nil
		}
		if code := apiCode(err); soon(err) {
			if !run.Pause(ctx, pace.Soon()) {
				return 0, unknown(ctx, err)
			}
			continue
		} else if code != codeWrongLast && !full(err) && !transient(err) && ctx.Err() == nil {
			return 0, err
		}
		m, readErr := j.getOnce(ctx, Events, getRequest{Last: subj})
		switch {
		case readErr == nil:
			return m.Seq, nil
		case errors.Is(readErr, ErrNotFound):
		case ctx.Err() == nil && !transient(readErr):
			return 0, readErr
		}
		if ctx.Err() == nil {
			why = cause(err, readErr)
		}
		if !b.Sleep(ctx) {
			return 0, because(unknown(ctx, err), why)
		}
	}
}

// WriteGatewayState implements Journal.
func (j *JetStream) WriteGatewayState(ctx context.Context, s subject.Session, data []byte) error {
	return j.write(ctx, Events, subject.GatewayState(s), data)
}

// Enqueue implements Journal. After an unknown outcome the start may be stored
// twice; a session is claimed once all the same.
func (j *JetStream) Enqueue(ctx context.Context, st *hitl.Start) error {
	data, err := hitl.Marshal(st)
	if err != nil {
		return fmt.Errorf("journal: encode start: %w", err)
	}
	return j.write(ctx, Work, subject.Work(st.Tenant, st.Pool), data)
}

// write stores data at least once.
func (j *JetStream) write(ctx context.Context, stream, subj string, data []byte) error {
	var b pace.Backoff
	for {
		_, err := j.publish(ctx, stream, subj, nil, data)
		if err == nil || ctx.Err() == nil && !transient(err) {
			return err
		}
		if !b.Sleep(ctx) {
			return unknown(ctx, err)
		}
	}
}

// Floors implements Journal.
func (j *JetStream) Floors(ctx context.Context) (intake, sweeper uint64, err error) {
	var in, sw consumerInfo
	if err := j.call(ctx, "CONSUMER.INFO."+Requests+"."+IntakeConsumer, nil, &in); err != nil {
		return 0, 0, err
	}
	if err := j.call(ctx, "CONSUMER.INFO."+Decisions+"."+SweeperConsumer, nil, &sw); err != nil {
		return 0, 0, err
	}
	return in.AckFloor.Stream, sw.AckFloor.Stream, nil
}

// NotifierListens reports whether a notifier of a tenant waits for the next event
// right now. One that is busy with an event does not wait for a moment.
func (j *JetStream) NotifierListens(ctx context.Context, tenant string) (bool, error) {
	var info consumerInfo
	err := j.call(ctx, "CONSUMER.INFO."+Events+"."+NotifierDurable(tenant), nil, &info)
	return info.NumWaiting > 0, err
}

// Position implements Journal.
func (j *JetStream) Position(ctx context.Context, stream string) (Position, error) {
	var info streamInfo
	if err := j.call(ctx, "STREAM.INFO."+stream, nil, &info); err != nil {
		return Position{}, err
	}
	return Position{First: info.State.First, Last: info.State.Last, Created: info.Created, Now: info.Now}, nil
}
