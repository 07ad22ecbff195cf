package notifier

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/press"
	"github.com/banksman/banksman/services/notifier/internal/engine"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

// lanes are the addresses that alerts go to, and the channels behind them, which
// the caller closes.
func (c *Config) lanes(p *plan.Policy, on ground) ([]engine.Route, []channel.Channel, error) {
	var lanes []engine.Route
	var built []channel.Channel
	logger := on.logger
	for _, ch := range c.channels() {
		on.logger = logger.With("channel", ch.Name)
		impl, err := ch.build(&on)
		if err != nil {
			return nil, built, &ConfigError{Field: ch.Name, Err: err}
		}
		built = append(built, impl)
		target := func(to string) string {
			sum := sha256.Sum256([]byte(string(ch.URL) + string(ch.Token) + to))
			return hex.EncodeToString(sum[:8])
		}
		if len(p.Routes) == 0 {
			lanes = append(lanes, engine.Route{Name: ch.Name, Type: ch.Type, Target: target(ch.To), Channel: impl, To: ch.To})
		}
		for i := range p.Recipients {
			r := &p.Recipients[i]
			for _, reach := range r.Channels {
				if reach.Channel == ch.Name {
					to := ch.address(r, reach)
					route := engine.Route{Name: r.Name + "/" + ch.Name, Type: ch.Type, Target: target(to), Channel: impl, To: to, Recipient: r}
					route.Via, route.People = ch.decides(r, reach)
					lanes = append(lanes, route)
				}
			}
		}
	}
	return lanes, built, nil
}

// address is where a recipient is reached. Pushes go to the browsers of its user.
func (c *Channel) address(r *plan.Recipient, reach plan.Reach) string {
	if c.Type == TypePush {
		return cmp.Or(reach.To, r.User, c.To)
	}
	return cmp.Or(reach.To, c.To)
}

// decides says by what kind of ticket a recipient decides there, and who of it.
func (c *Channel) decides(r *plan.Recipient, reach plan.Reach) (via string, people []string) {
	switch reach.Decide {
	case plan.DecideLink:
		return wire.TicketLink, []string{r.User}
	case plan.DecideButtons:
		if c.Type == TypePush {
			return wire.TicketPush, []string{c.address(r, reach)}
		}
		for _, p := range c.People {
			if !slices.Contains(people, p.User) {
				people = append(people, p.User)
			}
		}
		return wire.TicketChat, people
	}
	return "", nil
}

// maxPeople is how many one ticket is for at most.
const maxPeople = 100

// checkPeople says what is wrong with those who may press.
func (c *Channel) checkPeople() (field, problem string) {
	if len(c.People) > maxPeople {
		return "people", fmt.Sprintf("are too many: at most %d", maxPeople)
	}
	var seen []string
	for i, p := range c.People {
		at := fmt.Sprintf("people[%d].", i)
		switch {
		case p.Account == "":
			return at + "account", "missing: the platform's id of the person (a name is none)"
		case slices.Contains(seen, p.Account):
			return at + "account", "stands twice"
		case !subject.ValidToken(p.User):
			return at + "user", "missing or not the id of a user"
		}
		seen = append(seen, p.Account)
	}
	if c.Type == TypeSlack && len(c.People) > 0 {
		return "people", c.roadProblem()
	}
	return "", ""
}

// roadProblem says why no press arrives from Slack.
func (c *Channel) roadProblem() string {
	switch {
	case c.Token == "":
		return "cannot press: an incoming webhook has no buttons, they take the token of a bot"
	case c.SigningSecret == "" && c.AppToken == "" && c.Listen == "":
		return "cannot press: that takes app_token, or signing_secret and listen"
	}
	return ""
}

// decideProblem says what is wrong with how one decides in a channel.
func (c *Config) decideProblem(reach plan.Reach) string {
	i := slices.IndexFunc(c.channels(), func(ch Channel) bool { return ch.Name == reach.Channel })
	if i < 0 {
		return "" // the policy names it
	}
	ch := c.channels()[i]
	switch {
	case reach.Decide == plan.DecideLink && ch.Type == TypeLog:
		return "a log is no place for a link by which whoever reads it decides"
	case reach.Decide != plan.DecideButtons || ch.Type == TypePush:
		return ""
	case ch.Type != TypeSlack && ch.Type != TypeTelegram:
		return "there are no buttons in a channel of the type " + ch.Type
	case ch.Type == TypeSlack && ch.Token == "":
		return "there are no buttons behind an incoming webhook: give the channel the token of a bot"
	case len(ch.People) == 0:
		return "needs the people of the channel: without them nobody may press"
	}
	return ""
}

// presser is a channel with buttons.
type presser interface {
	Listen(ctx context.Context, d *press.Desk) error
}

// listeners are the channels that take presses, by name.
func (c *Config) listeners(built []channel.Channel) map[string]presser {
	out := map[string]presser{}
	for i, ch := range c.channels() {
		if p, ok := built[i].(presser); ok && len(ch.People) > 0 {
			out[ch.Name] = p
		}
	}
	return out
}

// people are the users of a channel by their accounts.
func (c *Config) people(name string) map[string]string {
	out := map[string]string{}
	for _, ch := range c.channels() {
		if ch.Name == name {
			for _, p := range ch.People {
				out[p.Account] = p.User
			}
		}
	}
	return out
}
