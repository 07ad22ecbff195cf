package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// stageTime is when everything on a stage was stored.
var stageTime = time.Now().UTC()

// stageDeadline is how long the request of a plot waits that expires: less than
// what is lately, so that nothing on a stage is old.
const stageDeadline = lately / 2

// desk is the journal of one gateway on a stage. Faults are planted here: they
// are what a gateway would do that does not keep the order of design.
type desk struct {
	*stage
	g *gate
}

var _ journal.Journal = (*desk)(nil)

// op does one call. Where has is set, others may come between the call and its
// caller's knowing: between these two the caller touches what it shares.
func (d *desk) op(name string, has bool, vain func() bool, do func() error) error {
	if err := d.call(name, vain); err != nil {
		return err
	}
	err := do()
	if has {
		if err2 := d.call(name+" has", nil); err2 != nil {
			return err2
		}
	}
	return err
}

func (d *desk) Decide(_ context.Context, ref subject.Ref, dec *hitl.Decision) (winner *journal.StoredDecision, won bool, err error) {
	err = d.op("decides", true, func() bool { return d.streams[journal.Decisions].last > 0 && d.plot.fault == "" }, func() error {
		s := d.streams[journal.Decisions]
		if s.last == 0 || d.plot.fault == "expects nothing" {
			s.put(subject.Decision(ref), nil)
			s.decs = append(s.decs, dec)
		}
		winner = s.decision()
		won = winner.DecisionID == dec.DecisionID
		d.learn("%s %v", winner.Principal.ID, won)
		return nil
	})
	return winner, won, err
}

// decision is the newest one, or nil.
func (s *shelf) decision() *journal.StoredDecision {
	if s.last == 0 {
		return nil
	}
	return &journal.StoredDecision{Decision: s.decs[s.last-1], Seq: s.last, Time: stageTime}
}

func (d *desk) Decision(_ context.Context, ref subject.Ref) (w *journal.StoredDecision, err error) {
	intake := strings.Contains(d.running.name, "intake")
	err = d.op("reads decision", intake, func() bool { return intake && d.streams[journal.Decisions].last > 0 }, func() error {
		w = d.streams[journal.Decisions].decision()
		d.learn("%v", w != nil)
		if w == nil || d.plot.fault == "intake does not look" && intake {
			return journal.ErrNotFound
		}
		return nil
	})
	return w, err
}

func (d *desk) Request(_ context.Context, ref subject.Ref) (m *journal.Message, err error) {
	if m, err = d.get(journal.Requests, subject.Request(ref)); !errors.Is(err, journal.ErrNotFound) || !d.plot.mailed() {
		return m, err
	}
	if _, err = d.Left(context.Background(), subject.Request(ref)); err == nil {
		return nil, journal.ErrLeft
	}
	if errors.Is(err, journal.ErrNotFound) && d.plot.fault != "looks once" { // it may have been passed on between the two looks
		m, err = d.get(journal.Requests, subject.Request(ref))
	}
	return m, err
}

// get reads the newest message under a subject.
func (d *desk) get(stream, subj string) (m *journal.Message, err error) {
	err = d.op("reads "+short(subj)+" in "+stream, false, nil, func() error {
		found := d.streams[stream].find(subj)
		if found == nil {
			d.learn("none")
			return journal.ErrNotFound
		}
		c := *found
		m = &c
		d.learn("%d", m.Seq)
		return nil
	})
	return m, err
}

func (d *desk) DeleteRequest(_ context.Context, seq uint64) error {
	return d.op("deletes", false, func() bool { return d.at(journal.Requests, seq) == nil }, func() error {
		if d.plot.fault == "deletes nothing" {
			return nil
		}
		d.streams[journal.Requests].drop(seq)
		d.intake.settle(seq) // the server does so
		return nil
	})
}

func (d *desk) WriteEvent(_ context.Context, subj string, data []byte) (seq uint64, err error) {
	open := strings.HasSuffix(subj, subject.Open)
	err = d.op("writes "+short(subj), !open, func() bool { return d.streams[journal.Events].find(subj) != nil }, func() error {
		s := d.streams[journal.Events]
		if m := s.find(subj); m != nil {
			seq = m.Seq
		} else if open && d.plot.fault == "closes what never opened" && !strings.Contains(d.running.name, "intake") {
			seq = s.last
		} else {
			seq = s.put(subj, data)
		}
		d.learn("%d", seq)
		return nil
	})
	return seq, err
}

