// Package plan says who is to be told what, and when. It computes from what it
// is given, the clock included, and does nothing.
//
// Deliveries makes the plan of an interaction once, when it opens. Gate says
// whether a delivery that is due may go out now. Turn says which of those that
// may go out make up the next message to a recipient.
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// Interaction is what a plan depends on.
type Interaction struct {
	Tenant, Project, Session, Agent, Kind, Tool, Risk string
	Created                                           time.Time
	Attention, Expires                                *time.Time
}

// Of is what a plan depends on of an interaction with this summary.
func Of(ref subject.Ref, s *wire.Summary) Interaction {
	return Interaction{
		Tenant: ref.Tenant, Project: s.ProjectID, Session: s.SessionID, Agent: cmp.Or(s.AgentName, s.Owner),
		Kind: s.Kind, Tool: s.ToolName, Risk: s.Risk, Created: s.CreatedAt, Attention: s.AttentionAt, Expires: s.ExpiresAt,
	}
}

// Policy is what a person has written. Check has to be called before use.
type Policy struct {
	Recipients []Recipient
	// Routes are looked at in their order; the first that matches counts.
	Routes []Route
	// Direct is used where there are no routes.
	Direct []Direct
	// Deciders are the names of the services that a step may ask.
	Deciders []string
}

// Direct tells one channel of everything.
type Direct struct {
	Channel  string
	After    time.Duration
	Reminder bool // when an answer becomes urgent
}

// Route leads some interactions to some people.
type Route struct {
	Name  string `json:"name"`
	Match Match  `json:"match"`
	Steps []Step `json:"steps"`
	// Repeat is how often the steps are gone through once more; each time begins
	// Every after the time before.
	Repeat int   `json:"repeat"`
	Every  Delay `json:"every"`
	// Remind are times before the deadline at which everybody hears again who was
	// told by then; not given: once, when an answer becomes urgent.
	Remind *[]Delay `json:"remind"`
}

// Step tells more people, or by other ways, or asks a service.
type Step struct {
	After Delay `json:"after"`
	// To are recipients, or a recipient and one of the channels: ada/mail.
	To []string `json:"to"`
	// Ask is a decider. It is asked in the first round only. The steps after this one
	// wait for it, for Wait at most: then they are due, whatever it does.
	Ask  string `json:"ask"`
	Wait Delay  `json:"wait"`
}

// defaultWait is how long a step waits for a decider that does not say.
const defaultWait = 2 * time.Second

// Delivery is one alert to one address.
type Delivery struct {
	Step string `json:"step"` // a token
	// Address is where to: recipient/channel, or a channel alone.
	Address string    `json:"address"`
	Due     time.Time `json:"due"`
	// Again: the address has been told before.
	Again bool `json:"again,omitempty"`
	// Skip is why it is not sent at all; empty: it is.
	Skip string `json:"skip,omitempty"`
	// Wait is of a decider: for how long its answer counts.
	Wait time.Duration `json:"wait,omitempty"`
	// Early is when it would be due if no decider were asked; zero: at Due.
	Early time.Time `json:"early,omitzero"`
}

// Names of steps. Those of a route are numbered: step1, step2, and in the second
// round step1-2.
const (
	StepOpen     = "open" // of a Direct
	StepFirst    = "step1"
	StepReminder = "reminder" // then reminder2, reminder3
)

// IsReminder reports whether the step is a reminder.
func IsReminder(step string) bool { return strings.HasPrefix(step, StepReminder) }

// tooLate is why a delivery is not made that would come after the deadline.
const tooLate = "its time is over before"

// NoRoute is the name of the route that an interaction has which no route matches.
const NoRoute = "none"

// Deliveries is the plan of an interaction, in the order of time, and the name
// of the route it follows.
func (p *Policy) Deliveries(ix *Interaction) (route string, out []Delivery) {
	if len(p.Routes) == 0 {
		for _, d := range p.Direct {
			due := ix.Created.Add(d.After)
			out = append(out, Delivery{Step: StepOpen, Address: d.Channel, Due: due})
			if at := ix.Attention; d.Reminder && at != nil && at.After(due) && (ix.Expires == nil || at.Before(*ix.Expires)) {
				out = append(out, Delivery{Step: StepReminder, Address: d.Channel, Due: *at, Again: true})
			}
		}
		return "", out
	}
	for i := range p.Routes {
		if r := &p.Routes[i]; r.Match.matches(ix) {
			return r.Name, p.follow(r, ix)
		}
	}
	return NoRoute, nil
}

