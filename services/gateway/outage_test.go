package gateway_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway"
)

// Server and gateway are away for longer than a deadline and than a worker may be
// silent, and the asker is killed before it hears anything. Its successor asks
// again, mostly while all is still away, and gets for each key what is true of it.
func TestAskedAgainAfterALongOutage_B48_B49_invariant3_invariant9(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	// No worker beats during the outage, nor long enough after it.
	soon := func(o *gateway.Options) { o.OrphanAfter = 300 * time.Millisecond }
	g := s.gateway(soon)
	first, second := s.client("agents"), s.client("agents")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	const deadline = 2 * time.Second
	asks := func(key string) *hitl.Request {
		r, limit := request(key), hitl.Duration(0)
		if key == "expired" {
			limit = hitl.Duration(deadline)
		}
		if key == "orphaned" {
			r.SessionID = "lost"
		}
		r.ExpiresIn = &limit
		return r
	}
	post := func(g *running, ref subject.Ref, decision string) {
		ix := g.whole(ref.String())
		status, raw := g.call(http.MethodPost, "/api/interactions/"+ref.String()+"/decision", g.token,
			`{"digest":"`+ix.Digest+`","decision":"`+decision+`"}`)
		require.Equal(t, http.StatusOK, status, string(raw))
	}
	shown := func(g *running, ref subject.Ref) {
		require.Eventually(t, func() bool {
			status, _ := g.call(http.MethodGet, "/api/interactions/"+ref.String(), g.token, "")
			return status == http.StatusOK
		}, patience, 10*time.Millisecond)
	}
	ref := func(key string, attempt int) subject.Ref {
		return subject.NewRef(bus.DefaultTenant, "agents", hitl.ID(bus.DefaultTenant, "agents", key, attempt))
	}
	keys := []string{"waiting", "decided", "expired", "orphaned"}

	_, err := first.Claim(ctx, &hitl.SessionState{SessionID: "lost", Worker: "w1", Generation: 1, Runtime: "demo", State: hitl.StateAssistantTurn})
	require.NoError(t, err)
	lost := make(chan error, len(keys)) // never closed
	asked := time.Now()
	for _, key := range keys {
		go func() {
			_, err := first.Ask(ctx, asks(key))
			lost <- err
		}()
	}
	for _, key := range keys {
		shown(g, ref(key, 1))
	}
	first.Close() // its process is gone
	for range keys {
		require.ErrorIs(t, <-lost, bus.ErrClosed)
	}
	post(g, ref("decided", 1), "deny")
	before := g.whole(ref("decided", 1).String()).Decision.DecisionID

	require.NoError(t, g.stop())
	s.srv.Shutdown()
	type result struct {
		a   *bus.Answer
		err error
	}
	got := map[string]chan result{}
	askAgain := func(key string) {
		if got[key] == nil {
			got[key] = make(chan result, 1)
		}
		to := got[key]
		go func() {
			a, err := second.Ask(ctx, asks(key))
			to <- result{a, err}
		}()
	}
	for _, key := range keys {
		if key != "expired" { // an asker waits no longer than a deadline and a little
			askAgain(key)
		}
	}
	<-time.After(time.Until(asked.Add(2 * deadline))) // the outage
	for _, key := range keys {
		require.Empty(t, got[key], "an outage is no answer")
	}
	s.srv, err = natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(s.dir)})
	require.NoError(t, err)
	t.Cleanup(s.srv.Shutdown)
	g = s.gateway(soon)

	take := func(key string) *bus.Answer {
		t.Helper()
		res := <-got[key]
		require.NoError(t, res.err, key)
		return res.a
	}
	a := take("decided")
	require.Equal(t, before, a.Decision.DecisionID, "the decision from before")
	askAgain("expired")
	a = take("expired")
	require.Equal(t, hitl.Expired, a.Decision.Outcome)
	require.Equal(t, ref("expired", 1), a.Ref)
	post(g, ref("waiting", 1), "allow")
	a = take("waiting")
	require.Equal(t, hitl.Allowed, a.Decision.Outcome)
	require.Equal(t, ref("waiting", 1), a.Ref, "the same card, not a second one")

	// The lost worker's ask ends orphaned, and says so. A successor that takes the
	// session up and asks again begins another attempt.
	a = take("orphaned")
	require.Equal(t, hitl.Orphaned, a.Decision.Outcome)
	require.Equal(t, ref("orphaned", 1), a.Ref)
	_, err = second.Claim(ctx, &hitl.SessionState{SessionID: "lost", Worker: "w2", Generation: 2, Runtime: "demo", State: hitl.StateAssistantTurn})
	require.NoError(t, err)
	beats := time.NewTicker(50 * time.Millisecond)
	alive, end := context.WithCancel(ctx)
	var beating sync.WaitGroup
	beating.Go(func() {
		for alive.Err() == nil {
			if err := second.Beat(hitl.Beat{V: 1, Worker: "w2", Runtimes: []string{"demo"}, Sessions: []string{"lost"}, At: time.Now()}); err != nil {
				t.Error(err)
			}
			select {
			case <-beats.C:
			case <-alive.Done():
			}
		}
	})
	defer beating.Wait()
	defer end()
	askAgain("orphaned")
	shown(g, ref("orphaned", 2))
	require.Equal(t, 2, g.whole(ref("orphaned", 2).String()).Attempt)
	post(g, ref("orphaned", 2), "allow")
	a = take("orphaned")
	require.Equal(t, hitl.Allowed, a.Decision.Outcome)
	require.Equal(t, ref("orphaned", 2), a.Ref)

	status, raw := g.call(http.MethodGet, "/api/interactions", g.token, "")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"interactions":[]}`, string(raw))
}
