package channeltest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/banksman/banksman/services/notifier/internal/channel"
)

// Provider makes a double of a provider that is called over HTTP.
type Provider struct {
	// Make makes the channel; url is where the double listens.
	Make func(t *testing.T, url string) channel.Channel
	// Read reads a request as the provider does.
	Read func(t *testing.T, r *http.Request, body []byte) Received
	// Reply answers a request. a is Take, Later, Refuse, Gone or Plain; the last
	// says that the markup was refused.
	Reply func(w http.ResponseWriter, a Answer, got Received)
}

// New starts a double; it is stopped with the test.
func (p Provider) New(t *testing.T) Receiver {
	t.Helper()
	d := &double{p: p}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(t, w, r) }))
	t.Cleanup(s.Close)
	d.url = s.URL
	return d
}

type double struct {
	p   Provider
	url string

	mu   sync.Mutex
	next Answer
	got  []Received
}

func (d *double) Channel(t *testing.T) channel.Channel {
	t.Helper()
	c := d.p.Make(t, d.url)
	if c, ok := c.(interface{ Close() }); ok {
		t.Cleanup(c.Close)
	}
	return c
}

func (d *double) Next(a Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = a
}

func (d *double) Received() []Received {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got
}

func (d *double) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	got := d.p.Read(t, r, body)
	d.mu.Lock()
	next := d.next
	d.got = append(d.got, got)
	d.mu.Unlock()
	switch {
	case next == Silent:
		<-r.Context().Done()
		return
	case next == Plain && !got.Marked:
		next = Take
	}
	d.p.Reply(w, next, got)
}