func (p *Policy) follow(r *Route, ix *Interaction) []Delivery {
	var out, asks []Delivery
	var answered time.Time // when people need not wait for deciders any more
	for loop := range r.Repeat + 1 {
		began := time.Duration(loop) * r.Every.of(ix)
		for i, s := range r.Steps {
			step := strconv.Itoa(i + 1)
			if loop > 0 {
				step += "-" + strconv.Itoa(loop+1)
			}
			due := ix.Created.Add(began + s.After.of(ix))
			if ix.Expires != nil && !due.Before(*ix.Expires) && loop == 0 && i == 0 {
				// Somebody has to hear of it: there is less time than the step
				// would wait.
				due = ix.Created.Add(ix.Expires.Sub(ix.Created) / 2)
			}
			if s.Ask != "" {
				if loop == 0 {
					asks = append(asks, Delivery{Step: "step" + step, Address: s.Ask, Due: due, Wait: s.wait(ix)})
					answered = later(answered, due.Add(s.wait(ix)))
				}
				continue
			}
			d := Delivery{Step: "step" + step, Due: later(due, answered)}
			if due.Before(answered) {
				d.Early = due
			}
			for _, a := range p.addresses(s.To) {
				d.Address = a
				out = append(out, d)
			}
		}
	}
	told := map[string]bool{}
	for n, at := range r.reminders(ix) {
		step := StepReminder
		if n > 0 {
			step += strconv.Itoa(n + 1)
		}
		for _, d := range slices.Clone(out) {
			if key := step + d.Address; d.Due.Before(at) && !told[key] {
				told[key] = true
				out = append(out, Delivery{Step: step, Address: d.Address, Due: at})
			}
		}
	}
	out = append(asks, out...) // a decider is told nothing else, no reminder
	slices.SortStableFunc(out, func(a, b Delivery) int { return a.Due.Compare(b.Due) })
	for i := range out {
		d := &out[i]
		d.Again, told[d.Address] = told[d.Address], true
		if ix.Expires != nil && !d.Due.Before(*ix.Expires) {
			d.Skip = tooLate
		}
	}
	return out
}

// wait is how long people wait for the decider of a step: half of the time at most.
func (s *Step) wait(ix *Interaction) time.Duration {
	d := s.Wait.of(ix)
	if d == 0 {
		d = defaultWait
	}
	if ix.Expires != nil {
		d = min(d, ix.Expires.Sub(ix.Created)/2)
	}
	return d
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reminders are the times of the reminders, all before the deadline.
func (r *Route) reminders(ix *Interaction) []time.Time {
	if r.Remind == nil {
		if ix.Attention == nil || ix.Expires != nil && !ix.Attention.Before(*ix.Expires) {
			return nil
		}
		return []time.Time{*ix.Attention}
	}
	if ix.Expires == nil {
		return nil
	}
	var out []time.Time
	for _, d := range *r.Remind {
		if before := d.of(ix); before > 0 && before < ix.Expires.Sub(ix.Created) {
			out = append(out, ix.Expires.Add(-before))
		}
	}
	return out
}

// addresses resolves the targets of a step.
func (p *Policy) addresses(to []string) []string {
	var out []string
	for _, t := range to {
		for i := range p.Recipients {
			r := &p.Recipients[i]
			for _, c := range r.Channels {
				if a := r.Name + "/" + c.Channel; (t == r.Name || t == a) && !slices.Contains(out, a) {
					out = append(out, a)
				}
			}
		}
	}
	return out
}

// Recipient finds a recipient; nil if there is none of the name.
func (p *Policy) Recipient(name string) *Recipient {
	for i := range p.Recipients {
		if p.Recipients[i].Name == name {
			return &p.Recipients[i]
		}
	}
	return nil
}

// FieldError names what cannot be used, without its value.
type FieldError struct{ Field, Problem string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

func fail(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}
