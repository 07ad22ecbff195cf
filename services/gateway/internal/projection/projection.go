// Package projection turns the streams into what people see: the open set, the
// sessions, what was decided lately, and the updates that watchers get. It
// decides nothing and writes nothing; package engine feeds it and does both.
package projection

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/due"
	"github.com/banksman/banksman/services/gateway/internal/quota"
	"github.com/banksman/banksman/services/gateway/internal/recent"
	"github.com/banksman/banksman/services/gateway/internal/roster"
)

const (
	ringSize       = 4096 // updates kept for clients that come back
	maxEarlyAcks   = 8    // of one interaction, whose decision is not known here
	beatInterval   = 5 * time.Second
	UnreachableAge = 3 * beatInterval
)

// Options wire a Projection; all are required. The funcs are called with the
// projection's lock held: they must not block and not call it.
type Options struct {
	Logger      *slog.Logger
	Clock       func() time.Time
	OrphanAfter time.Duration
	Recent      int // how many decided interactions, and ended sessions, are kept for lists
	// Orphan is told what an ended session still waits for.
	Orphan func(ref subject.Ref, why string)
	// Doubtful is told of a dead session in which something waits; judged: dead by a
	// gateway's word, which its worker's next heartbeat takes back.
	Doubtful func(s subject.Session, judged bool)
	// Alarm, of capacity 1, gets a value when the earliest deadline has changed.
	Alarm chan<- struct{}
	// Ledger counts what each owner has open.
	Ledger *quota.Ledger
}

// Projection is safe for concurrent use.
type Projection struct {
	opts Options
	log  *slog.Logger
	now  func() time.Time

	mu        sync.Mutex
	open      map[subject.Ref]*Entry
	byID      map[string][]subject.Ref // open ones, by plain id
	orders    map[string]*order        // open ones, by tenant
	sessions  map[subject.Session]*session
	index     index      // of sessions
	resting   []*session // those that may be forgotten, by when they came to rest
	workers   *roster.Roster
	closed    *recent.List
	early     recent.Acks
	decided   map[subject.Ref]*hitl.Decision // decided here, closed event not applied yet; nil: not stored either
	deadlines due.Queue[*Entry]
	pos       cursor.Position
	ring      []api.Update
	ringFrom  cursor.Position // the oldest cursor that the ring can serve
	moved     chan struct{}   // closed when pos moves; nil if nobody waits for it
	watchers  []watcher       // in the order in which they came
	nextWatch int
	dirty     map[subject.Session][]wire.Closed

	flush chan struct{} // capacity 1: some session is dirty
}

// New makes an empty Projection.
func New(o Options) *Projection {
	return &Projection{
		opts: o, log: o.Logger, now: o.Clock,
		open:     map[subject.Ref]*Entry{},
		byID:     map[string][]subject.Ref{},
		orders:   map[string]*order{},
		sessions: map[subject.Session]*session{},
		index:    newIndex(),
		workers:  roster.New(UnreachableAge, o.OrphanAfter),
		closed:   recent.New(o.Recent),
		decided:  map[subject.Ref]*hitl.Decision{},
		dirty:    map[subject.Session][]wire.Closed{},
		flush:    make(chan struct{}, 1),
	}
}

// Entry is an interaction for the open set.
type Entry struct {
	card.Admission
	session  subject.Session
	size     int // of the request, in bytes; 0: unknown
	summary  wire.Summary
	raw      []byte            // the exact request where it is small, else nil
	deadline time.Time         // zero: none
	alarm    *due.Item[*Entry] // nil: none
	fresh    bool              // its body was not sent yet
	opened   bool              // its open event was seen: it is on the session's stream
	settled  bool              // its open event says that it was decided before: it never waited
	counted  bool              // against its owner's quota
	acks     []hitl.Ack        // that came before the closed event
}

// NewEntry prepares a request for the open set. It is where the work is, and
// needs no lock.
func NewEntry(r *hitl.Request, raw []byte, digest string, a card.Admission) *Entry {
	kept := a.Card
	a.Card = card.Said(r, a) // once, for both
	en := NewListed(r, len(raw), digest, a)
	en.summary.Body = card.Small(card.Body(r, raw, a))
	en.Card = kept
	if len(raw) <= wire.MaxInline {
		en.raw = raw
	}
	return en
}

// NewListed is NewEntry without what only a request that was just asked needs:
// neither its bytes (size of them) nor its body are kept, and both are read when
// somebody asks for them.
func NewListed(r *hitl.Request, size int, digest string, a card.Admission) *Entry {
	en := &Entry{
		Admission: a, session: subject.NewSession(r.Tenant, r.Owner, r.SessionID), size: size,
		summary: card.Summarize(r, digest, a), deadline: card.Deadline(r, a.RequestedAt),
	}
	en.Reading = nil
	return en
}

// Summary is the interaction's list form.
func (en *Entry) Summary() wire.Summary {
	sum := en.summary
	sum.Body = nil
	return sum
}

// Mark is a moment in a projection's life.
type Mark uint64

// Mark is the present moment. Who admits a request takes it before looking
// whether the request is decided.
func (p *Projection) Mark() Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Mark(p.closed.Added())
}

// Admit shows a request that was not decided at since and whose open event is
// still on its way. It shows nothing where so much was closed since then that nobody
// here knows any more whether this was: then one has to look again. Nor does it where
// the owner's quota is used up: over says which. What is shown already is within it.
func (p *Projection) Admit(en *Entry, since Mark) (ok bool, over *hitl.Field) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.open[en.Ref] != nil:
		return true, nil
	case !p.closed.Since(uint64(since)):
		return false, nil
	case p.closed.Has(en.Ref):
		return true, nil
	}
	if over = p.opts.Ledger.Check(en.owner(), en.size); over != nil {
		return false, over
	}
	p.insert(en)
	p.touch(en.session)
	return true, nil
}

