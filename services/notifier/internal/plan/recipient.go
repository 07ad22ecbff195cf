package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// Recipient is a person, or whatever else is told things.
type Recipient struct {
	Name     string  `json:"name"`
	Channels []Reach `json:"channels"`
	// User is the recipient's id at the gateway, in whose name the recipient decides
	// outside the web app. Without one nothing is decided there.
	User string `json:"user"`
	// Zone is where the recipient's clock hangs: an IANA name, default UTC.
	Zone string `json:"zone"`
	// Quiet are times in which nothing is sent. Bypass are the risks that are told
	// all the same, at once; default critical.
	Quiet  []Window  `json:"quiet"`
	Bypass *[]string `json:"bypass"`
	// Messages is how many messages a channel carries within Per at most, Group
	// the pause between two of them, in which what comes is gathered into one.
	// 0 messages: as many as there are, one for each alert.
	Messages *int           `json:"messages"`
	Per      *hitl.Duration `json:"per"`
	Group    *hitl.Duration `json:"group"`
	// Digest has messages leave at its multiples only, for example at each full
	// hour.
	Digest hitl.Duration `json:"digest"`

	zone zone
	pace Pace
}

// Reach is a channel by which a recipient is told.
type Reach struct {
	Channel string `json:"channel"`
	// To is the recipient's address there, where the channel needs one.
	To string `json:"to"`
	// Decide is how the recipient may decide there: DecideLink, DecideButtons, or not
	// at all.
	Decide string `json:"decide"`
}

// DecideLink puts a link into each message by which whoever has it decides as the
// recipient's user, DecideButtons puts buttons there.
const (
	DecideLink    = "link"
	DecideButtons = "buttons"
)

// Pace is how fast messages may follow each other.
type Pace struct {
	Messages int // 0: no bound
	Per      time.Duration
	Group    time.Duration
}

// What a recipient has who says nothing.
const (
	defaultMessages = 3
	defaultPer      = time.Minute
	defaultGroup    = 10 * time.Second
)

// Pace is how fast messages to this recipient may follow each other.
func (r *Recipient) Pace() Pace { return r.pace }

func (r *Recipient) bypasses(risk string) bool {
	if r.Bypass == nil {
		return risk == "critical"
	}
	return slices.Contains(*r.Bypass, risk)
}

// Bounds of what can be written.
const (
	maxRecipients = 1000
	maxRoutes     = 200
	maxSteps      = 20
	maxRepeat     = 20
	maxMessages   = 100
	maxWindows    = 20
	// MaxDeliveries bounds what one interaction can cause.
	MaxDeliveries = 200
)

// Check makes the policy ready, or names the first field that cannot be used, as
// a *FieldError. valid says whether a name is a token; channels are those there are.
func (p *Policy) Check(valid func(string) bool, channels []string) error {
	if len(p.Recipients) > maxRecipients {
		return fail("recipients", "are too many: at most %d", maxRecipients)
	}
	if len(p.Routes) > maxRoutes {
		return fail("routes", "are too many: at most %d", maxRoutes)
	}
	var addresses []string
	for i := range p.Recipients {
		r := &p.Recipients[i]
		at := fmt.Sprintf("recipients[%d]", i)
		if err := r.check(at, valid, channels); err != nil {
			return err
		}
		if slices.Contains(addresses, r.Name) {
			return fail(at+".name", "%q stands twice", r.Name)
		}
		addresses = append(addresses, r.Name)
		for _, c := range r.Channels {
			addresses = append(addresses, r.Name+"/"+c.Channel)
		}
	}
	if len(p.Recipients) > 0 && len(p.Routes) == 0 {
		return fail("routes", "missing: nothing leads to the recipients")
	}
	var names []string
	for i := range p.Routes {
		r := &p.Routes[i]
		at := fmt.Sprintf("routes[%d]", i)
		if err := r.check(at, valid, addresses, p.Deciders); err != nil {
			return err
		}
		if slices.Contains(names, r.Name) || r.Name == NoRoute {
			return fail(at+".name", "%q stands twice or is reserved", r.Name)
		}
		names = append(names, r.Name)
		n := 0
		for _, s := range r.Steps {
			n += len(p.addresses(s.To))
		}
		if r.Remind != nil {
			n *= 1 + len(*r.Remind)
		}
		if n *= r.Repeat + 1; n > MaxDeliveries {
			return fail(at, "tells %d times of one request, at most %d are possible", n, MaxDeliveries)
		}
	}
	return nil
}

