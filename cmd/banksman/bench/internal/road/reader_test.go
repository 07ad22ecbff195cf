package road

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// TestReaderComesBackAfterCut plays a gateway that takes an answer, cuts the
// socket before the receipt, and says duplicate when the answer comes again.
func TestReaderComesBackAfterCut(t *testing.T) {
	t.Parallel()
	session := shardMark(0) + "0"
	snapshot := `{"type":"active_processes","sessions":[{"pending_requests":[` +
		`{"key":"k","session_key":"` + session + `","request_type":"tool_approval","digest":"d"}]}]}`
	receipt := `{"type":"receipt","request_id":"k","session_id":"` + session + `","status":"` +
		string(hitl.Duplicate) + `","decision":{"decision_id":"one"}}`
	var dials atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		read := func() bool { _, _, err := conn.Read(r.Context()); return err == nil }
		write := func(s string) { _ = conn.Write(r.Context(), websocket.MessageText, []byte(s)) }
		first := dials.Add(1) == 1
		read() // auth
		write(snapshot)
		read() // the answer
		if first {
			_ = conn.Close(wire.CloseSlow, "read too slowly")
			return
		}
		write(receipt)
		for read() {
		}
	}))
	t.Cleanup(srv.Close)
	rs, err := Open(t.Context(), strings.TrimPrefix(srv.URL, "http://"), "token", 1)
	require.NoError(t, err)
	t.Cleanup(rs.Close)
	asks := []Timing{{Key: "k", Decision: "one"}}
	require.Eventually(t, func() bool {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		return len(rs.accepted["k"]) == 1
	}, SettleLimit, askLimit/10000)
	require.NoError(t, rs.Settled(t.Context(), asks))
	require.NoError(t, rs.Check(asks), "its end is not told again")
	rs.mu.Lock()
	defer rs.mu.Unlock()
	require.Equal(t, 1, rs.cuts)
	require.True(t, rs.sights["k"].Again)
}
