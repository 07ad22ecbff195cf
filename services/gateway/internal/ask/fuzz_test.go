package ask

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// Whatever a program's body says, who asks is not in it: what is taken has a key and a
// session, and leaves to the gateway what is the gateway's.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		``, `null`, `[]`, `{}`, `{"key":"k"}`, `{"key":"k","kind":"approval","title":"t"}`, `{"key":"k","tenant":"other"}`, `{"key":"k","Tenant":"other"}`, `{"key":"k","owner":"x","id":"i","v":1}`,
		`{"key":"k","key":"l"}`, "{\"key\":\"\xff\"}", `{"key":1}`, `{"key":"k","session_id":"s","agent_name":"a"}`, `{"key":"k"}{"key":"l"}`, `{"key":"k","questions":[{"question":"?"}]}`,
	} {
		f.Add([]byte(s), "ada", "Ada")
		f.Add([]byte(s), "ada", "")
	}
	f.Fuzz(func(t *testing.T, raw []byte, id, name string) {
		r, inv := read(raw, hitl.Principal{Kind: "service", ID: id, Name: name})
		if inv != nil {
			require.Nil(t, r)
			require.NotEmpty(t, inv.Fields, "a refusal names the field")
			return
		}
		require.NoError(t, hitl.CheckJSON(raw), "what two readers could take for two things is no request")
		require.NotEmpty(t, r.Key)
		require.NotEmpty(t, r.SessionID)
		require.Zero(t, r.V)
		require.Empty(t, r.ID+r.Tenant+r.Owner)
	})
}