func (r *Recipient) check(at string, valid func(string) bool, channels []string) (err error) {
	switch {
	case r.Name == "":
		return fail(at+".name", "missing")
	case !valid(r.Name):
		return fail(at+".name", "%q is not a token of 1 to 64 letters, digits, - or _", r.Name)
	case r.User != "" && !valid(r.User):
		return fail(at+".user", "%q is not the id of a user", r.User)
	case len(r.Channels) == 0:
		return fail(at+".channels", "missing")
	case len(r.Quiet) > maxWindows:
		return fail(at+".quiet", "are too many: at most %d", maxWindows)
	case r.Messages != nil && (*r.Messages < 0 || *r.Messages > maxMessages):
		return fail(at+".messages", "must be 0 to %d", maxMessages)
	case r.Digest != 0 && (time.Duration(r.Digest) < time.Minute || time.Duration(r.Digest) > maxDelay):
		return fail(at+".digest", "must be 1m to %s", maxDelay)
	}
	if r.Bypass != nil {
		if err := checkWords(at+".bypass", *r.Bypass, risks, false); err != nil {
			return err
		}
	}
	var seen []string
	for i, c := range r.Channels {
		field := fmt.Sprintf("%s.channels[%d].channel", at, i)
		if !slices.Contains(channels, c.Channel) {
			return fail(field, "there is no channel %q", c.Channel)
		}
		if slices.Contains(seen, c.Channel) {
			return fail(field, "%q stands twice", c.Channel)
		}
		seen = append(seen, c.Channel)
		field = fmt.Sprintf("%s.channels[%d].decide", at, i)
		if c.Decide != "" && c.Decide != DecideLink && c.Decide != DecideButtons {
			return fail(field, "must be %s or %s, or not be there", DecideLink, DecideButtons)
		}
		if c.Decide == DecideLink && r.User == "" {
			return fail(field, "needs the user who decides: give the recipient one")
		}
	}
	duration := func(name string, d *hitl.Duration, or time.Duration) time.Duration {
		v := or
		if d != nil {
			v = time.Duration(*d)
		}
		if (v < 0 || v > maxDelay) && err == nil {
			err = fail(at+"."+name, "must be 0s to %s", maxDelay)
		}
		return v
	}
	r.pace = Pace{Messages: defaultMessages, Per: duration("per", r.Per, defaultPer), Group: duration("group", r.Group, defaultGroup)}
	if r.Messages != nil {
		r.pace.Messages = *r.Messages
	}
	if err != nil {
		return err
	}
	if r.pace.Messages > 0 && r.pace.Per == 0 {
		return fail(at+".per", "must be more than 0s")
	}
	if r.zone, err = loadZone(at+".zone", cmp.Or(r.Zone, "UTC")); err != nil {
		return err
	}
	if err := checkWindows(at+".quiet", r.Quiet); err != nil {
		return err
	}
	// A window that moves with the clock of the wall is the same every week.
	if len(r.Quiet) > 0 && until(r.Quiet, r.zone, time.Unix(0, 0)).IsZero() {
		return fail(at+".quiet", "leaves no time at all")
	}
	return nil
}

func (r *Route) check(at string, valid func(string) bool, addresses, deciders []string) (err error) {
	switch {
	case r.Name == "":
		return fail(at+".name", "missing")
	case !valid(r.Name):
		return fail(at+".name", "%q is not a token of 1 to 64 letters, digits, - or _", r.Name)
	case len(r.Steps) == 0:
		return fail(at+".steps", "missing")
	case len(r.Steps) > maxSteps:
		return fail(at+".steps", "are too many: at most %d", maxSteps)
	case r.Repeat < 0 || r.Repeat > maxRepeat:
		return fail(at+".repeat", "must be 0 to %d", maxRepeat)
	case r.Repeat > 0 && r.Every == Delay{}:
		return fail(at+".every", "missing: how long after each other the steps are repeated")
	case r.Repeat == 0 && r.Every != Delay{}:
		return fail(at+".every", "counts only with repeat: how often the steps are gone through once more")
	case r.Remind != nil && len(*r.Remind) > maxSteps:
		return fail(at+".remind", "are too many: at most %d", maxSteps)
	case len(r.Match.Time) > maxWindows:
		return fail(at+".match.time", "are too many: at most %d", maxWindows)
	}
	if r.Remind != nil {
		if i := slices.IndexFunc(*r.Remind, Delay.never); i >= 0 {
			return fail(fmt.Sprintf("%s.remind[%d]", at, i), "must be more than 0s before the deadline")
		}
	}
	for i, s := range r.Steps {
		field := fmt.Sprintf("%s.steps[%d].to", at, i)
		ask := fmt.Sprintf("%s.steps[%d].ask", at, i)
		switch {
		case s.Ask != "" && len(s.To) > 0:
			return fail(ask, "stands beside to: a step tells people or asks a service")
		case s.Ask != "" && !slices.Contains(deciders, s.Ask):
			return fail(ask, "there is no decider %q", s.Ask)
		case s.Ask == "" && s.Wait != Delay{}:
			return fail(ask, "missing: nothing else is waited for")
		case s.Ask == "" && len(s.To) == 0:
			return fail(field, "missing")
		}
		for _, t := range s.To {
			if !slices.Contains(addresses, t) {
				return fail(field, "there is no recipient %q", t)
			}
		}
	}
	return r.Match.check(at + ".match")
}
