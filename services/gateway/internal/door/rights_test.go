package door_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
)

// given changes a user's roles in the store and ends nothing, as when the sessions could
// not be ended any more.
func (h *house) given(id string, roles ...wire.Grant) {
	h.t.Helper()
	nc, _ := servers.Load(h.auth)
	js, err := jetstream.New(nc.(*nats.Conn))
	require.NoError(h.t, err)
	users, err := js.KeyValue(h.t.Context(), auth.UsersBucket)
	require.NoError(h.t, err)
	e, err := users.Get(h.t.Context(), "user."+id)
	require.NoError(h.t, err)
	var u map[string]json.RawMessage
	require.NoError(h.t, json.Unmarshal(e.Value(), &u))
	u["roles"] = text(roles)
	_, err = users.Update(h.t.Context(), "user."+id, text(u), e.Revision())
	require.NoError(h.t, err)
}

// What was opened with rights goes on with them only as long as they are those of its
// person, also where nobody could end the session when they changed.
func TestWhatIsOpenEndsWithTheRightsItWasOpenedWith(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick(socket.Limits{Recheck: 10 * time.Millisecond}))
	h.fake.open("s1")
	ix := h.fake.ask(bash("s1", "c1"))
	open := func(id string) (who *house, tb *tab, events, feed *sse) {
		who = h.as(h.user(id, grant(wire.RoleApprover, "*")))
		tb, _, _ = who.tab("")
		events, feed = who.sse("s1", ""), who.stream("/api/events", "")
		for events.must().typ != ":live" {
			continue
		}
		for feed.must().typ != wire.TypeActiveProcesses {
			continue
		}
		return who, tb, events, feed
	}
	ada, tb, events, feed := open("ada")
	_, stays, _, alsoStays := open("eve")
	h.given("ada", grant(wire.RoleViewer, "*"))
	require.Equal(t, wire.CloseRestart, tb.code(), "she is signed in and comes back by herself")
	events.drain()
	feed.drain()

	_, _, snapshot := ada.tab("")
	require.Empty(t, snapshot[0].PendingRequests[0].ToolInput, "a viewer sees that it waits")
	stays.answer(ix, "r", map[string]any{"decision": "allow"})
	require.Equal(t, hitl.Accepted, stays.receipt("r").Status, "whose rights are the same is left alone")
	for alsoStays.must().typ != wire.TypeProcessState {
		continue
	}
}
