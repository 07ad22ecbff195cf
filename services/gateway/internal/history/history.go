// Package history searches the record of decisions, newest first. It reads the
// stream backwards in windows, as far as one search may: whoever wants more goes
// on where it stopped. Every hit was made of a signed decision, and is looked at
// only as its reader may see it.
package history

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/policy"
	"github.com/banksman/banksman/services/gateway/internal/record"
	"github.com/banksman/banksman/services/gateway/internal/role"
	"github.com/banksman/banksman/services/gateway/internal/sight"
)

// What one search may cost, before it hands out where it stopped.
const (
	maxBytes   = 32 << 20
	maxTime    = 2 * time.Second
	atOnce     = 2 // searches of a gateway; others wait for their turn
	firstSpan  = 64
	leastSpan  = 16
	mostSpan   = 512
	wideBelow  = 1 << 20 // bytes of a window after which the next one is wider
	closeAbove = 4 << 20
	// tolerance is how far the clock of a gateway may be from the server's: the
	// record is in the order of the server's.
	tolerance = time.Minute
)

// Record is what a search needs of the journal.
type Record interface {
	Position(ctx context.Context, stream string) (journal.Position, error)
	Read(ctx context.Context, stream string, from uint64, filters []string, fn func(journal.Message) error) error
	Last(ctx context.Context, stream string, filters []string, fn func(journal.Message) error) error
}

// Options wire a History. All are required.
type Options struct {
	Record Record
	Keys   func() map[string]ed25519.PublicKey // that may have signed decisions
	Logger *slog.Logger
	Policy policy.Policy
	Clock  func() time.Time
}

// History searches. It is safe for concurrent use.
type History struct {
	Options
	turn chan struct{} // capacity atOnce, never closed
}

// New makes a History.
func New(o Options) *History {
	return &History{Options: o, turn: make(chan struct{}, atOnce)}
}

// errEnd ends the reading of a window.
var errEnd = errors.New("end of the window")

// Search finds what s may see. Bad input is an *hitl.InvalidError. Next of the
// page is empty where the record has nothing older; a page may be short, or
// empty, and have a Next.
func (h *History) Search(ctx context.Context, s role.Set, q Query) (wire.ListReply, error) {
	if inv := q.check(); inv != nil {
		return wire.ListReply{}, inv
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return wire.ListReply{}, ctx.Err()
	}
	pos, err := h.Record.Position(ctx, journal.Decisions)
	if err != nil {
		return wire.ListReply{}, err
	}
	end := pos.Last + 1
	if q.Before != "" {
		created, seq, ok := parsePlace(q.Before)
		if !ok || created != pos.Created.UnixNano() || seq > end {
			return wire.ListReply{}, hitl.Invalid("before", "is no place of this record: begin again without it")
		}
		end = seq
	}
	if !q.Until.IsZero() {
		if end, err = h.skip(ctx, pos.First, end, q.Until.Add(tolerance)); err != nil {
			return wire.ListReply{}, err
		}
	}
	w := &walk{h: h, s: s, q: &q, words: terms(q.Text), end: end, first: max(pos.First, 1)}
	if err := w.run(ctx); err != nil {
		return wire.ListReply{}, err
	}
	out := wire.ListReply{Interactions: w.hits, ReadTo: w.reached}
	if w.end > w.first {
		out.Next = place(pos.Created, w.end)
	}
	return out, h.trails(ctx, s, out.Interactions)
}

// skip moves the end back to what was stored before t, or a little later: what
// is left of that is looked at like anything else.
func (h *History) skip(ctx context.Context, lo, hi uint64, t time.Time) (uint64, error) {
	for hi-min(lo, hi) > firstSpan {
		mid := lo + (hi-lo)/2
		var first *journal.Message
		err := h.Record.Read(ctx, journal.Decisions, mid, nil, func(m journal.Message) error {
			first = &m
			return errEnd
		})
		switch {
		case err != nil && !errors.Is(err, errEnd):
			return 0, err
		case first == nil || first.Seq >= hi || first.Time.After(t):
			hi = mid
		default:
			lo = first.Seq + 1
		}
	}
	return hi, nil
}

// walk is one search on its way back.
type walk struct {
	h     *History
	s     role.Set
	q     *Query
	words []string
	first uint64
	end   uint64 // what is below it has not been looked at
	bytes int
	hits  []wire.Interaction // newest first
	// reached is when the oldest decision that was looked at was stored.
	reached *time.Time
}

func (w *walk) run(ctx context.Context) error {
	w.hits = []wire.Interaction{}
	began := w.h.Clock()
	span := uint64(firstSpan)
	for w.end > w.first && len(w.hits) < w.q.Limit {
		before := w.bytes
		early, err := w.window(ctx, max(w.first, w.end-min(span, w.end-1)))
		if err != nil {
			return err
		}
		if early {
			w.end = w.first
			return nil
		}
		if w.bytes >= maxBytes || w.h.Clock().Sub(began) >= maxTime {
			return nil
		}
		switch cost := w.bytes - before; {
		case cost < wideBelow:
			span = min(span*2, mostSpan)
		case cost > closeAbove:
			span = max(span/4, leastSpan)
		}
	}
	return nil
}

