package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/gateway"
)

// Behind a proxy that is trusted the record says where a person was, and nobody can say
// for themselves where they are.
func TestTheRecordSaysFromWhereThroughAProxy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	agents := s.client("agents")
	for name, tc := range map[string]struct {
		trusted []string
		want    string
	}{
		"trusted":     {[]string{"127.0.0.0/8"}, "203.0.113.9"},
		"not trusted": {nil, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := s.gateway(func(o *gateway.Options) { o.TrustedProxies = tc.trusted })
			r := request(name)
			r.SessionID = name
			got := askFor(t, agents, r)
			sum := (&overHTTP{t, g}).seen(hitl.ID("default", "agents", r.Key, 1))
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+g.Addr()+"/api/interactions/"+sum.Key+"/decision",
				strings.NewReader(`{"decision":"allow","digest":"`+sum.Digest+`"}`))
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+g.token)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.9")
			resp, err := g.client().Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, tc.want, take(t, got).Decision.From)
		})
	}
	o := s.options()
	o.TrustedProxies = []string{"10.0.0.0/40"}
	_, err := gateway.New(t.Context(), o)
	require.ErrorContains(t, err, `-trusted-proxy: "10.0.0.0/40" is no address`)
}