func (en *Entry) owner() quota.Owner { return quota.Owner{Tenant: en.Ref.Tenant, Name: en.Ref.Owner} }

// LoadOpen shows a request whose open event is stored and that was not decided
// at the position the projection began with.
func (p *Projection) LoadOpen(en *Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[en.Ref] == nil && !p.closed.Has(en.Ref) {
		en.opened = true
		p.insert(en)
	}
}

// insert shows an interaction that is neither open nor closed. Called with the
// lock held.
func (p *Projection) insert(en *Entry) {
	if !p.isDecided(en.Ref) {
		p.opts.Ledger.Open(en.owner(), en.size)
		en.counted = true
	}
	en.fresh = true
	p.open[en.Ref] = en
	p.byID[en.summary.RequestID] = append(p.byID[en.summary.RequestID], en.Ref)
	if p.orders[en.Ref.Tenant] == nil {
		p.orders[en.Ref.Tenant] = &order{}
	}
	p.orders[en.Ref.Tenant].add(en)
	s := p.sessionOf(en.session, en.summary.SessionID, en.summary.Tenant, en.summary.Owner)
	s.insert(en)
	if s.known && s.state.State == hitl.StateDead {
		p.opts.Doubtful(s.key, s.judged != nil)
	}
	if !en.deadline.IsZero() {
		p.wait(en, en.deadline)
	}
}

// remove takes an interaction out of the open set. Called with the lock held.
func (p *Projection) remove(ref subject.Ref) *Entry {
	en := p.open[ref]
	if en == nil {
		return nil
	}
	delete(p.open, ref)
	p.orders[ref.Tenant].remove(en)
	p.free(en)
	id := en.summary.RequestID
	refs := slices.DeleteFunc(slices.Clone(p.byID[id]), func(r subject.Ref) bool { return r == ref })
	if len(refs) == 0 {
		delete(p.byID, id)
	} else {
		p.byID[id] = refs
	}
	if s := p.sessions[en.session]; s != nil {
		s.remove(en)
	}
	p.deadlines.Remove(en.alarm)
	return en
}

// free takes an interaction off its owner's quota. Called with the lock held.
func (p *Projection) free(en *Entry) {
	if en.counted {
		p.opts.Ledger.Close(en.owner(), en.size)
		en.counted = false
	}
}

// Pending is what is held of an open interaction.
type Pending struct {
	card.Admission
	Summary     wire.Summary
	Raw         []byte // nil where it is large
	Opened      bool   // its open event was seen
	Decided     bool   // its closed event is on its way
	Unreachable bool   // its worker misses its heartbeats
}

// Pending finds an open interaction.
func (p *Projection) Pending(ref subject.Ref) (Pending, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	en := p.open[ref]
	if en == nil {
		return Pending{}, false
	}
	out := Pending{
		Admission: en.Admission, Summary: en.Summary(), Raw: en.raw, Opened: en.opened, Decided: p.isDecided(ref),
	}
	if s := p.sessions[en.session]; s != nil {
		out.Unreachable = s.known && p.unreachable(s)
	}
	return out, true
}

// Len is how many interactions are open.
func (p *Projection) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Decided hides what has a decision now, whether or not it is here yet. Closed
// has to be called once its closed event is stored.
func (p *Projection) Decided(ref subject.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed.Has(ref) && !p.isDecided(ref) {
		p.decided[ref] = nil
		if en := p.open[ref]; en != nil {
			p.free(en) // its asker may ask for the next thing at once
		}
	}
}

func (p *Projection) isDecided(ref subject.Ref) bool {
	_, ok := p.decided[ref]
	return ok
}

// Closed says that the closed event of d is stored as number seq of the events.
// Where that one has been applied already, nothing else would end the
// interaction.
func (p *Projection) Closed(ref subject.Ref, d *hitl.Decision, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int64(seq) > p.pos.Events {
		p.decided[ref] = d
		return
	}
	delete(p.decided, ref)
	if en := p.remove(ref); en != nil {
		p.touch(en.session)
	}
}

// Lost ends an interaction of which the record knows neither the request nor a
// decision.
func (p *Projection) Lost(ref subject.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if en := p.remove(ref); en != nil {
		p.touch(en.session)
	}
}

// Settled is the decision of an interaction whose closed event is known to be
// stored, else nil. Only the newest are known.
func (p *Projection) Settled(ref subject.Ref) *hitl.Decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.closed.Get(ref); c != nil {
		return c.Decision
	}
	return p.decided[ref]
}

// Due is an interaction whose deadline has come.
type Due struct {
	Ref  subject.Ref
	At   time.Time // its deadline
	Kind string
	Tool string
}

// Due takes out what is due and says how long until the next is, at most limit.
func (p *Projection) Due(limit time.Duration) ([]Due, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	var out []Due
	for _, en := range p.deadlines.Take(now) {
		out = append(out, Due{Ref: en.Ref, At: en.deadline, Kind: en.summary.Kind, Tool: en.summary.ToolName})
	}
	return out, p.deadlines.Next(now, limit)
}

// Again makes an interaction due after d, if it is open still.
func (p *Projection) Again(ref subject.Ref, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if en := p.open[ref]; en != nil && !en.alarm.Waits() {
		p.wait(en, p.now().Add(d))
	}
}

// wait is called with the lock held.
func (p *Projection) wait(en *Entry, until time.Time) {
	var first bool
	if en.alarm, first = p.deadlines.Add(en, until); first {
		signal(p.opts.Alarm)
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