func (d *desk) Floors(context.Context) (intake, sweeper uint64, err error) {
	if err := d.call("floors", nil); err != nil {
		return 0, 0, err
	}
	intake, sweeper = d.intake.floor(), d.sweeper.floor()
	switch d.plot.fault {
	case "takes the tail for swept":
		sweeper = d.streams[journal.Decisions].last
	case "shows what intake has not seen":
		intake = d.streams[journal.Requests].last
	}
	d.learn("%d %d", intake, sweeper)
	return intake, sweeper, nil
}

func (d *desk) Position(_ context.Context, stream string) (journal.Position, error) {
	if stream == journal.Events {
		if err := d.call("position", nil); err != nil {
			return journal.Position{}, err
		}
	}
	last := d.streams[stream].last
	d.learn("%d", last)
	return journal.Position{First: 1, Last: last, Created: stageTime}, nil
}

func (d *desk) Read(_ context.Context, stream string, from uint64, filters []string, fn func(journal.Message) error) error {
	// The closed events fill the list of what was decided lately, and all that
	// comes after the position comes again.
	if stream != journal.Events {
		if err := d.call("reads "+stream, nil); err != nil {
			return err
		}
	}
	var msgs []journal.Message
	for _, m := range d.streams[stream].msgs {
		cxl := strings.HasPrefix(m.Subject, "hitl.cxl.")
		open := stream == journal.Events && !strings.HasSuffix(m.Subject, subject.Closed)
		if m.Seq >= from && (len(filters) == 0 || !cxl && !open) {
			msgs = append(msgs, m)
			d.learn("%d", m.Seq)
		}
	}
	for _, m := range msgs {
		if err := fn(m); err != nil {
			return err
		}
	}
	return nil
}

func (d *desk) Last(_ context.Context, stream string, filters []string, fn func(journal.Message) error) error {
	if stream != journal.Events && stream != journal.Requests || slices.Contains(filters, "hitl.sgw.>") {
		return nil // no worker tells of any session
	}
	if err := d.call("reads last of "+stream, nil); err != nil {
		return err
	}
	for _, f := range filters {
		if m := d.streams[stream].find(f); m != nil {
			d.learn("%d", m.Seq)
			if err := fn(*m); err != nil {
				return err
			}
		}
	}
	return nil
}

// What a stage plays itself.
func (d *desk) Intake(context.Context, int, func(context.Context, journal.Delivery)) error {
	return errors.ErrUnsupported
}

func (d *desk) Collect(context.Context, int, func(context.Context, journal.Delivery)) error {
	return errors.ErrUnsupported
}

func (d *desk) Sweep(context.Context, int, func(context.Context, journal.Delivery)) error {
	return errors.ErrUnsupported
}

func (d *desk) Follow(context.Context, string, uint64, []string, func(journal.Message) error) error {
	return errors.ErrUnsupported
}

func (d *desk) WriteGatewayState(context.Context, subject.Session, []byte) error {
	return errors.ErrUnsupported
}
func (d *desk) Enqueue(context.Context, *hitl.Start) error { return errors.ErrUnsupported }

func (s *stage) decide(p *decider, g *gate) {
	p.task = s.spawn(g, p.name, func() {
		t := s.running
		a := api.Attempt{Principal: person(p.name), Rights: role.Everything(), Channel: "web", WaiveDigest: true}
		a.RequestID, a.Decision = s.plot.ref.String(), "allow"
		if p.name == "bob" {
			a.Decision = "deny"
		}
		late := s.late
		rec := g.e.Decide(context.Background(), a)
		if t.dead {
			return
		}
		if late && rec.Status == hitl.Accepted {
			p.task, p.told = nil, "yes, after the deadline"
			return
		}
		p.task = nil
		if rec.Decision == nil {
			if s.plot.mailed() && rec.Status == hitl.Unavailable {
				return // it is on its way: again
			}
			if s.streams[journal.Decisions].last > 0 || s.streams[journal.Requests].find(subject.Request(s.plot.ref)) != nil {
				p.told = fmt.Sprint("nothing: ", rec.Status, rec.Error)
			}
			return // asked for before it was there: again
		}
		p.told, g.knows = rec.Decision.DecisionID, true
	})
	s.wake(p.task)
}

// shown is what a gateway's people see of the request: it, or nothing.
func (s *stage) shown(g *gate) bool {
	if !g.up {
		return false
	}
	list, _ := g.e.view.ListOpen(api.List{Limit: 1})
	return len(list) > 0
}

