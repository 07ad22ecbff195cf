package projection

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
	"github.com/banksman/banksman/services/gateway/internal/quota"
)

// Watchers are told in the order in which they came, and each until its own Stop,
// which may be called twice.
func TestWatchersAreToldInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	p := New(Options{
		Logger: slog.New(slog.DiscardHandler), Clock: time.Now, Alarm: make(chan struct{}, 1), Ledger: quota.New(quota.Limits{}, time.Now),
	})
	p.Begin(cursor.Position{})
	var told []int
	var all []api.Watch
	for i := range 50 {
		all = append(all, p.Watch("", func(api.Update) { told = append(told, i) }))
	}
	tell := func() []int {
		told = nil
		p.mu.Lock()
		defer p.mu.Unlock()
		p.publish(api.Update{All: []byte("{}")})
		return told
	}
	var want []int
	for i := range all {
		want = append(want, i)
	}
	require.Equal(t, want, tell())
	want = nil
	for i, w := range all {
		if i%3 == 0 || i == 49 {
			w.Stop()
			w.Stop()
			continue
		}
		want = append(want, i)
	}
	require.Equal(t, want, tell())
	last := p.Watch("", func(api.Update) { told = append(told, 50) })
	require.Equal(t, append(want, 50), tell())
	last.Stop()
	require.Equal(t, want, tell())
}
