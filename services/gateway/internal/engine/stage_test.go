package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/projection"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// A stage runs the code of gateways step by step, one goroutine at a time. A
// step is one call of the journal with what its caller does until the next
// call; where a call would begin, the goroutine waits to be chosen. So a list
// of choices is a whole history, and every history can be tried.
type stage struct {
	plot     *plot
	streams  map[string]*shelf
	intake   durable
	sweeper  durable
	mailbox  durable
	gates    []*gate // slots: a crashed gateway comes back in its own
	tasks    []*task // those that have not ended
	running  *task
	parked   chan struct{} // the running task waits at a call, or has ended
	asks     int           // left
	leaves   int
	withdraw int
	backs    int
	crashes  int
	twice    int  // deliveries of what is being worked on
	late     bool // the deadline has come
	people   []*decider
	serial   int
}

// plot is what may happen on a stage.
type plot struct {
	name     string
	conn     *nats.Conn // of which gateways want to know some limits
	raw      []byte     // the request
	ref      subject.Ref
	gateways int  // up at the beginning
	idle     int  // that start at any moment
	quiet    bool // and these take no messages and decide nothing
	asks     int  // times that the request is sent, while there is none
	leaves   int  // times that it is left in the mailbox, while there is none
	withdraw int
	backs    int // withdrawals that are left there
	crashes  int
	twice    int
	people   []string
	limit    int // of interruptions, see everything
	recent   int // closed interactions that a gateway remembers
	refused  bool
	expires  bool   // the request has a deadline, which comes at any moment
	spent    bool   // the second gateway has counted its owner's day as used up
	poor     bool   // the second gateway has no room in its owner's quota, and takes only what another one had
	fault    string // a planted one, see fault
}

// shelf is a stream: what is stored, and in which order.
type shelf struct {
	last uint64
	msgs []journal.Message
	decs []*hitl.Decision // of the stream of decisions, beside its messages
}

func (s *shelf) find(subj string) *journal.Message {
	for i := range s.msgs {
		if s.msgs[i].Subject == subj {
			return &s.msgs[i]
		}
	}
	return nil
}

// durable is a shared consumer.
type durable struct {
	next    uint64
	pending map[uint64]*gate // delivered to
	back    []uint64         // to be delivered again
}

func (d *durable) floor() uint64 {
	floor := d.next - 1
	for seq := range d.pending {
		floor = min(floor, seq-1)
	}
	for _, seq := range d.back {
		floor = min(floor, seq-1)
	}
	return floor
}

func (d *durable) settle(seq uint64) {
	delete(d.pending, seq)
	d.back = slices.DeleteFunc(d.back, func(s uint64) bool { return s == seq })
}

// gate is a gateway's place on the stage, and what it promised.
type gate struct {
	name   string
	e      *Engine
	up     bool // loaded: follows, takes messages and decides
	busy   bool // loading
	clean  bool // the decision was stored before it began to load
	knows  bool // it told somebody of the decision
	killed bool
	looked string // what it held when it last looked at the deadlines after one came
}

// task is a goroutine on the stage.
type task struct {
	id     int
	name   string
	g      *gate
	resume chan struct{}
	op     string // the call that it is about to make
	dead   bool   // its gateway was killed: every call fails
	ended  bool
	vain   func() bool     // see call; may be nil
	waits  <-chan struct{} // until this is closed, where it is not nil
	seen   uint64          // digest of all that it learnt
}

// decider is a person who wants the request decided and tries until told how.
type decider struct {
	name string
	task *task
	told string
}

var errKilled = errors.New("the gateway was killed")

