package notifier

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel"
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
		return wire.TicketPush, []string{c.address(r, reach)}
	}
	return "", nil
}
