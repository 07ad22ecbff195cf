package webhook

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
)

// double is a receiver of webhooks that does as it is told.
type double struct {
	url string

	mu   sync.Mutex
	next channeltest.Answer
	got  []channeltest.Received
}

func (d *double) Channel(t *testing.T) channel.Channel { return newChannel(t, d.url) }

func (d *double) Next(a channeltest.Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = a
}

func (d *double) Received() []channeltest.Received {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got
}

func (d *double) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	next := d.next
	d.got = append(d.got, channeltest.Received{ID: r.Header.Get("webhook-id"), Text: string(body)})
	d.mu.Unlock()
	switch next {
	case channeltest.Later:
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusTooManyRequests)
	case channeltest.Refuse:
		w.WriteHeader(http.StatusBadRequest)
	case channeltest.Gone:
		w.WriteHeader(http.StatusGone)
	case channeltest.Silent:
		<-r.Context().Done()
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, channeltest.Options{
		New: func(t *testing.T) channeltest.Receiver {
			d := &double{}
			d.url = serve(t, d.serve)
			return d
		},
		Can:     []channeltest.Answer{channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Gone, channeltest.Silent},
		Secrets: []string{"PATHSECRET", "QUERYSECRET", "whsec_"},
		Keyed:   true,
	})
}
