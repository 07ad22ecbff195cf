// Command asker is an agent's worker for the browser tests. It asks what the
// lines of its standard input say and prints what becomes of it, both as JSON
// objects, one a line. It beats like a worker until it is told to be silent, and
// ends with its standard input.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
)

const (
	worker    = "asker"
	beatEvery = time.Second
)

// order is a line of the input.
type order struct {
	Op      string       `json:"op"` // session, event, ask, withdraw, silent, beat
	Name    string       `json:"name"`
	Session string       `json:"session"`
	Title   string       `json:"title"`
	State   string       `json:"state"`
	Request hitl.Request `json:"request"`
	Event   hitl.Event   `json:"event"`
	Stage   string       `json:"stage"`  // of an ask: the last it tells of its decision; default applied
	Detail  string       `json:"detail"` // what it says at that stage
}

// report is a line of the output.
type report struct {
	Op      string       `json:"op"` // that of the order, or answer
	Name    string       `json:"name,omitempty"`
	ID      string       `json:"id,omitempty"`
	Key     string       `json:"key,omitempty"`
	Outcome hitl.Outcome `json:"outcome,omitempty"`
	Message string       `json:"message,omitempty"`
	Input   string       `json:"input,omitempty"` // that an approval lets run, if it was edited
	Error   string       `json:"error,omitempty"`
}

type asker struct {
	client *bus.Client

	mu     sync.Mutex // guards what follows and the output
	out    *json.Encoder
	open   map[string]context.CancelFunc // by name
	holds  map[string]*bus.Hold          // by session
	silent bool
}

func main() {
	file := flag.String("creds", "", "credential `file` of an owner")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *file); err != nil {
		fmt.Fprintln(os.Stderr, "asker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) error {
	cred, err := bus.LoadCredentials(file)
	if err != nil {
		return err
	}
	client, err := bus.Connect(ctx, cred, bus.Options{Name: worker, Worker: worker})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &asker{client: client, out: json.NewEncoder(os.Stdout), open: map[string]context.CancelFunc{}, holds: map[string]*bus.Hold{}}
	var wg sync.WaitGroup
	wg.Go(func() { a.beat(ctx) })
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			a.say(report{Error: err.Error()})
			continue
		}
		if o.Op == "ask" {
			ask, cancelAsk := context.WithCancel(ctx)
			a.mu.Lock()
			a.open[o.Name] = cancelAsk
			a.mu.Unlock()
			wg.Go(func() { a.ask(ask, &o) })
			continue
		}
		r := report{Op: o.Op, Name: o.Name}
		if err := a.obey(ctx, &o); err != nil {
			r.Error = err.Error()
		}
		a.say(r)
	}
	cancel()
	wg.Wait()
	client.Close() // waits for withdrawals
	return lines.Err()
}

func (a *asker) say(r report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.out.Encode(r) // nobody listens any more
}

func (a *asker) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		a.mu.Lock()
		silent := a.silent
		sessions := []string{}
		for s := range a.holds {
			sessions = append(sessions, s)
		}
		a.mu.Unlock()
		if !silent {
			// A lost one is followed by the next.
			_ = a.client.Beat(hitl.Beat{Worker: worker, Runtimes: []string{}, Sessions: sessions, At: time.Now().UTC()})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *asker) obey(ctx context.Context, o *order) error {
	switch o.Op {
	case "session":
		return a.session(ctx, o)
	case "event":
		a.mu.Lock()
		hold := a.holds[o.Session]
		a.mu.Unlock()
		if hold == nil {
			return fmt.Errorf("no session %q", o.Session)
		}
		return hold.Event(ctx, o.Event)
	case "withdraw":
		a.mu.Lock()
		defer a.mu.Unlock()
		cancel := a.open[o.Name]
		if cancel == nil {
			return fmt.Errorf("nothing is open by the name %q", o.Name)
		}
		cancel()
		return nil
	case "silent", "beat":
		a.mu.Lock()
		defer a.mu.Unlock()
		a.silent = o.Op == "silent"
		return nil
	}
	return fmt.Errorf("what is %q?", o.Op)
}

// session begins one, or says its new state.
func (a *asker) session(ctx context.Context, o *order) error {
	now := time.Now().UTC()
	st := &hitl.SessionState{
		SessionID: o.Session, Title: o.Title, Worker: worker, Generation: 1, Runtime: "lab",
		Cwd: "/srv/shop", State: o.State, StartedAt: now, StateChangedAt: now,
	}
	a.mu.Lock()
	hold := a.holds[o.Session]
	a.mu.Unlock()
	if hold != nil {
		return hold.State(ctx, st)
	}
	hold, err := a.client.Claim(ctx, st)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds[o.Session] = hold
	return nil
}

func (a *asker) ask(ctx context.Context, o *order) {
	r := report{Op: "answer", Name: o.Name}
	ans, err := a.client.Ask(ctx, &o.Request, bus.OnOpen(func(w bus.Opened) {
		a.say(report{Op: "ask", Name: o.Name, ID: w.Ref.ID, Key: w.Ref.String()})
	}))
	if err != nil {
		r.Error = err.Error()
		a.say(r)
		return
	}
	d := ans.Decision
	r.ID, r.Key, r.Outcome, r.Input = ans.Ref.ID, ans.Ref.String(), d.Outcome, string(d.UpdatedInput)
	if asked, err := hitl.ParseRequest(ans.Request); err == nil {
		r.Message = hitl.AgentText(asked, &d.Content)
	}
	last := cmp.Or(o.Stage, hitl.Applied)
	for _, stage := range slices.Compact([]string{hitl.Delivered, last}) {
		detail := ""
		if stage == last {
			detail = o.Detail
		}
		if err := a.client.Ack(ctx, ans.Ref, stage, d.DecisionID, detail); err != nil {
			r.Error = err.Error()
		}
	}
	a.say(r)
}
