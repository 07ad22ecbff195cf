// Package audience tells who may decide an interaction and who sees that it waits.
package audience

import (
	"context"
	"time"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// most is how many people are named; the others are counted.
const most = 50

// Of is the audience of ix by the roles that people have now, for whoever asks with
// sess. It says what roles allow, not who has looked.
func Of(ctx context.Context, store *auth.Store, ix *wire.Interaction, sess *auth.Session) (*wire.Audience, error) {
	users, err := store.Users(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := store.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	out := &wire.Audience{Deciders: []wire.Person{}}
	tell := func(id, name string, rights role.Set) {
		switch _, decides := rights.Decides(ix.Kind, ix.Tenant, ix.ProjectID); {
		case decides && len(out.Deciders) < most:
			out.Deciders = append(out.Deciders, wire.Person{ID: id, Name: name, You: sess.Person.Kind == "person" && id == sess.Person.ID})
		case decides:
			out.More++
		case rights.Sees(ix.Tenant, ix.ProjectID):
			out.Viewers++
		}
	}
	owner := store.Owner()
	tell(owner.ID, owner.Name, role.Everything())
	for _, u := range users {
		if !u.Disabled {
			tell(u.ID, u.Name, role.Set(u.Roles))
		}
	}
	for _, t := range tokens {
		if t.RevokedAt != nil || !time.Now().Before(t.ExpiresAt) || t.Owner == ix.Owner {
			continue
		}
		if _, ok := role.Set(t.Roles).Decides(ix.Kind, ix.Tenant, ix.ProjectID); ok {
			out.Programs++
		}
	}
	return out, nil
}
