package hitl_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func TestParseDecision(t *testing.T) {
	t.Parallel()
	d, err := hitl.ParseDecision([]byte(`{"v":1,"decision_id":"d","interaction_id":"i","digest":"x","outcome":"denied","new_field":1}`))
	require.NoError(t, err, "unknown fields are no reason to refuse")
	require.Equal(t, hitl.Denied, d.Outcome)
	for name, c := range map[string]struct {
		body string
		bad  []string
	}{
		"empty":               {`{}`, []string{"v", "decision_id", "interaction_id", "digest", "outcome"}},
		"unknown outcome":     {`{"v":1,"decision_id":"d","interaction_id":"i","digest":"x","outcome":"approved"}`, []string{"outcome"}},
		"outcome twice":       {`{"v":1,"decision_id":"d","interaction_id":"i","digest":"x","outcome":"denied","outcome":"allowed"}`, []string{"decision"}},
		"twice in a disguise": {`{"v":1,"decision_id":"d","deciſion_id":"e","interaction_id":"i","digest":"x","outcome":"denied"}`, []string{"decision"}},
		"wrong type":          {`{"outcome":1}`, []string{"outcome"}},
		"not JSON":            {`allowed`, []string{"decision"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := hitl.ParseDecision([]byte(c.body))
			require.Equal(t, c.bad, fields(t, err))
		})
	}
}

func TestDecisionCarriesItsRequest(t *testing.T) {
	t.Parallel()
	d := &hitl.Decision{RequestB64: base64.StdEncoding.EncodeToString([]byte(`{"v":1}`))}
	r, err := d.Request()
	require.NoError(t, err)
	require.Equal(t, `{"v":1}`, string(r))
	bare := d.WithoutRequest()
	require.Empty(t, bare.RequestB64)
	require.NotEmpty(t, d.RequestB64, "the original keeps it")
	r, err = bare.Request()
	require.NoError(t, err)
	require.Nil(t, r)
	_, err = (&hitl.Decision{RequestB64: "%"}).Request()
	require.Error(t, err)
}

func TestSameAnswer_invariant6(t *testing.T) {
	t.Parallel()
	base := func() *hitl.Decision {
		return &hitl.Decision{
			DecisionID: "1", Digest: "x", Principal: hitl.Principal{Kind: "person", ID: "p"},
			Content: hitl.Content{Outcome: hitl.Allowed, UpdatedInput: []byte(`{"a":1,"b":2}`)},
		}
	}
	same := base()
	same.DecisionID, same.Channel, same.Principal.Name = "2", "chat", "Pat"
	same.UpdatedInput = []byte(`{ "b": 2, "a": 1 }`)
	require.True(t, base().SameAnswer(same))
	for name, change := range map[string]func(*hitl.Decision){
		"principal":      func(d *hitl.Decision) { d.Principal.ID = "q" },
		"principal kind": func(d *hitl.Decision) { d.Principal.Kind = "service" },
		"digest":         func(d *hitl.Decision) { d.Digest = "y" },
		"outcome":        func(d *hitl.Decision) { d.Outcome = hitl.Denied },
		"number":         func(d *hitl.Decision) { d.UpdatedInput = []byte(`{"a":1.0,"b":2}`) },
		"message":        func(d *hitl.Decision) { d.Message = "m" },
	} {
		other := base()
		change(other)
		require.False(t, base().SameAnswer(other), name)
	}
}

func TestAsksAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome hitl.Outcome
		comment string
		want    bool
	}{
		{hitl.Orphaned, "", true},
		{hitl.Cancelled, hitl.ShutdownComment, true},
		{hitl.Cancelled, "", false},
		{hitl.Denied, hitl.ShutdownComment, false},
		{hitl.Expired, "", false},
	} {
		require.Equal(t, c.want, (&hitl.Decision{Content: hitl.Content{Outcome: c.outcome, Comment: c.comment}}).AsksAgain())
	}
}

func TestSignatures_invariant2(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	pub := key.Public().(ed25519.PublicKey)
	id := hitl.KeyID(pub)
	require.Regexp(t, `^[0-9a-f]{16}$`, id)
	keys := map[string]ed25519.PublicKey{id: pub, "short": pub[:31]}
	const subj = "hitl.dec.t.o.i"
	body := []byte(`{"v":1}`)
	sig := hitl.Sign(key, subj, body)
	require.Equal(t, "zVYmbjpBoywE8ASN89R606EJAR0WJdJXUdo1VfWUaIqitE59vn1aSyNhYAdHZV1+yUldR/powuI8XEfGYZU6AQ==", sig, "fixed: stored decisions must stay valid")
	require.NoError(t, hitl.Verify(keys, id, sig, subj, body))

	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", ed25519.SeedSize)))
	for name, err := range map[string]error{
		"invariant 2: moved to another interaction": hitl.Verify(keys, id, sig, "hitl.dec.t.o.j", body),
		"moved to another owner":                    hitl.Verify(keys, id, sig, "hitl.dec.t.p.i", body),
		"body changed":                              hitl.Verify(keys, id, sig, subj, []byte(`{"v":2}`)),
		"subject and body run together":             hitl.Verify(keys, id, sig, subj+"\n{", []byte(`"v":1}`)),
		"unknown signer":                            hitl.Verify(keys, "other", sig, subj, body),
		"no signer":                                 hitl.Verify(keys, "", sig, subj, body),
		"no signature":                              hitl.Verify(keys, id, "", subj, body),
		"not base64":                                hitl.Verify(keys, id, "%%%", subj, body),
		"cut signature":                             hitl.Verify(keys, id, sig[:40], subj, body),
		"another key under this id":                 hitl.Verify(keys, id, hitl.Sign(other, subj, body), subj, body),
		"a key that is no key":                      hitl.Verify(keys, "short", sig, subj, body),
		"no keys":                                   hitl.Verify(nil, id, sig, subj, body),
		"signed without the domain tag": hitl.Verify(keys, id, base64.StdEncoding.EncodeToString(
			ed25519.Sign(key, []byte(subj+"\n"+string(body)))), subj, body),
	} {
		require.ErrorIs(t, err, hitl.ErrBadSignature, name)
	}
}
