package press_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/notifier/internal/channel/press"
)

type gateway struct {
	calls []wire.DecideCall
	rec   wire.Receipt
	err   error
}

func (g *gateway) Call(_ context.Context, _ string, in, out any) error {
	g.calls = append(g.calls, in.(wire.DecideCall))
	*out.(*wire.Receipt) = g.rec
	return g.err
}

// Who pressed decides, by the account that the platform vouches for: nobody on the list
// is nobody, and each attempt is answered in its own words.
func TestAPressIsItsAccounts_B57_B73(t *testing.T) {
	t.Parallel()
	g := &gateway{rec: wire.Receipt{Receipt: hitl.Receipt{Status: hitl.Accepted}}}
	d := &press.Desk{Gateway: func() press.Gateway { return g }, Logger: slog.New(slog.DiscardHandler)}
	p := press.Press{Account: "U1", Token: "ticket_x", Decision: "allow"}
	require.Contains(t, d.Take(t.Context(), p), "not on the list")
	d.People = map[string]string{"U2": "bob"}
	require.Contains(t, d.Take(t.Context(), p), "not on the list")
	d.People["U1"] = "ada"
	for _, decision := range []string{"", "ALLOW", "answer", "review"} {
		require.Contains(t, d.Take(t.Context(), press.Press{Account: "U1", Token: "t", Decision: decision}), "no button of ours")
	}
	require.Empty(t, g.calls)
	require.Equal(t, "You have approved it.", d.Take(t.Context(), p))
	require.Equal(t, []wire.DecideCall{{Token: "ticket_x", Person: "ada", AsTold: true, Response: hitl.Response{Decision: "allow"}}}, g.calls)
	won := &hitl.Decision{Content: hitl.Content{Outcome: hitl.Denied}, Principal: hitl.Principal{Kind: "person", ID: "bob", Name: "Bob"}, DecidedAt: time.Date(2026, 3, 2, 14, 2, 0, 0, time.UTC)}
	for want, r := range map[string]hitl.Receipt{
		"You had approved it already.":                                              {Status: hitl.Duplicate},
		"Too late: denied by Bob at 14:02 UTC.":                                     {Status: hitl.AlreadyDecided, Decision: won},
		"Too late: it was decided before.":                                          {Status: hitl.AlreadyDecided},
		"Too late: its time was over.":                                              {Status: hitl.TooLate},
		"Nothing was decided: the token is for others.":                             {Status: hitl.Forbidden, Error: "the token is for others"},
		"Nothing was decided: it was refused.":                                      {Status: hitl.BadInput},
		"Nothing was decided: this is not the request any more that was told here.": {Status: hitl.DigestMismatch},
		"It is not known whether this was stored. Pressing again is safe.":          {Status: hitl.Unavailable},
	} {
		g.rec.Receipt = r
		require.Equal(t, want, d.Take(t.Context(), p))
	}
	g.err = errors.New("away")
	require.Equal(t, "It is not known whether this was stored. Pressing again is safe.", d.Take(t.Context(), p))
}