func newStage(p *plot) *stage {
	s := &stage{
		plot: p, parked: make(chan struct{}), asks: p.asks, leaves: p.leaves, withdraw: p.withdraw, backs: p.backs, crashes: p.crashes, twice: p.twice,
		streams: map[string]*shelf{},
		intake:  durable{next: 1, pending: map[uint64]*gate{}},
		sweeper: durable{next: 1, pending: map[uint64]*gate{}},
		mailbox: durable{next: 1, pending: map[uint64]*gate{}},
	}
	for _, name := range []string{journal.Requests, journal.Mailbox, journal.Decisions, journal.Events, journal.Transcripts} {
		s.streams[name] = &shelf{}
	}
	for i := range p.gateways + p.idle {
		s.gates = append(s.gates, &gate{name: string(rune('A' + i))})
	}
	for _, g := range s.gates[:p.gateways] {
		s.boot(g)
		for s.running = s.tasks[0]; !s.running.ended; {
			s.wake(s.running)
		}
		s.reap()
	}
	for _, name := range p.people {
		s.people = append(s.people, &decider{name: name})
	}
	return s
}

// spawn puts a goroutine on the stage; it does not begin yet.
func (s *stage) spawn(g *gate, name string, fn func()) *task {
	s.serial++
	t := &task{id: s.serial, name: g.name + " " + name, g: g, resume: make(chan struct{}), op: "begin", dead: g.killed}
	s.tasks = append(s.tasks, t)
	go func() {
		<-t.resume
		fn()
		t.ended = true
		s.parked <- struct{}{}
	}()
	return t
}

// wake lets a task run to its next call.
func (s *stage) wake(t *task) {
	s.running = t
	// What else a task reads of its gateway shows in the call it makes next.
	s.learn("%d", t.g.e.view.Mark())
	t.resume <- struct{}{}
	<-s.parked
}

// call is where a task waits before it does something. Where vain says that it
// will change nothing and learn what it would at any later time, too, nobody
// can tell when it happens: then it needs no order.
func (s *stage) call(op string, vain func() bool) error {
	t := s.running
	if t.dead {
		return errKilled
	}
	t.op, t.vain = op, vain
	s.parked <- struct{}{}
	<-t.resume
	if t.dead {
		return errKilled
	}
	return nil
}

// learn notes what the running task got to know: tasks that know the same and
// stand at the same call go on in the same way.
func (s *stage) learn(format string, args ...any) {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s ", s.running.seen, s.running.op)
	_, _ = fmt.Fprintf(h, format, args...)
	s.running.seen = h.Sum64()
}

func (s *stage) reap() { s.tasks = slices.DeleteFunc(s.tasks, func(t *task) bool { return t.ended }) }

// boot starts a gateway: it loads, and then it is up.
func (s *stage) boot(g *gate) {
	g.busy, g.killed, g.knows, g.looked = true, false, false, ""
	g.clean = s.streams[journal.Decisions].last > 0
	var limits quota.Limits
	if s.poor(g) {
		limits.OpenBytes = 1
	}
	if s.plot.spent && slices.Index(s.gates, g) == 1 {
		limits.DayBytes = 1
	}
	g.e = New(Options{
		Quota: limits, Journal: &desk{s, g}, Conn: s.plot.conn, Logger: slog.New(slog.DiscardHandler),
		Clock: s.now,
	})
	g.e.view = projection.New(projection.Options{
		Logger: g.e.log, Clock: g.e.now, OrphanAfter: time.Hour, Recent: s.plot.recent,
		Orphan: g.e.orphan, Doubtful: g.e.doubtful, Alarm: g.e.alarm, Ledger: g.e.ledger,
	})
	g.e.clock.Same = true
	g.e.spawn = func(fn func()) { s.spawn(g, "tells", fn) }
	g.e.wait = func(_ context.Context, done <-chan struct{}) error {
		s.running.waits = done
		err := s.call("waits", nil)
		s.running.waits = nil
		return err
	}
	e := g.e
	s.spawn(g, "loads", func() {
		_, err := e.load(context.Background())
		if s.plot.fault == "follow after showing" {
			pos := e.view.Position()
			pos.Events = int64(s.streams[journal.Events].last)
			e.view.Begin(pos)
		}
		if err == nil {
			g.busy, g.up = false, true
		}
	})
}

