package engine

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// What this version does not know is shown as it came, kept as it came, and
// cannot be allowed.
func TestUnknownKindIsShownRawAndNeverAllowed_D0_05_invariant4(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	r := request("later", func(r *hitl.Request) { r.Kind, r.Tool = "payment", nil })
	raw, err := hitl.Marshal(r)
	require.NoError(t, err)
	raw = append(raw[:len(raw)-1], `,"amount":19.90,"iban":"DE\u202e02","n":9007199254740993}`...)
	w.store(nc, subject.Request(ref(r)), raw)
	pending(t, e, r.ID)

	ix, err := e.Interaction(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, "payment", ix.RequestType)
	require.Equal(t, []string{hitl.VerbDeny, hitl.VerbDismiss}, ix.Body.Verbs)
	require.Len(t, ix.Body.Blocks, 1)
	require.Contains(t, ix.Body.Blocks[0].Text, `"amount": 19.90`)
	require.Contains(t, ix.Body.Blocks[0].Text, "9007199254740993")

	got := e.Decide(t.Context(), answer(r, raw, "ada", allow))
	require.Equal(t, hitl.BadInput, got.Status)
	pending(t, e, r.ID)
	got = e.Decide(t.Context(), answer(r, raw, "ada", deny))
	require.Equal(t, hitl.Accepted, got.Status, got.Error)
	stored, err := w.journal(nc).Decision(t.Context(), ref(r))
	require.NoError(t, err)
	kept, err := stored.Request()
	require.NoError(t, err)
	require.Equal(t, string(raw), string(kept))
}

// A decision says who, by which way, how sure, under which policy, when and
// about which request, and is signed for its own subject.
func TestDecisionRecord_invariant1_invariant2(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	inbox, err := nc.SubscribeSync("hitl.inbox.>")
	require.NoError(t, err)
	r := request("k1", func(r *hitl.Request) { r.Tool.Input = json.RawMessage(`{"command":"git push --force"}`) })
	raw := w.ask(nc, r)
	pending(t, e, r.ID)
	require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", allow)).Status)
	m, err := inbox.NextMsg(patience)
	require.NoError(t, err)
	d, err := hitl.ParseDecision(m.Data)
	require.NoError(t, err)
	require.Equal(t, r.ID, d.InteractionID)
	require.Equal(t, hitl.Digest(raw), d.Digest)
	require.Equal(t, hitl.Principal{Kind: "person", ID: "ada", Name: "ada"}, d.Principal)
	require.Equal(t, "web", d.Channel)
	require.Equal(t, "session", d.Assurance)
	require.Equal(t, "high", d.Policy.Risk)
	require.NotEmpty(t, d.Policy.Version)
	require.EqualValues(t, 1, d.RequestSeq)
	require.False(t, d.RequestedAt.IsZero())
	require.False(t, d.DecidedAt.Before(d.RequestedAt), "one clock")
	signer := m.Header.Get(hitl.HeaderSigner)
	pub := w.key.Public().(ed25519.PublicKey)
	keys := map[string]ed25519.PublicKey{hitl.KeyID(pub): pub}
	require.Contains(t, keys, signer)
	subj := subject.Decision(ref(r))
	require.NoError(t, hitl.Verify(keys, signer, m.Header.Get(hitl.HeaderSignature), subj, m.Data))
	other := subject.Decision(subject.NewRef(r.Tenant, r.Owner, "other"))
	require.ErrorIs(t, hitl.Verify(keys, signer, m.Header.Get(hitl.HeaderSignature), other, m.Data), hitl.ErrBadSignature)
	changed := strings.Replace(string(m.Data), `"allowed"`, `"denied"`, 1)
	require.NotEqual(t, string(m.Data), changed)
	require.ErrorIs(t, hitl.Verify(keys, signer, m.Header.Get(hitl.HeaderSignature), subj, []byte(changed)), hitl.ErrBadSignature)
	for i := range 2 { // not even a gateway writes a second one
		again, err := nc.Request(subj, fmt.Appendf(nil, `{"v":%d}`, i), patience)
		require.NoError(t, err)
		require.Contains(t, string(again.Data), `"error"`)
	}
}