// events counts the open and closed events.
func (s *stage) events() (open, closed int, closedSeq uint64, inOrder bool) {
	inOrder = true
	for _, m := range s.streams[journal.Events].msgs {
		if strings.HasSuffix(m.Subject, subject.Open) {
			open++
		} else {
			closed++
			closedSeq = m.Seq
			inOrder = inOrder && (open > 0 || s.plot.refused || s.plot.spent && s.streams[journal.Decisions].decision().Outcome == hitl.InvalidIX)
		}
	}
	return open, closed, closedSeq, inOrder
}

// check says which promise the present state breaks.
func (s *stage) check() string {
	open, closed, closedSeq, inOrder := s.events()
	decisions := s.streams[journal.Decisions].last
	switch {
	case open > 1:
		return "two open events"
	case closed > 1:
		return "two closed events"
	case !inOrder:
		return "closed before it was open"
	case decisions > 1:
		return "two decisions"
	case decisions == 0 && closed > 0:
		return "closed without a decision"
	case (s.plot.asks > s.asks || s.plot.leaves > s.leaves) && decisions == 0 && !s.stored():
		return "an acknowledged request is lost"
	}
	for _, g := range s.gates {
		switch {
		case !s.shown(g):
		case s.plot.refused:
			return g.name + " shows what is refused"
		case closedSeq > 0 && uint64(g.e.view.Position().Events) >= closedSeq:
			return g.name + " shows what it has seen closed"
		case g.clean:
			return g.name + " shows what was decided before it started"
		case g.knows:
			return g.name + " shows what it told to be decided"
		}
	}
	return ""
}

// final says which promise is broken where nothing more can happen.
func (s *stage) final() string {
	decisions := s.streams[journal.Decisions]
	for _, t := range s.tasks {
		return t.name + " waits for ever"
	}
	if len(s.streams[journal.Mailbox].msgs) != 0 || len(s.mailbox.pending) != 0 {
		return "something stays where it was left"
	}
	if s.plot.people == nil && s.plot.withdraw+s.plot.backs == 0 && !s.plot.expires && !s.plot.refused && (!s.plot.poor || decisions.last == 0) {
		for _, g := range s.gates {
			if !s.shown(g) {
				return g.name + " does not show what waits"
			}
		}
		return ""
	}
	_, closed, _, _ := s.events()
	switch {
	case decisions.last != 1:
		return "no decision"
	case closed != 1:
		return "no closed event"
	case len(s.streams[journal.Requests].msgs) != 0:
		return "what is decided stays among the requests"
	case s.sweeper.floor() != 1:
		return "not swept"
	}
	d := decisions.decision()
	for _, p := range s.people {
		if p.told != d.DecisionID {
			return p.name + " was told " + p.told
		}
	}
	for _, g := range s.gates {
		if s.shown(g) {
			return g.name + " shows what is decided"
		}
	}
	return ""
}

// digest stands for a state: where two are equal, what can follow is, too.
func (s *stage) digest() uint64 {
	h := fnv.New64a()
	put := func(format string, args ...any) { _, _ = fmt.Fprintf(h, format, args...) }
	for _, name := range []string{journal.Requests, journal.Mailbox, journal.Events} {
		for _, m := range s.streams[name].msgs {
			put("%d %s,", m.Seq, m.Subject)
		}
		put("%d;", s.streams[name].last)
	}
	for _, d := range s.streams[journal.Decisions].decs {
		put("%s,", d.Principal.ID)
	}
	for _, d := range []*durable{&s.intake, &s.sweeper, &s.mailbox} {
		put("%d %v", d.next, d.back)
		for _, g := range s.gates {
			for seq := range uint64(8) {
				if d.pending[seq] == g {
					put("%s%d", g.name, seq)
				}
			}
		}
	}
	var tasks []string
	for _, t := range s.tasks {
		tasks = append(tasks, fmt.Sprintf("%s %s %d,", t.name, t.op, t.seen))
	}
	slices.Sort(tasks)
	put("%v %d %d %d %d %d %d %v;", tasks, s.asks, s.leaves, s.withdraw, s.backs, s.crashes, s.twice, s.late)
	for _, g := range s.gates {
		put("%v %v %v %v %s %s;", g.up, g.busy, g.clean, g.knows, s.sight(g), g.looked)
	}
	for _, p := range s.people {
		put("%v %v;", p.told != "", p.task != nil)
	}
	return h.Sum64()
}

// sight is all that a gateway's projection holds.
func (s *stage) sight(g *gate) string {
	if g.e == nil {
		return ""
	}
	p, held := g.e.view.Pending(s.plot.ref)
	g.e.mu.Lock()
	var f ending
	if g.e.finishing[s.plot.ref] != nil {
		f = *g.e.finishing[s.plot.ref]
	}
	g.e.mu.Unlock()
	return fmt.Sprint(held, p.Opened, p.Decided, p.Seq, g.e.view.Settled(s.plot.ref) != nil, g.e.view.Position().Events,
		g.e.view.Mark(), f.users, f.telling)
}