// now is the time on the stage; only a deadline makes it go on.
func (s *stage) now() time.Time {
	if s.late && s.plot.fault != "its clock stands still" {
		return stageTime.Add(stageDeadline)
	}
	return stageTime.Add(time.Second)
}

// deadline is where a gateway looks at its clock and writes what is over.
func (s *stage) deadline(g *gate, add func(string, func())) {
	p, held := g.e.view.Pending(s.plot.ref)
	if !s.late || !held || p.Decided || g.looked == s.sight(g) {
		return
	}
	add(g.name+" looks at the deadlines", func() {
		over, _ := g.e.view.Due(awakeAfter)
		g.looked = s.sight(g)
		for _, d := range over {
			s.wake(s.spawn(g, "expires", func() { g.e.expire(context.Background(), d) }))
		}
		s.reap()
	})
}

// kill ends a gateway as a power cut would. What it had in hand comes again.
func (s *stage) kill(g *gate) {
	g.up, g.busy, g.killed = false, false, true
	for _, d := range []*durable{&s.intake, &s.sweeper, &s.mailbox} {
		for seq, by := range d.pending {
			if by == g {
				delete(d.pending, seq)
				d.back = append(d.back, seq)
			}
		}
		slices.Sort(d.back)
	}
	s.drop(g)
}

// drop lets a gateway's tasks run to their ends with nothing that they do
// having an effect.
func (s *stage) drop(g *gate) {
	for {
		i := slices.IndexFunc(s.tasks, func(t *task) bool { return t.g == g })
		if i < 0 {
			break
		}
		t := s.tasks[i]
		for t.dead = true; !t.ended; {
			s.wake(t)
		}
		s.reap()
	}
	for _, p := range s.people {
		if p.task != nil && p.task.g == g {
			p.task = nil
		}
	}
}

// end leaves nothing running.
func (s *stage) end() {
	for _, g := range s.gates {
		g.killed = true
		s.drop(g)
		if g.e != nil {
			g.e.stopBg()
		}
	}
}

// move is one of the things that can happen next.
type move struct {
	name string
	task int // whose next step it is; 0: none that was begun
	do   func()
}

// moves are all of them, always in the same order.
func (s *stage) moves() []move {
	var out []move
	add := func(name string, do func()) { out = append(out, move{name: name, do: do}) }
	for _, t := range s.tasks {
		if t.waits == nil && t.vain != nil && t.vain() {
			return []move{{t.name + ": " + t.op, t.id, func() { s.wake(t); s.reap() }}}
		}
	}
	for _, t := range s.tasks {
		if t.waits != nil {
			select {
			case <-t.waits:
			default:
				continue // for another task
			}
		}
		out = append(out, move{t.name + ": " + t.op, t.id, func() { s.wake(t); s.reap() }})
	}
	for _, g := range s.gates {
		if !g.up {
			continue
		}
		if m := s.after(journal.Events, uint64(g.e.view.Position().Events)); m != nil {
			add(g.name+" follows "+short(m.Subject), func() { g.e.view.ApplyEvent(*m) })
		}
		if s.quiet(g) {
			continue
		}
		s.deliveries(g, &s.intake, journal.Requests, "intake", g.e.intake, add)
		s.deliveries(g, &s.sweeper, journal.Decisions, "sweep", g.e.sweep, add)
		s.deliveries(g, &s.mailbox, journal.Mailbox, "collect", g.e.collect(&desk{s, g}), add)
		s.deadline(g, add)
	}
	if s.plot.expires && !s.late {
		add("the deadline comes", func() { s.late = true })
	}
	requests := s.streams[journal.Requests]
	if s.asks > 0 && requests.find(subject.Request(s.plot.ref)) == nil {
		add("ask", func() {
			s.asks--
			requests.put(subject.Request(s.plot.ref), s.plot.raw)
		})
	}
	s.leaving(add)
	known := requests.last > 0 || s.streams[journal.Mailbox].last > 0
	if s.withdraw > 0 && known {
		add("withdraw", func() {
			s.withdraw--
			requests.put(subject.Withdraw(s.plot.ref), []byte(`{"v":1}`))
		})
	}
	for _, p := range s.people {
		if p.told != "" || p.task != nil || !known {
			continue
		}
		for _, g := range s.gates {
			if g.up && !s.quiet(g) {
				add(p.name+" decides at "+g.name, func() { s.decide(p, g); s.reap() })
			}
		}
	}
	for _, g := range s.gates {
		if !g.up && !g.busy {
			add(g.name+" starts", func() { s.boot(g) })
		} else if s.crashes > 0 {
			add(g.name+" is killed", func() { s.crashes--; s.kill(g) })
		}
	}
	return out
}

