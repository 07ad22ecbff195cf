package sight_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/role"
	"github.com/banksman/banksman/services/gateway/internal/sight"
)

// What a later version tells is shown to nobody from whom anything is hidden,
// and so is what cannot be read.
func TestWhatIsNotKnownIsWithheld(t *testing.T) {
	t.Parallel()
	at := sight.Place{Tenant: "default", Project: "shop"}
	almost := role.Set{{Role: wire.RoleApprover, Projects: []string{"*"}}, {Role: wire.RoleResponder, Projects: []string{"shop"}}}
	list := []wire.Event{
		{Type: "of-a-later-version", Data: json.RawMessage(`{"text":"x"}`)},
		{Type: hitl.EventInteractionRequest, Data: json.RawMessage(`"x"`)},
		{Type: hitl.EventInteractionPending, Data: json.RawMessage(`1`)},
		{Type: hitl.EventText, Data: json.RawMessage(`{"text":"x"}`)},
	}
	require.Equal(t, list, sight.Events(role.Everything(), at, list))
	require.Equal(t, list[3:], sight.Events(almost, at, list))

	require.Nil(t, sight.NewFrames(role.Everything(), nil))
	f := sight.NewFrames(almost, func(string) sight.Place { return at })
	for _, frame := range []string{``, `[]`, `{"type":"of-a-later-version"}`, `{"type":"process_state","pending_requests":1}`, `{"type":"event","events":1}`, `{"type":"delivery","key":1}`, `{"type":"active_processes","sessions":1}`} {
		require.Nil(t, f.Cut([]byte(frame)), frame)
	}
	require.JSONEq(t, `{"type":"ping"}`, string(f.Cut([]byte(`{"type":"ping"}`))))
}
