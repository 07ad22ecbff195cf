package status_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/status"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

func TestReadinessTellsWhyNot(t *testing.T) {
	t.Parallel()
	var why atomic.Pointer[string]
	s, err := status.Listen("127.0.0.1:0", status.Options{Ready: func() error {
		if w := why.Load(); w != nil {
			return errors.New(*w)
		}
		return nil
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	url := "http://" + s.Addr()
	code, text := get(t, url+"/readyz")
	require.Equal(t, 200, code, text)
	lost := "the bus is away"
	why.Store(&lost)
	code, text = get(t, url+"/readyz")
	require.Equal(t, 503, code)
	require.Equal(t, "not ready: the bus is away\n", text)
	code, _ = get(t, url+"/healthz")
	require.Equal(t, 200, code, "a process that waits lives")
	code, _ = get(t, url+"/metrics")
	require.Equal(t, 404, code)
	cancel()
	require.NoError(t, <-ended)
}

func TestStatusBesideAService(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	ran := false
	work := func(context.Context) error { ran = true; return nil }
	require.ErrorContains(t, status.Beside(t.Context(), taken.Addr().String(), status.Options{}, work), "-status")
	require.False(t, ran, "an address in use is found before anything starts")
	require.NoError(t, status.Beside(t.Context(), "", status.Options{}, work))
	require.True(t, ran)
	bad := errors.New("bad")
	require.ErrorIs(t, status.Beside(t.Context(), "127.0.0.1:0", status.Options{}, func(ctx context.Context) error {
		require.NoError(t, ctx.Err())
		return bad
	}), bad)
}
