// Package role says what people and programs may see and do: roles, each held
// for projects, of all tenants or of some. What no grant names is not allowed.
package role

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// Bounds of what one set may hold.
const (
	maxGrants   = 32
	maxProjects = 256
	maxTenants  = 64
)

var roles = []string{wire.RoleViewer, wire.RoleResponder, wire.RoleApprover, wire.RoleAdmin}

// Set is everything that somebody may do.
type Set []wire.Grant

// Everything is the right to all of it.
func Everything() Set { return Set{{Role: wire.RoleAdmin, Projects: []string{wire.AllProjects}}} }

// Same reports whether two sets hold the same roles in the same order.
func (s Set) Same(o Set) bool {
	return slices.EqualFunc(s, o, func(a, b wire.Grant) bool { return Compare(a, b) == 0 })
}

// Compare orders roles.
func Compare(a, b wire.Grant) int {
	return cmp.Or(strings.Compare(a.Role, b.Role), slices.Compare(a.Projects, b.Projects), slices.Compare(a.Tenants, b.Tenants))
}

// Check names what is wrong with a set; field is what it is called.
func (s Set) Check(field string) *hitl.InvalidError {
	inv := &hitl.InvalidError{}
	add := func(name, format string, args ...any) {
		inv.Fields = append(inv.Fields, hitl.Field{Field: name, Problem: fmt.Sprintf(format, args...)})
	}
	if len(s) == 0 {
		add(field, "is empty: name at least one role")
	}
	if len(s) > maxGrants {
		add(field, "has more than %d entries", maxGrants)
		return inv
	}
	for i, g := range s {
		at := fmt.Sprintf("%s.%d", field, i)
		if !slices.Contains(roles, g.Role) {
			add(at+".role", "must be one of %s", strings.Join(roles, ", "))
		}
		if len(g.Projects) == 0 || len(g.Projects) > maxProjects {
			add(at+".projects", "must name 1 to %d projects, or %q for all", maxProjects, wire.AllProjects)
		}
		if g.Tenants != nil && (len(g.Tenants) == 0 || len(g.Tenants) > maxTenants || slices.ContainsFunc(g.Tenants, func(t string) bool { return subject.Token(t) != t })) {
			add(at+".tenants", "must name 1 to %d tenants, each of letters, digits, - and _; without it the role holds in all", maxTenants)
		}
		for _, p := range g.Projects {
			if p == "" || len(p) > hitl.MaxIdentifier {
				add(at+".projects", "has a project without a name, or with one longer than %d", hitl.MaxIdentifier)
				break
			}
		}
	}
	if len(inv.Fields) > 0 {
		return inv
	}
	return nil
}

// holds returns the first of these roles that s has for a project of a tenant.
// What names no project belongs to those who have all, and what names no tenant
// to those who are bound to none.
func (s Set) holds(tenant, project string, these ...string) (string, bool) {
	for _, r := range these {
		for _, g := range s {
			if g.Tenants != nil && (tenant == "" || !slices.Contains(g.Tenants, subject.Token(tenant))) {
				continue
			}
			if g.Role == r && (slices.Contains(g.Projects, wire.AllProjects) || project != "" && slices.Contains(g.Projects, project)) {
				return r, true
			}
		}
	}
	return "", false
}

// In reports whether s holds anything in a tenant.
func (s Set) In(tenant string) bool {
	return slices.ContainsFunc(s, func(g wire.Grant) bool {
		return g.Tenants == nil || slices.Contains(g.Tenants, subject.Token(tenant))
	})
}

// Sees reports whether s may know that something of a project exists.
func (s Set) Sees(tenant, project string) bool {
	_, ok := s.holds(tenant, project, roles...)
	return ok
}

// Decides returns the role by which s may decide an interaction, and with it see
// what it is about. What can be allowed, and what nobody here knows, takes an
// approver; what can only be answered, a responder.
func (s Set) Decides(kind, tenant, project string) (string, bool) {
	need := wire.RoleApprover
	if k, ok := hitl.LookupKind(kind); ok && !slices.Contains(k.Verbs, hitl.VerbAllow) && slices.Contains(k.Verbs, hitl.VerbAnswer) {
		need = wire.RoleResponder
	}
	return s.holds(tenant, project, need, wire.RoleAdmin)
}

// Reads reports whether s may read conversations of a project and talk in them:
// whoever answers there has to know what it is about.
func (s Set) Reads(tenant, project string) bool {
	_, ok := s.holds(tenant, project, wire.RoleResponder, wire.RoleApprover, wire.RoleAdmin)
	return ok
}

// Approves reports whether s may see tool calls of a project, start sessions
// there and set their mode, which can approve everything in advance.
func (s Set) Approves(tenant, project string) bool {
	_, ok := s.holds(tenant, project, wire.RoleApprover, wire.RoleAdmin)
	return ok
}

// Administers reports whether s is admin of a project.
func (s Set) Administers(tenant, project string) bool {
	_, ok := s.holds(tenant, project, wire.RoleAdmin)
	return ok
}

// Manages reports whether s may manage people and tokens.
func (s Set) Manages() bool {
	_, ok := s.holds("", "", wire.RoleAdmin)
	return ok
}

// All reports whether nothing is hidden from s.
func (s Set) All() bool {
	_, approver := s.holds("", "", wire.RoleApprover, wire.RoleAdmin)
	_, responder := s.holds("", "", wire.RoleResponder, wire.RoleAdmin)
	return approver && responder
}
