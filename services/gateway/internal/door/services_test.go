package door_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

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
	t.Run("by what people are told, and whether that works, is asked of a notifier that listens, seldom", func(t *testing.T) {
		t.Parallel()
		at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
		mail := []wire.AlertChannel{{Type: "mail", Addresses: 3, Failing: 1, LastSuccess: &at}}
		var asked atomic.Int32
		var away atomic.Bool
		h := newHouse(t, func(o *door.Options) {
			o.NotifierListens = func(context.Context) (bool, error) { return true, nil }
			o.Channels = func(context.Context) ([]wire.AlertChannel, error) {
				asked.Add(1)
				if away.Load() {
					return nil, errors.New("no answer")
				}
				return mail, nil
			}
		})
		get := func() (got wire.Services) {
			status, raw := h.get("/api/services")
			require.Equal(t, http.StatusOK, status, string(raw))
			require.NoError(t, json.Unmarshal(raw, &got))
			return got
		}
		away.Store(true)
		require.Empty(t, get().Channels, "what cannot be found out is not claimed")
		away.Store(false)
		require.Equal(t, mail, get().Channels)
		require.Equal(t, mail, get().Channels)
		require.EqualValues(t, 2, asked.Load())
		none := newHouse(t, func(o *door.Options) {
			o.NotifierListens = func(context.Context) (bool, error) { return false, nil }
			o.Channels = func(context.Context) ([]wire.AlertChannel, error) { return mail, nil }
		})
		_, raw := none.get("/api/services")
		require.NotContains(t, string(raw), "channels", "nobody is told by what no notifier uses")
	})
	t.Run("nobody is told without a session", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t)
		h.token = "wrong"
		status, _ := h.get("/api/services")
		require.Equal(t, http.StatusUnauthorized, status)
	})
}
