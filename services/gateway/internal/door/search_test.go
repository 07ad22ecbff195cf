package door_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door"
	"github.com/banksman/banksman/services/gateway/internal/history"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// librarian notes what it is asked for.
type librarian struct {
	q   history.Query
	s   role.Set
	out wire.ListReply
	err error
}

func (l *librarian) Search(_ context.Context, s role.Set, q history.Query) (wire.ListReply, error) {
	l.q, l.s = q, s
	return l.out, l.err
}

func TestSearchOfTheRecord(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 14, 2, 0, 0, time.UTC)
	l := &librarian{out: wire.ListReply{Interactions: []wire.Interaction{}, Next: "n", ReadTo: &at}}
	h := newHouse(t, func(o *door.Options) { o.History = l })
	v := url.Values{
		"state": {"decided"}, "q": {"push \"to main\""}, "outcome": {"allowed", "denied"}, "kind": {"approval"}, "tool": {"Bash"},
		"project": {"shop"}, "agent": {"build-7"}, "who": {"Ada"}, "session": {"s1"}, "rule": {"r1"}, "before": {"b"}, "limit": {"7"},
		"from": {"2026-03-04T14:02:00Z"}, "until": {"2026-03-05T00:00:00.5+01:00"},
	}
	status, raw := h.get("/api/interactions?" + v.Encode())
	require.Equal(t, http.StatusOK, status, string(raw))
	require.JSONEq(t, `{"interactions":[],"next":"n","read_to":"2026-03-04T14:02:00Z"}`, string(raw))
	require.True(t, l.q.Until.Equal(time.Date(2026, 3, 4, 23, 0, 0, 5e8, time.UTC)), l.q.Until)
	l.q.Until = time.Time{}
	require.Equal(t, history.Query{
		Text: `push "to main"`, Outcomes: []hitl.Outcome{"allowed", "denied"}, Kind: "approval", Tool: "Bash", Project: "shop",
		Agent: "build-7", Who: "Ada", Session: "s1", Rule: "r1", Before: "b", Limit: 7, From: at,
	}, l.q)

	// Whoever searches does so with their own rights.
	viewer := h.as(h.user("vera", grant(wire.RoleViewer, "shop")))
	status, _ = viewer.get("/api/interactions?state=decided")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, history.Query{Limit: 50}, l.q)
	require.Equal(t, role.Set{grant(wire.RoleViewer, "shop")}, l.s)

	for query, field := range map[string]string{
		"state=decided&limit=x": "limit", "state=decided&from=yesterday": "from", "state=decided&until=1": "until", "state=won": "state",
	} {
		status, raw := h.get("/api/interactions?" + query)
		require.Equal(t, http.StatusBadRequest, status, query)
		var e wire.Error
		require.NoError(t, json.Unmarshal(raw, &e))
		require.Equal(t, field, e.Fields[0].Field)
	}
	l.err = hitl.Invalid("q", "is too long")
	status, raw = h.get("/api/interactions?state=decided")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, string(raw), `"field":"q"`)
	l.err = context.DeadlineExceeded
	status, _ = h.get("/api/interactions?state=decided")
	require.Equal(t, http.StatusServiceUnavailable, status)
}
