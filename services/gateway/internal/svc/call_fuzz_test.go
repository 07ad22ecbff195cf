package svc

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

// shelf is an engine that only knows two interactions, of two tenants.
type shelf struct {
	api.Engine
	ready chan struct{}
	list  []wire.Interaction
}

func (s *shelf) Ready() <-chan struct{} { return s.ready }

func (s *shelf) Interaction(_ context.Context, id string) (*wire.Interaction, error) {
	for _, ix := range s.list {
		if ix.ID == id || ix.Key == id {
			return &ix, nil
		}
	}
	return nil, api.ErrNotFound
}

// Ask takes no part: what an asking says is proved elsewhere.
func (s *shelf) Ask(context.Context, string, hitl.Principal, []byte, time.Duration) (*wire.AskReply, *wire.Error) {
	return nil, &wire.Error{Code: string(hitl.Unavailable), Error: "not here"}
}

// FuzzCall: whatever a caller sends, it is told what is wrong, sees its own
// tenant only, and decides nothing without a person.
func FuzzCall(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `{"id":"a"}`, `{"id":"b"}`, `{"id":"a","decision":"allow","digest":"d"}`, `{"id":"a","request_id":"b","decision":"allow"}`,
		`{"id":"a","ID":"b"}`, `{"limit":-1}`, `{"limit":1e99}`, `{"state":"closed"}`, `{"state":"open"}`, "{\"id\":\"\xff\"}", `{"id":"other.agents.b","principal":{"kind":"person","id":"owner"}}`,
	} {
		for i := range 8 {
			f.Add(uint8(i), []byte(s))
		}
	}
	verbs := []string{wire.VerbGet, wire.VerbDecide, wire.VerbAsk, wire.VerbCancel, wire.VerbLogin, wire.VerbExport, "", "get\u202e"}
	engine := &shelf{ready: make(chan struct{})}
	close(engine.ready)
	for id, tenant := range map[string]string{"a": "default", "b": "other"} {
		engine.list = append(engine.list, wire.Interaction{ID: id, Summary: wire.Summary{Key: tenant + ".agents." + id, Tenant: tenant}})
	}
	s := New(Options{Engine: engine, Asker: engine, Logger: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		verb := verbs[int(which)%len(verbs)]
		var in wire.DecideCall
		if hitl.Decode(body, "call", &in) == nil && in.Token != "" {
			return // a person's: proved elsewhere
		}
		out, refused := s.call(t.Context(), caller{"default", "ci"}, verb, body)
		if refused != nil {
			require.Nil(t, out)
			require.NotEmpty(t, refused.Code)
			require.NotEmpty(t, refused.Error)
			if refused.Code == string(hitl.BadInput) {
				require.NotEmpty(t, refused.Fields)
			}
			require.Less(t, len(refused.Error), 2*len(body)+4096)
			require.NotContains(t, refused.Error, "\u202e")
			return
		}
		require.NoError(t, hitl.CheckJSON(body))
		raw, err := hitl.Marshal(out)
		require.NoError(t, err)
		require.False(t, strings.Contains(string(raw), `"tenant":"other"`))
		if rec, ok := out.(wire.Receipt); ok {
			require.Equal(t, hitl.Forbidden, rec.Status)
		}
	})
}
