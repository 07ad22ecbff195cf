package act

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `[{"type":"pong"}]`, `{"type":"auth","token":1}`, `{"decision":"allow","Decision":"deny"}`, `{"decision":"allow","deci\u017fion":"deny"}`,
		"{\"text\":\"\xff\"}", `{"answers":{"A":1,"a":2}}`, `{"answers":{"a":1,"a":2}}`, `{"attachments":[{"kind":1}]}`, `{"ref":"r"}{"ref":"s"}`, `{"a\"b":1,"a\"b":2}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, v := range []any{new(wire.Client), new(hitl.Response), new(wire.DecideCall), new(wire.ListCall)} {
			inv := Decode(body, "body", v)
			if inv == nil {
				require.NoError(t, hitl.CheckJSON(body))
				out, err := hitl.Marshal(v)
				require.NoError(t, err)
				require.Nil(t, Decode(out, "body", v), "what was taken can be taken again")
				continue
			}
			require.NotEmpty(t, inv.Fields)
			for _, field := range inv.Fields {
				require.NotEmpty(t, field.Problem)
				require.LessOrEqual(t, len(field.Field), 4000, "what a client sent is repeated in part only")
				require.NotContains(t, field.Field, "Response.", "fields have the names of the protocol")
			}
		}
	})
}
