package door

import (
	"net/http"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// maxAudience is how many people are named; the others are counted.
const maxAudience = 50

// audience tells whoever may decide an interaction who else may, and who sees that
// it waits. It says what roles allow, not who has looked.
func (d *Door) audience(w http.ResponseWriter, r *http.Request, sess *auth.Session) {
	ix, err := d.Engine.Interaction(r.Context(), r.PathValue("id"))
	if err == nil && !sess.Rights.Sees(ix.ProjectID) {
		err = api.ErrNotFound
	}
	if err != nil {
		d.engineError(w, err, "interaction")
		return
	}
	if _, ok := sess.Rights.Decides(ix.Kind, ix.ProjectID); !ok {
		fail(w, http.StatusForbidden, string(hitl.Forbidden), "who else may decide is told to those who may")
		return
	}
	users, err := d.Auth.Users(r.Context())
	if err != nil {
		d.authError(w, err, "listing users")
		return
	}
	tokens, err := d.Auth.Tokens(r.Context())
	if err != nil {
		d.authError(w, err, "listing tokens")
		return
	}
	out := wire.Audience{Deciders: []wire.Person{}}
	tell := func(id, name string, rights role.Set) {
		switch _, decides := rights.Decides(ix.Kind, ix.ProjectID); {
		case decides && len(out.Deciders) < maxAudience:
			out.Deciders = append(out.Deciders, wire.Person{ID: id, Name: name, You: sess.Person.Kind == "person" && id == sess.Person.ID})
		case decides:
			out.More++
		case rights.Sees(ix.ProjectID):
			out.Viewers++
		}
	}
	owner := d.Auth.Owner()
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
		if _, ok := role.Set(t.Roles).Decides(ix.Kind, ix.ProjectID); ok {
			out.Programs++
		}
	}
	reply(w, http.StatusOK, out)
}
