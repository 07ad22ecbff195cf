package agent_test

import (
	"crypto/ed25519"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
)

// approvedEvent is what the demo says of a call that it was allowed to make.
const approvedEvent = "would have run"

// Whoever gets something into the record that is no gateway's decision about
// exactly this request lets nothing run, and the agent reads that nobody decided.
func TestForgedDecisions_B55_RunNothing_invariant2_invariant4(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	s.Expires = time.Second
	w.worker(s)
	_, foreign, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	for _, c := range []struct {
		name, told string
		forge      func(*pending, *hitl.Decision)
	}{
		{"without a signature", "no decision reached the agent", func(p *pending, d *hitl.Decision) {
			raw, err := hitl.Marshal(d)
			require.NoError(t, err)
			_, err = w.nc.Request(subject.Decision(p.ref), raw, patience)
			require.NoError(t, err)
		}},
		{"signed by an unknown key", "no decision reached the agent", func(p *pending, d *hitl.Decision) {
			_, _, err := journal.New(w.nc, journal.Options{Signer: journal.NewSigner(foreign)}).Decide(t.Context(), p.ref, d)
			require.NoError(t, err)
		}},
		{"about another digest", "the stored decision is not about this request", func(p *pending, d *hitl.Decision) {
			d.Digest = hitl.Digest([]byte("something else"))
			_, _, err := w.j.Decide(t.Context(), p.ref, d)
			require.NoError(t, err)
		}},
		{"about another interaction", "no decision reached the agent", func(p *pending, d *hitl.Decision) {
			d.InteractionID = uuid.NewString()
			_, _, err := w.j.Decide(t.Context(), p.ref, d)
			require.NoError(t, err)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := w.begin(hitl.Start{Runtime: "demo", Prompt: c.name})
			p := w.request("status", func(p *pending) bool { return p.SessionID == id })
			c.forge(p, p.decision(hitl.Content{Outcome: hitl.Allowed}))
			w.change(func() { w.decided[p.ref] = true })
			w.saw(id, hitl.EventToolResult, c.told)
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, e := range w.events[id] {
				require.NotContains(t, string(e.Data), approvedEvent)
			}
			for _, a := range w.acks[p.ID] {
				require.NotEqual(t, hitl.Applied, a.Stage)
				require.NotEqual(t, subject.Taken, a.Stage)
			}
		})
	}
}

// Somebody of the same owner has used the key for something else: the call is not
// run, the agent reads why, and the other request stays as it is.
func TestKeyConflict_B55_IsDeniedInItsOwnWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cred, err := bus.LoadCredentials(w.creds())
	require.NoError(t, err)
	client, err := bus.Connect(t.Context(), cred, bus.Options{})
	require.NoError(t, err)
	defer client.Close()
	const id = "conflicting"
	answered := make(chan *bus.Answer, 1)
	go func() {
		ans, err := client.Ask(t.Context(), &hitl.Request{
			Key: id + ":demo-1-list-0", Kind: hitl.KindApproval, SessionID: id, Title: "Something else",
			Tool: &hitl.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"rm -rf /"}`)},
		})
		if err != nil {
			t.Errorf("ask: %v", err)
		}
		answered <- ans
	}()
	other := w.request("something else", tool("Bash", "rm -rf"))
	w.worker(w.demoSetup())
	w.begin(hitl.Start{Runtime: "demo", Prompt: "hello", SessionID: id})
	w.saw(id, hitl.EventToolResult, "the same call was asked before with other content")
	w.decide(other, hitl.Response{Decision: "allow"})
	require.Equal(t, hitl.Allowed, (<-answered).Decision.Outcome)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events[id] {
		require.NotContains(t, string(e.Data), approvedEvent)
	}
}

// The worker was away for so long that its ask was given up. Nobody decided, so
// its successor asks again, as the next attempt under the same key.
func TestReask_B48_AnOrphanedAskGoesOnAsTheNextAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	k := w.worker(s)
	w.begin(hitl.Start{Runtime: "demo", Prompt: "hello", SessionID: "away"})
	p := w.request("status", tool("Bash", "git status"))
	k.end()
	require.NoError(t, w.store(t.Context(), p, p.decision(hitl.Content{Outcome: hitl.Orphaned})))
	w.worker(s)
	again := w.request("status again", tool("Bash", "git status"))
	require.Equal(t, p.Key, again.Key)
	require.Equal(t, hitl.ID(bus.DefaultTenant, "agents", p.Key, 2), again.ID)
	w.decide(again, hitl.Response{Decision: "allow"})
	w.acked(again, hitl.Applied)
	w.saw("away", hitl.EventToolResult, approvedEvent)
}
