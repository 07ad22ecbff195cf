package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"

	"github.com/banksman/banksman/pkg/hitl"
)

// Sizes of the cast, beside those of the cluster.
const (
	workers  = 2 // connections of each owner
	sessions = 8 // of each owner
)

// How an asker stops waiting.
const (
	stopNever    = ""
	stopWithdraw = "withdraws"
	stopLeave    = "leaves it open"
)

// Of so many interactions three are asked by workers: processes that beat.
const lifeEvery = 100

// Ways to decide.
const (
	doorHTTP = "http"
	doorWS   = "websocket"
	doorBus  = "bus"
)

// scenario is everything that happens to one interaction, as the seed has it.
type scenario struct {
	N, Owner int
	Request  *hitl.Request
	Expiry   time.Duration // 0: none
	Asks     []askPlan
	Decides  []decidePlan
	Gets     []getPlan
	// Kept is never decided and has no deadline: it is still there in the end.
	Kept bool
	// Life, if there is one, is that of the worker that asks; then Asks is empty.
	Life *lifePlan
}

// lifePlan is the life of a worker, from when its request is stored. One that is gone
// for longer than workers may be silent stays away.
type lifePlan struct {
	Dies time.Duration // 0: it is not killed
	Back time.Duration // from then on; 0: it stays away
}

type askPlan struct {
	After  time.Duration
	Worker int
	Stop   string
	Within time.Duration // from the call, for Stop
}

type decidePlan struct {
	After   time.Duration
	Person  int
	Gateway int
	Door    string
	Answer  hitl.Response
	// Sure goes on until it has a receipt that ends the matter; others give up
	// after some tries. Again sends the same once more after that.
	Sure, Again bool
	Mistaken    bool // names another digest
}

type getPlan struct {
	After           time.Duration
	Person, Gateway int
}

func (s *scenario) String() string {
	if l := s.Life; l != nil {
		return fmt.Sprintf("%s by a worker, dies after %s, is back after %s, %d deciders", s.Request.Kind, l.Dies, l.Back, len(s.Decides))
	}
	stops := ""
	for _, a := range s.Asks {
		stops += "," + a.Stop
	}
	return fmt.Sprintf("%s, expires in %s, %d asks (%s), %d deciders, kept: %t",
		s.Request.Kind, s.Expiry, len(s.Asks), stops[1:], len(s.Decides), s.Kept)
}

// newScenario is the nth of a seed; it depends on nothing else.
func newScenario(seed uint64, n int) *scenario {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	s := &scenario{N: n, Owner: r.IntN(rig.Owners)}
	s.Request = request(r, seed, n)
	chance := func(percent float64) bool { return r.Float64()*100 < percent }
	within := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

	s.Kept = chance(1)
	switch {
	case s.Kept:
	case chance(25):
		s.Expiry = time.Second + within(3*time.Second)
	default:
		s.Expiry = time.Minute
	}
	expires := hitl.Duration(s.Expiry)
	s.Request.ExpiresIn = &expires

	first := askPlan{Worker: r.IntN(workers)}
	other := askPlan{Worker: (first.Worker + 1) % workers, After: within(400 * time.Millisecond)}
	switch k := r.IntN(100); {
	case s.Kept:
		first.Stop, first.Within = stopLeave, 10*time.Second
		s.Asks = []askPlan{first}
	case k < 70:
		s.Asks = []askPlan{first}
	case k < 82:
		s.Asks = []askPlan{first, other}
	case k < 90:
		first.Stop, first.Within = stopWithdraw, within(600*time.Millisecond)
		s.Asks = []askPlan{first}
	case k < 94:
		first.Stop, first.Within = stopWithdraw, within(600*time.Millisecond)
		s.Asks = []askPlan{first, other}
	default:
		first.Stop, first.Within = stopLeave, within(400*time.Millisecond)
		other.After += first.Within
		s.Asks = []askPlan{first, other}
	}

	count := []int{0, 1, 1, 1, 2, 2, 2, 3, 3, 5}[r.IntN(10)]
	if s.Kept {
		count = 0
	}
	if count == 0 && !s.Kept && s.Expiry == time.Minute {
		count = 1
	}
	burst := within(300 * time.Millisecond)
	together := chance(50) // all at one moment
	for i := range count {
		d := decidePlan{
			After: burst, Person: r.IntN(rig.People), Gateway: r.IntN(rig.Gateways),
			Sure: i == 0, Again: chance(25), Mistaken: i > 0 && chance(5),
		}
		if !together {
			d.After = within(300 * time.Millisecond)
		}
		d.Door = []string{doorHTTP, doorHTTP, doorHTTP, doorWS, doorWS, doorWS, doorBus}[r.IntN(7)]
		// Some say the very same, so that one person's second word is a repetition.
		d.Answer = answer(r, s.Request, fmt.Sprintf("m%d", r.IntN(3)))
		s.Decides = append(s.Decides, d)
	}
	for range r.IntN(3) {
		s.Gets = append(s.Gets, getPlan{After: within(800 * time.Millisecond), Person: r.IntN(rig.People), Gateway: r.IntN(rig.Gateways)})
	}
	s.live(r)
	return s
}

