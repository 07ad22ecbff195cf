package auth_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/gateway/internal/auth"
)

func TestSignOutEverywhereEndsAConfirmedTerminal(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	s := b.store()
	req, poll, err := s.RequestCLI(t.Context(), "laptop", false)
	require.NoError(t, err)
	require.NoError(t, s.ConfirmCLI(t.Context(), req.Code, true, ada))
	require.NoError(t, s.RevokeAll(t.Context(), ada.ID, ""))
	_, token, _, err := s.PollCLI(t.Context(), poll)
	require.ErrorIs(t, err, auth.ErrUnknown)
	require.Empty(t, token)
}

func TestSignOutEverywhereEndsALinkThatWasNotUsed(t *testing.T) {
	t.Parallel()
	b := newBus(t)
	s := b.store()
	link, _, err := s.Link(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.RevokeAll(t.Context(), ada.ID, ""))
	_, _, err = s.Exchange(t.Context(), link)
	require.ErrorIs(t, err, auth.ErrUnknown)
}
