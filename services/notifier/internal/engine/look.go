package engine

import "github.com/banksman/banksman/services/notifier/internal/metrics"

// Channels is how the channels do, and how many messages are planned and not sent.
func (e *Engine) Channels() (metrics.Channels, int) {
	out, waiting := metrics.Channels{}, 0
	for _, l := range e.lanes {
		n := out[l.Type]
		switch {
		case l.dropped.Load():
			n.Gone++
		case l.health.Failing():
			n.Failing++
		default:
			n.Working++
		}
		if at := l.health.Last(); at.After(n.Last) {
			n.Last = at
		}
		out[l.Type] = n
		l.mu.Lock()
		for _, it := range l.due {
			if !it.held { // its end may be stored already
				waiting++
			}
		}
		l.mu.Unlock()
	}
	return out, waiting
}
