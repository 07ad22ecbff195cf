package bus

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// Whatever is stored of a session, a hold is lost only to a state that can be read and
// counts more, and what was lost stays lost.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{
		``, `null`, `[]`, `{}`, `{"generation":1}`, `{"generation":2}`, `{"generation":3,"worker":"w"}`, `{"generation":-1}`, `{"generation":99999999999999999999}`, `{"generation":"3"}`,
	} {
		for _, seq := range []string{"", "4", "6", "-1", "x"} {
			f.Add([]byte(s), seq, "")
			f.Add([]byte(s), seq, "ours")
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, seq, by string) {
		h := &Hold{generation: 2, id: "ours", at: 5}
		m := &nats.Msg{Data: body, Header: nats.Header{"Nats-Sequence": {seq}, wire.HeaderHold: {by}}}
		var st hitl.SessionState
		readable := json.Unmarshal(body, &st) == nil
		err := h.judge(m)
		require.Equal(t, err, h.lost())
		if err == nil {
			require.False(t, readable && st.Generation > 2)
			return
		}
		require.ErrorIs(t, err, ErrStale)
		require.True(t, readable && st.Generation >= 2)
		require.True(t, st.Generation > 2 || by != "ours", "nobody loses to itself")
		require.ErrorIs(t, h.judge(&nats.Msg{Data: []byte(`{"generation":1}`)}), ErrStale)
	})
}
