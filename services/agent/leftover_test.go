package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/store"
)

// leftover runs a demo to its first ask and leaves on disk what change makes of
// it: a state that a kill -9 can leave and that lasts too short to aim at.
func (w *world) leftover(s setup, id string, change func(*store.Session, *pending)) *pending {
	w.t.Helper()
	k := w.worker(s)
	w.begin(hitl.Start{Runtime: "demo", Prompt: "show me", SessionID: id})
	p := w.request("status", tool("Bash", "git status"))
	k.end()
	file := filepath.Join(s.Data, "sessions", id+".json")
	raw, err := os.ReadFile(file)
	require.NoError(w.t, err)
	var rec store.Session
	require.NoError(w.t, json.Unmarshal(raw, &rec))
	require.Len(w.t, rec.Asks, 1)
	change(&rec, p)
	raw, err = hitl.Marshal(&rec)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(file, raw, 0o600))
	return p
}

// claimed notes in the ledger of s that its worker handed the approval out.
func (w *world) claimed(s setup, d *hitl.Decision) {
	w.t.Helper()
	l, err := gate.OpenLedger(filepath.Join(s.Data, "approvals.jsonl"))
	require.NoError(w.t, err)
	require.NoError(w.t, l.Claim(d.InteractionID, d.DecisionID))
	require.NoError(w.t, l.Close())
}

// A worker that was killed when a decision had its effect and the people who
// made it were not told yet: its successor tells them.
func TestSuccessor_B49_B79_SendsTheReceiptsThatAreMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	for name, change := range map[string]func(*store.Session, *pending){
		"told": func(rec *store.Session, _ *pending) { // the ask is still on disk
			rec.Memory = json.RawMessage(`{"round":1,"step":0,"try":0,"asked":true,"results":{"list":{"content":{"outcome":"allowed"}}}}`)
		},
		"long-past": func(rec *store.Session, _ *pending) {
			rec.Memory = json.RawMessage(`{"round":1,"step":3,"try":0,"asked":false,"stopped":true}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.leftover(s, name, change)
			d := w.decide(p, hitl.Response{Decision: "allow"})
			w.claimed(s, d)
			k := w.worker(s)
			w.acked(p, hitl.Delivered)
			w.acked(p, hitl.Applied)
			k.end()
		})
	}
	t.Run("no ask any more", func(t *testing.T) {
		p := w.leftover(s, "unsent", func(*store.Session, *pending) {})
		d := w.decide(p, hitl.Response{Decision: "deny"})
		file := filepath.Join(s.Data, "sessions", "unsent.json")
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var rec map[string]any
		require.NoError(t, json.Unmarshal(raw, &rec))
		delete(rec, "asks")
		rec["memory"] = json.RawMessage(`{"round":1,"step":3,"try":0,"asked":false,"stopped":true}`)
		rec["receipts"] = []any{map[string]any{"ref": p.ref, "decision_id": d.DecisionID, "stage": "applied"}}
		raw, err = json.Marshal(rec)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, raw, 0o600))
		k := w.worker(s)
		w.acked(p, hitl.Delivered)
		require.Equal(t, d.DecisionID, w.acked(p, hitl.Applied).DecisionID)
		k.end()
	})
}

// A worker that was killed between an interrupt and the withdrawal: nothing waits
// for the answer, so its successor takes the card away.
func TestSuccessor_D0_10_WithdrawsWhatWasInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.demoSetup()
	p := w.leftover(s, "interrupted", func(rec *store.Session, _ *pending) {
		rec.Memory = json.RawMessage(`{"round":1,"step":0,"try":0,"asked":true,"stopped":true}`)
	})
	k := w.worker(s)
	w.until("withdrawal", func() bool { return p.withdrawn })
	w.reached("interrupted", hitl.StateUserTurn)
	k.end()
	raw, err := os.ReadFile(filepath.Join(s.Data, "sessions", "interrupted.json"))
	require.NoError(t, err)
	require.NotContains(t, string(raw), `"asks"`)
}

// unclaimed leaves on disk a session whose claim has landed, in a worker that was
// killed before it could note that.
func (w *world) unclaimed(s setup, id string) {
	w.t.Helper()
	cred, err := bus.LoadCredentials(w.creds())
	require.NoError(w.t, err)
	client, err := bus.Connect(w.t.Context(), cred, bus.Options{})
	require.NoError(w.t, err)
	defer client.Close()
	at := time.Now().UTC()
	st := hitl.SessionState{
		V: 1, SessionID: id, Tenant: bus.DefaultTenant, Owner: "agents", Worker: "before", Generation: 1,
		Runtime: "demo", State: hitl.StateStarting, StartedAt: at, StateChangedAt: at,
	}
	_, err = client.Claim(w.t.Context(), &st)
	require.NoError(w.t, err)
	d, err := store.Open(s.Data)
	require.NoError(w.t, err)
	require.NoError(w.t, d.Save(&store.Session{State: st, Inbox: []store.Prompt{{Text: "show me"}}}))
	require.NoError(w.t, d.Close())
}
