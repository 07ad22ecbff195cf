package svc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// Over the bus a person has the rights that the person has everywhere.
func TestAPersonsRightsComeWithTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	closed := ix("c", "default", wire.StateClosed)
	closed.Kind, closed.ProjectID = hitl.KindApproval, "shop"
	w.stub.list = []wire.Interaction{closed}
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(w.dir, bus.RoleGateway, "", ""))
	require.NoError(t, err)
	_, key, err := creds.Signer()
	require.NoError(t, err)
	ref := subject.NewRef("default", "agents", "c")
	_, _, err = journal.New(w.core, journal.Options{Signer: journal.NewSigner(key)}).Decide(t.Context(), ref, &hitl.Decision{
		V: 1, DecisionID: "d", InteractionID: "c", Digest: "d", Content: hitl.Content{Outcome: hitl.Allowed},
	})
	require.NoError(t, err)
	c := w.caller("", "cli")
	by := hitl.Principal{Kind: "person", ID: "owner"}
	for id, test := range map[string]struct {
		set  role.Set
		code string
	}{
		"viewer":    {role.Set{{Role: wire.RoleViewer, Projects: []string{"shop"}}}, "forbidden"},
		"responder": {role.Set{{Role: wire.RoleResponder, Projects: []string{"*"}}}, "forbidden"},
		"elsewhere": {role.Set{{Role: wire.RoleAdmin, Projects: []string{"bank"}}}, "not_found"},
		"approver":  {role.Set{{Role: wire.RoleApprover, Projects: []string{"shop"}}}, ""},
	} {
		t.Run(id, func(t *testing.T) {
			_, err := w.auth.AddUser(t.Context(), wire.NewUser{ID: id, Roles: test.set}, by)
			require.NoError(t, err)
			token, _, err := w.auth.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: id})
			require.NoError(t, err)
			e, err := c.Export(t.Context(), wire.ExportCall{ID: "c", Token: token})
			if test.code != "" {
				require.Equal(t, test.code, refusal(t, err).Code)
			} else {
				require.NoError(t, err)
				require.Equal(t, subject.Decision(ref), e.Subject)
			}
			_, err = c.Decide(t.Context(), wire.DecideCall{ID: "c", Token: token})
			require.NoError(t, err)
			w.stub.mu.Lock()
			defer w.stub.mu.Unlock()
			a := w.stub.attempts[len(w.stub.attempts)-1]
			require.Equal(t, test.set, a.Rights)
			require.Equal(t, id, a.Principal.ID)
			require.Equal(t, "caller cli", a.From)
			require.NotNil(t, a.Presence)
		})
	}
}
