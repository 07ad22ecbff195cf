package gateway_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/gateway"
)

// Who was told to end first says that it is not ready, and serves on meanwhile:
// a proxy has time to send people elsewhere.
func TestADrainServesOnAndSaysThatItEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.gateway(func(o *gateway.Options) { o.Drain = 3 * time.Second })
	ended := make(chan error, 1)
	go func() { ended <- r.stop() }()
	require.Eventually(t, func() bool { return r.Health() != nil }, patience, time.Millisecond)
	code, body := r.call("GET", "/readyz", "", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, string(body), "about to end")
	code, body = r.call("GET", "/api/interactions?state=pending", r.token, "")
	require.Equal(t, http.StatusOK, code, "%s", body)
	require.NoError(t, <-ended)
}
