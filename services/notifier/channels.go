package notifier

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/engine"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

// lanes are the addresses that alerts go to, and the channels behind them, which
// the caller closes.
func (c *Config) lanes(p *plan.Policy, logger *slog.Logger, source string) ([]engine.Route, []channel.Channel, error) {
	var lanes []engine.Route
	var built []channel.Channel
	for _, ch := range c.channels() {
		impl, err := ch.build(logger.With("channel", ch.Name), source)
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
					to := cmp.Or(reach.To, ch.To)
					lanes = append(lanes, engine.Route{
						Name: r.Name + "/" + ch.Name, Type: ch.Type, Target: target(to), Channel: impl, To: to, Recipient: r,
						Decides: reach.Decide == plan.DecideLink,
					})
				}
			}
		}
	}
	return lanes, built, nil
}