// poor reports whether no request is within a gateway's quotas.
func (s *stage) poor(g *gate) bool { return s.plot.poor && slices.Index(s.gates, g) == 1 }

// quiet reports whether a gateway only looks on.
func (s *stage) quiet(g *gate) bool {
	return s.plot.quiet && slices.Index(s.gates, g) >= s.plot.gateways
}

// settled reports whether no gateway can start any more.
func (s *stage) settled() bool {
	return s.crashes == 0 && !slices.ContainsFunc(s.gates, func(g *gate) bool { return !g.up })
}

func (s *stage) deliveries(g *gate, d *durable, stream, what string, fn func(context.Context, journal.Delivery), add func(string, func())) {
	deliver := func(m *journal.Message, how string) {
		add(fmt.Sprintf("%s %s %s%d", g.name, what, how, m.Seq), func() {
			if how == "twice " {
				s.twice--
			}
			d.settle(m.Seq)
			d.next = max(d.next, m.Seq+1)
			if s.plot.fault != "acknowledges first" {
				d.pending[m.Seq] = g
			}
			s.wake(s.spawn(g, fmt.Sprintf("%s %d", what, m.Seq), func() {
				fn(context.Background(), journal.Delivery{
					Message: *m, Redelivered: how != "",
					Ack: func() error {
						err := s.call("ack", func() bool {
							return d.pending[m.Seq] == nil && !slices.Contains(d.back, m.Seq) ||
								stream != journal.Mailbox && s.settled() && s.twice == 0
						})
						if err == nil {
							d.settle(m.Seq)
							if stream == journal.Mailbox { // a work queue
								s.streams[stream].drop(m.Seq)
							}
						}
						return err
					},
					Nak: func(time.Duration) error {
						if s.running.dead {
							return errKilled
						}
						if d.pending[m.Seq] != nil {
							d.settle(m.Seq)
							d.back = append(d.back, m.Seq)
						}
						return nil
					},
				})
			}))
			s.reap()
		})
	}
	for _, seq := range d.back {
		if m := s.at(stream, seq); m != nil {
			deliver(m, "again ")
		}
	}
	if m := s.after(stream, d.next-1); m != nil && !s.poor(g) {
		deliver(m, "")
	}
	if s.twice > 0 {
		for _, seq := range slices.Sorted(maps.Keys(d.pending)) {
			if m := s.at(stream, seq); m != nil {
				deliver(m, "twice ")
			}
		}
	}
}

func (s *stage) at(stream string, seq uint64) *journal.Message {
	if m := s.after(stream, seq-1); m != nil && m.Seq == seq {
		return m
	}
	return nil
}

// after is the first message of a stream beyond seq.
func (s *stage) after(stream string, seq uint64) *journal.Message {
	for i := range s.streams[stream].msgs {
		if m := s.streams[stream].msgs[i]; m.Seq > seq {
			return &m
		}
	}
	return nil
}

func (s *shelf) put(subj string, data []byte) uint64 {
	s.last++
	s.msgs = append(s.msgs, journal.Message{Subject: subj, Seq: s.last, Time: stageTime, Data: data})
	return s.last
}

func (s *shelf) drop(seq uint64) {
	s.msgs = slices.DeleteFunc(s.msgs, func(m journal.Message) bool { return m.Seq == seq })
}

func short(subj string) string {
	p := strings.Split(subj, ".")
	return p[1] + " " + p[len(p)-1]
}