type hit struct {
	seq uint64
	ix  wire.Interaction
}

// window looks at what is from lo on and below the end, and moves the end. It
// says whether all that is older was decided before what is looked for.
func (w *walk) window(ctx context.Context, lo uint64) (early bool, err error) {
	var found []hit // oldest first, no more than are wanted still
	room := w.q.Limit - len(w.hits)
	var oldest *time.Time
	err = w.h.Record.Read(ctx, journal.Decisions, lo, nil, func(m journal.Message) error {
		if m.Seq >= w.end {
			return errEnd
		}
		w.bytes += len(m.Data)
		if oldest == nil {
			oldest = &m.Time
		}
		if ix, ok := w.look(m); ok {
			if found = append(found, hit{m.Seq, ix}); len(found) > room {
				found = found[1:]
			}
		}
		if m.Seq == w.end-1 {
			return errEnd
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnd) {
		return false, err
	}
	if oldest != nil {
		w.reached = oldest
	}
	slices.Reverse(found)
	for _, f := range found {
		w.hits = append(w.hits, f.ix)
	}
	w.end = lo
	if len(found) == room { // there may be more in this window
		w.end = found[room-1].seq
	}
	return oldest != nil && !w.q.From.IsZero() && oldest.Before(w.q.From.Add(-tolerance)) && len(found) < room, nil
}

// look makes an interaction of a stored decision and says whether it is looked
// for.
func (w *walk) look(m journal.Message) (wire.Interaction, bool) {
	parsed, err := subject.Parse(m.Subject)
	if err != nil {
		return wire.Interaction{}, false
	}
	d, err := journal.Verify(w.h.Keys(), &m)
	if err != nil {
		w.h.Logger.Warn("a stored decision does not count and is not found", "subject", m.Subject, "seq", m.Seq, "error", err)
		return wire.Interaction{}, false
	}
	ix, err := w.h.interaction(parsed.Ref(), d)
	if err != nil {
		w.h.Logger.Warn("a stored decision cannot be shown", "subject", m.Subject, "seq", m.Seq, "error", err)
		return wire.Interaction{}, false
	}
	seen, ok := sight.Interaction(w.s, ix)
	if !ok || !w.q.matches(&seen, w.words) {
		return wire.Interaction{}, false
	}
	if seen.Body != nil {
		seen.Body = card.Small(seen.Body)
	}
	return seen, true
}

func (h *History) interaction(ref subject.Ref, d *journal.StoredDecision) (wire.Interaction, error) {
	out := wire.Interaction{ID: ref.ID, State: wire.StateClosed, Outcome: d.Outcome, Decision: d.WithoutRequest()}
	r, a, err := record.Decided(&h.Policy, ref, d)
	if err != nil {
		return out, err
	}
	if r == nil {
		out.Summary = record.Unreadable(a, d)
	} else {
		raw, err := d.Request()
		if err != nil {
			return out, err
		}
		out.Summary, out.Body = card.Summarize(r, d.Digest, a), card.Body(r, raw, a)
	}
	out.ServerTime = h.Clock().UTC()
	return out, nil
}

// trails adds what the askers said of their decisions.
func (h *History) trails(ctx context.Context, s role.Set, list []wire.Interaction) error {
	var filters []string
	byKey := map[string]int{}
	for i := range list {
		ref, ok := subject.ParseRef(list[i].Key)
		if !ok {
			continue
		}
		byKey[list[i].Key] = i
		filters = append(filters, subject.Ack(ref, hitl.Delivered), subject.Ack(ref, hitl.Applied), subject.Ack(ref, hitl.Refused))
	}
	if len(filters) == 0 {
		return nil
	}
	err := h.Record.Last(ctx, journal.Transcripts, filters, func(m journal.Message) error {
		a, ok := card.ReadAck(m)
		if !ok {
			return nil
		}
		p, err := subject.Parse(m.Subject)
		if err != nil {
			return nil //nolint:nilerr // what is no subject of ours is nobody's word
		}
		if i, ok := byKey[p.Ref().String()]; ok && a.DecisionID == list[i].Decision.DecisionID {
			list[i].Trail = append(list[i].Trail, a)
		}
		return nil
	})
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return err
	}
	for i := range list {
		slices.SortFunc(list[i].Trail, func(a, b hitl.Ack) int { return a.At.Compare(b.At) })
		list[i], _ = sight.Interaction(s, list[i]) // the words of an asker are detail
	}
	return nil
}

// place names a sequence of a stream that was made at a time.
func place(created time.Time, seq uint64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", created.UnixNano(), seq))
}

// parsePlace takes what place wrote, and nothing else that says the same.
func parsePlace(text string) (created int64, seq uint64, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return 0, 0, false
	}
	before, after, _ := strings.Cut(string(raw), ".")
	created, err = strconv.ParseInt(before, 10, 64)
	if err == nil {
		seq, err = strconv.ParseUint(after, 10, 64)
	}
	return created, seq, err == nil && seq > 0 && place(time.Unix(0, created), seq) == text
}
