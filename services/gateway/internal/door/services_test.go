package door_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door"
)

func TestServicesSayWhoStandsReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		here []bool // what the looks find, the last one for all that follow
		err  error
		want string
	}{
		"a notifier listens": {here: []bool{true}, want: "listening"},
		"one that is busy with an event for a moment listens": {here: []bool{false, true}, want: "listening"},
		"none listens": {here: []bool{false}, want: "silent"},
		"what cannot be found out is not claimed": {err: errors.New("no answer"), want: "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var looks atomic.Int32
			h := newHouse(t, func(o *door.Options) {
				o.NotifierListens = func(context.Context) (bool, error) {
					n := int(looks.Add(1))
					if c.err != nil {
						return false, c.err
					}
					return c.here[min(n, len(c.here))-1], nil
				}
			})
			status, raw := h.get("/api/services")
			require.Equal(t, http.StatusOK, status, string(raw))
			var got wire.Services
			require.NoError(t, json.Unmarshal(raw, &got))
			require.Equal(t, wire.Services{Runtimes: h.fake.Runtimes(), Notifier: c.want}, got)
			before := looks.Load()
			_, _ = h.get("/api/services")
			if c.err == nil {
				require.Equal(t, before, looks.Load(), "one look serves all pages for a while")
			} else {
				require.Greater(t, looks.Load(), before, "who left in the middle of a look spoils it for nobody")
			}
		})
	}
	t.Run("nobody is told without a session", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.token = "wrong"
		status, _ := h.get("/api/services")
		require.Equal(t, http.StatusUnauthorized, status)
	})
}