// live has a worker ask some of the requests: one that is killed for good, which every
// second time somebody answers about when it is given up; one that is back in time and
// is answered then; and one that lives and is answered later than a silent one were given
// up.
func (s *scenario) live(r *rand.Rand) {
	within := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	d := decidePlan{Person: r.IntN(rig.People), Gateway: r.IntN(rig.Gateways), Door: doorHTTP, Sure: true}
	life := &lifePlan{}
	switch s.N % lifeEvery {
	case 1:
		life.Dies = 300*time.Millisecond + within(time.Second)
		d.After, d.Sure = rig.OrphanAfter+within(3*time.Second), false
	case 2:
		life.Dies, life.Back = 300*time.Millisecond+within(time.Second), time.Second+within(3*time.Second)
		d.After = rig.OrphanAfter + within(2*time.Second)
	case 3:
		d.After = rig.OrphanAfter + 2*time.Second + within(3*time.Second)
	default:
		return
	}
	s.Kept, s.Life, s.Asks, s.Decides, s.Expiry = false, life, nil, nil, time.Hour
	expires := hitl.Duration(s.Expiry)
	s.Request.ExpiresIn = &expires
	s.Request.SessionID = fmt.Sprintf("w%d", s.N) // no other one's
	d.Answer = answer(r, s.Request, "m0")
	if d.Sure || s.N%(2*lifeEvery) == 1 {
		s.Decides = []decidePlan{d}
	}
}

func request(r *rand.Rand, seed uint64, n int) *hitl.Request {
	q := &hitl.Request{
		Key: fmt.Sprintf("soak-%d-%d", seed, n), SessionID: fmt.Sprintf("s%d", r.IntN(sessions)),
		ToolCallID: fmt.Sprintf("call-%d", n), AgentName: "soak",
	}
	if r.IntN(10) < 6 {
		input, err := json.Marshal(map[string]any{"command": fmt.Sprintf("make step-%d", n)})
		if err != nil { // strings always encode
			panic(err)
		}
		q.Kind, q.Title, q.Tool = hitl.KindApproval, "Run a step", &hitl.Tool{Name: "Bash", Input: input}
		return q
	}
	q.Kind, q.Title = hitl.KindQuestion, "Which way?"
	q.Questions = []hitl.Question{{ID: "way", Question: "Which way?", Options: []hitl.Option{{Label: "left"}, {Label: "right"}, {Label: "straight on"}}}}
	return q
}

// answer is one of the answers that a request can get.
func answer(r *rand.Rand, q *hitl.Request, message string) hitl.Response {
	p := hitl.Response{SessionID: q.SessionID, RequestType: hitl.RequestTypeOf(q.Kind), Message: message}
	k := r.IntN(8)
	switch {
	case q.Kind == hitl.KindApproval && k < 4:
		p.Decision = hitl.VerbAllow
	case q.Kind == hitl.KindApproval && k < 7:
		p.Decision = hitl.VerbDeny
	case q.Kind == hitl.KindQuestion && k < 6:
		p.Answers = json.RawMessage(fmt.Sprintf(`{"way":%q}`, q.Questions[0].Options[k/2].Label))
	case k == 6:
		p.Action = hitl.VerbClarify
	default:
		p.Action = hitl.VerbDismiss
	}
	return p
}
