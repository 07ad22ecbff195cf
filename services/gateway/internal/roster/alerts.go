package roster

import (
	"context"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/wire"
)

// What is said of the notifier.
const (
	NotifierListening = "listening"
	notifierSilent    = "silent"
	notifierUnknown   = "unknown"
)

const (
	alertsKept = 2 * time.Second // an answer serves all pages for so long
	alertsLook = 3               // looks before a notifier counts as silent
	alertsGap  = 100 * time.Millisecond
)

// channelsKept is how long what a notifier said of its channels serves all pages.
const channelsKept = 10 * time.Second

// Alerts remembers whether a notifier listens, and by what it tells people. One look
// serves whoever asks meanwhile. The zero value is ready; its methods are safe for concurrent use.
type Alerts struct {
	mu   sync.Mutex
	at   time.Time
	said string

	heard    time.Time // when channels was
	channels []wire.AlertChannel
}

// Channels are those of the notifier by ask; nil where none said them, or that could
// not be found out.
func (a *Alerts) Channels(ctx context.Context, ask func(context.Context) ([]wire.AlertChannel, error)) []wire.AlertChannel {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.heard.IsZero() || time.Since(a.heard) > channelsKept {
		list, err := ask(ctx)
		if err != nil {
			return nil
		}
		a.channels, a.heard = list, time.Now()
	}
	return a.channels
}

// State is listening, silent, or unknown where listens failed.
func (a *Alerts) State(ctx context.Context, listens func(context.Context) (bool, error)) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.said == "" || a.said == notifierUnknown || time.Since(a.at) > alertsKept {
		a.said = look(ctx, listens)
		a.at = time.Now()
	}
	return a.said
}

// look asks again where none waits: a notifier that has just got an event does
// not either.
func look(ctx context.Context, listens func(context.Context) (bool, error)) string {
	for n := 1; ; n++ {
		here, err := listens(ctx)
		switch {
		case err != nil:
			return notifierUnknown
		case here:
			return NotifierListening
		case n == alertsLook:
			return notifierSilent
		}
		select {
		case <-ctx.Done():
			return notifierUnknown
		case <-time.After(alertsGap):
		}
	}
}