// found is what trying everything has shown.
type found struct {
	states, histories, ends int
	wrong                   string   // the first broken promise
	how                     []string // and the way to it
}

// anyOrder is no limit.
const anyOrder = -1

// everything tries every order in which a plot's steps can happen. A state that
// was reached before is not gone on from again. With a limit, only orders in
// which a task that could go on has to wait for another at most so many times
// are tried: few faults need more than two such interruptions.
func everything(p *plot) found {
	limit := p.limit
	var f found
	type place struct {
		digest uint64
		last   int // task, which could go on; only with a limit
		left   int
	}
	seen := map[place]bool{}
	var path []int // the choices
	var width []int
	for {
		f.histories++
		s := newStage(p)
		var how []string
		at := place{left: limit}
		for depth := 0; ; depth++ {
			moves := s.moves()
			goesOn := slices.ContainsFunc(moves, func(m move) bool { return m.task == at.last && m.task != 0 })
			if limit != anyOrder && goesOn && at.left == 0 {
				moves = slices.DeleteFunc(moves, func(m move) bool { return m.task != at.last })
			}
			if depth >= len(path) {
				at.digest = s.digest()
				if seen[at] {
					break
				}
				seen[at] = true
				if f.wrong = s.check(); f.wrong != "" {
					break
				}
			}
			if len(moves) == 0 {
				f.ends++
				f.wrong = s.final()
				break
			}
			if depth >= len(path) {
				path, width = append(path, 0), append(width, len(moves))
			}
			m := moves[path[depth]]
			how = append(how, m.name)
			m.do()
			if limit != anyOrder {
				if goesOn && m.task != at.last {
					at.left--
				}
				at.last = m.task
			}
		}
		s.end()
		if f.wrong != "" {
			f.how = how
			break
		}
		for len(path) > 0 && path[len(path)-1] == width[len(path)-1]-1 {
			path, width = path[:len(path)-1], width[:len(width)-1]
		}
		if len(path) == 0 {
			break
		}
		path[len(path)-1]++
	}
	f.states = len(seen)
	return f
}

// The plots say how far this goes: those without a limit are tried in any order,
// the others up to so many interruptions.
//
// In whatever order intake, decisions, follow-up, sweeper, a request that is
// sent again, a deadline, crashes and starts come: one decision, one open and one closed
// event in that order, no request lost, the one sent again deleted again, the
// asker's decision there, and nothing shown as open by a gateway that knows of
// its decision, nor anything allowed by who came after the deadline.
func TestAllInterleavings_B48_B50_invariant1_invariant3_invariant8(t *testing.T) {
	t.Parallel()
	conn := newWorld(t).connect()
	for _, p := range plots(*allPlots) {
		p.conn = conn
		t.Run(p.name, func(t *testing.T) {
			began := time.Now()
			f := everything(p)
			t.Logf("%d states, %d histories, %d ends, %s", f.states, f.histories, f.ends, time.Since(began).Round(time.Millisecond))
			require.Empty(t, f.wrong, strings.Join(f.how, "\n"))
			require.Positive(t, f.ends)
		})
	}
}

func TestInterleavingsFindPlantedFaults(t *testing.T) {
	t.Parallel()
	conn := newWorld(t).connect()
	killed := func(p *plot) { p.crashes, p.asks = 1, 1 }
	starts := func(p *plot) { p.idle, p.quiet, p.asks = 1, true, 1 }
	for fault, p := range map[string]*plot{
		"takes the tail for swept":       asked("", 1, killed),
		"follow after showing":           asked("", anyOrder, starts),
		"shows what intake has not seen": asked("", 1, func(p *plot) { p.crashes = 1 }),
		"closes what never opened":       asked("", 0, killed),
		"intake does not look":           asked("", 1),
		"deletes nothing":                asked("", 1),
		"acknowledges first":             asked("", 1, killed),
		"its clock stands still":         asked("", 0, func(p *plot) { p.expires, p.asks = true, 1 }),
		"expects nothing":                asked("", 0, func(p *plot) { p.gateways, p.people = 2, []string{"ada", "bob"} }),
	} {
		t.Run(fault, func(t *testing.T) {
			p.fault, p.conn = fault, conn
			f := everything(p)
			require.NotEmpty(t, f.wrong, "in %d states", f.states)
			t.Logf("%s, after %d histories of %d steps", f.wrong, f.histories, len(f.how))
		})
	}
}
