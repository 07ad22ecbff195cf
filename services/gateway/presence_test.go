package gateway_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// What a person says of a screen reaches the tenant's notifier, in the account where
// that one lives, over either transport; and nobody else's word does.
func TestLooksReachTheNotifier(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	agents := s.client("agents")
	nc := s.connect(bus.RoleNotifier)
	heard, err := nc.SubscribeSync("hitl.seen.default.*.*")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	tr := &overHTTP{t, g}
	for _, c := range []struct {
		name string
		see  func(key string)
	}{
		{"HTTP", func(key string) {
			status, raw := g.call(http.MethodPost, "/api/seen", g.token, `{"requests":["`+key+`"]}`)
			require.Equal(t, 200, status, string(raw))
		}},
		{"WebSocket", func(key string) {
			g.socket(func(send func(any), raw json.RawMessage) bool {
				var f struct{ Type string }
				require.NoError(t, json.Unmarshal(raw, &f))
				if f.Type == wire.TypeHello {
					send(wire.Client{Type: wire.TypeSeen, Requests: []string{key}, Response: hitl.Response{Ref: "r"}})
				}
				return f.Type == wire.TypeReceipt
			})
		}},
	} {
		askFor(t, agents, request(c.name))
		sum := tr.seen(hitl.ID(bus.DefaultTenant, "agents", c.name, 1))
		status, _ := g.call(http.MethodPost, "/api/seen", "nobody", `{"requests":["`+sum.Key+`"]}`)
		require.Equal(t, 401, status)
		c.see(sum.Key)
		m, err := heard.NextMsg(patience)
		require.NoError(t, err, c.name)
		require.Equal(t, subject.Seen(subject.NewRef(bus.DefaultTenant, "agents", sum.RequestID)), m.Subject)
		require.Empty(t, m.Data)
	}
}
