package role_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

func TestWhoMayDecideWhat(t *testing.T) {
	t.Parallel()
	// By role: the kinds it decides.
	may := map[string][]string{
		wire.RoleViewer:    nil,
		wire.RoleResponder: {hitl.KindQuestion, hitl.KindForm},
		wire.RoleApprover:  {hitl.KindApproval, "unheard-of", ""},
		wire.RoleAdmin:     {hitl.KindApproval, hitl.KindQuestion, hitl.KindForm, "unheard-of", ""},
	}
	places := []struct {
		projects []string
		project  string
		inside   bool
	}{
		{[]string{"shop"}, "shop", true},
		{[]string{"shop"}, "bank", false},
		{[]string{"shop"}, "", false},
		{[]string{"bank", "shop"}, "shop", true},
		{[]string{wire.AllProjects}, "shop", true},
		{[]string{wire.AllProjects}, "", true},
		{[]string{"sho"}, "shop", false},
		{[]string{"Shop"}, "shop", false},
		{[]string{""}, "", false},
		{nil, "", false},
	}
	for name, kinds := range may {
		for _, at := range places {
			s := role.Set{{Role: name, Projects: at.projects}}
			for _, kind := range []string{hitl.KindApproval, hitl.KindQuestion, hitl.KindForm, "unheard-of", ""} {
				t.Run(fmt.Sprintf("%s of %q, kind %q in %q", name, at.projects, kind, at.project), func(t *testing.T) {
					by, ok := s.Decides(kind, "default", at.project)
					want := false
					for _, k := range kinds {
						want = want || k == kind
					}
					require.Equal(t, want && at.inside, ok)
					if ok {
						require.Equal(t, name, by)
					}
					require.Equal(t, at.inside, s.Sees("default", at.project))
				})
			}
		}
	}
	require.False(t, role.Set{{Role: "root", Projects: []string{wire.AllProjects}}}.Sees("default", "shop"), "a role that nobody knows is none")
	require.False(t, role.Set(nil).Sees("default", ""))
}

func TestWhatElseARoleMayDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                              string
		set                               role.Set
		reads, approves, manages, hidesNo bool
	}{
		{"viewer", of(wire.RoleViewer, "*"), false, false, false, false},
		{"responder", of(wire.RoleResponder, "*"), true, false, false, false},
		{"approver", of(wire.RoleApprover, "*"), true, true, false, false},
		{"responder and approver", append(of(wire.RoleResponder, "*"), of(wire.RoleApprover, "*")...), true, true, false, true},
		{"responder here, approver everywhere", append(of(wire.RoleResponder, "shop"), of(wire.RoleApprover, "*")...), true, true, false, false},
		{"admin of one project", of(wire.RoleAdmin, "shop"), true, true, false, false},
		{"admin", of(wire.RoleAdmin, "*"), true, true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.reads, c.set.Reads("default", "shop"))
			require.Equal(t, c.approves, c.set.Approves("default", "shop"))
			require.Equal(t, c.manages, c.set.Manages())
			require.Equal(t, c.hidesNo, c.set.All())
		})
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	bound := func(tenants ...string) role.Set {
		return role.Set{{Role: wire.RoleAdmin, Projects: []string{"*"}, Tenants: tenants}}
	}
	sets := []role.Set{
		nil, role.Everything(), of(wire.RoleAdmin, "shop"), of(wire.RoleAdmin, "shop", "bank"), of(wire.RoleViewer, "*"),
		bound("acme"), bound("acme", "other"), append(of(wire.RoleViewer, "*"), bound("acme")...), of(wire.RoleAdmin, "*", "acme"),
	}
	for i, a := range sets {
		for k, b := range sets {
			require.Equal(t, i == k, a.Same(b), "%v and %v", a, b)
		}
	}
}

func of(name string, projects ...string) role.Set {
	return role.Set{{Role: name, Projects: projects}}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	require.Nil(t, role.Everything().Check("roles"))
	for name, c := range map[string]struct {
		set   role.Set
		field string
	}{
		"none":                 {nil, "roles"},
		"unknown role":         {of("root", "*"), "roles.0.role"},
		"no project":           {of(wire.RoleViewer), "roles.0.projects"},
		"project without name": {of(wire.RoleViewer, "a", ""), "roles.0.projects"},
		"tenant of no name":    {role.Set{{Role: wire.RoleViewer, Projects: []string{"*"}, Tenants: []string{"a b"}}}, "roles.0.tenants"},
		"no tenant":            {role.Set{{Role: wire.RoleViewer, Projects: []string{"*"}, Tenants: []string{}}}, "roles.0.tenants"},
		"too many":             {make(role.Set, 33), "roles"},
	} {
		t.Run(name, func(t *testing.T) {
			inv := c.set.Check("roles")
			require.NotNil(t, inv)
			require.Equal(t, c.field, inv.Fields[0].Field)
		})
	}
}

// A grant that names tenants holds in no other one, and in nothing that belongs to
// all of them.
func TestARoleOfATenantEndsThere_D3_07(t *testing.T) {
	t.Parallel()
	s := role.Set{{Role: wire.RoleAdmin, Projects: []string{wire.AllProjects}, Tenants: []string{"acme"}}}
	require.Nil(t, s.Check("roles"))
	for tenant, inside := range map[string]bool{"acme": true, "other": false, "Acme": false, "": false} {
		_, decides := s.Decides(hitl.KindApproval, tenant, "shop")
		require.Equal(t, []bool{inside, inside, inside, inside, inside},
			[]bool{decides, s.Sees(tenant, "shop"), s.Reads(tenant, ""), s.Approves(tenant, "shop"), s.Administers(tenant, "shop")}, tenant)
	}
	require.False(t, s.Manages(), "people belong to all tenants")
	require.False(t, s.All())
	require.True(t, append(s, role.Everything()...).All())
}
