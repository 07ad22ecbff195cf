package natsd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
)

// What the journal provisions is what the accounts give access to: it fits into
// the store beside the ledgers, a gateway may check it, and owners and notifiers
// reach the durables made for them.
func TestAccountsFitTheProvisionedStreams(t *testing.T) {
	t.Parallel()
	plan := testPlan(t.TempDir())
	plan.Tenants = []string{bus.DefaultTenant, "with-dash"}
	plan.Owners = append(plan.Owners, natsd.Owner{Tenant: "with-dash", Name: "pool", Pool: true})
	require.NoError(t, natsd.Write(plan))
	n := &node{dir: plan.Dir, srv: start(t, plan.Dir)}

	cfg := journal.Config{Tenants: plan.Tenants}
	for _, o := range plan.Owners {
		if o.Pool {
			cfg.Pools = append(cfg.Pools, journal.Pool{Tenant: o.Tenant, Pool: o.Name})
		}
	}
	prov := n.connect(t, bus.RoleProvisioner, "", "")
	require.NoError(t, journal.Provision(t.Context(), prov.Conn, cfg))
	gw := n.connect(t, bus.RoleGateway, "", "")
	require.NoError(t, journal.Check(t.Context(), gw.Conn, cfg))
	gw.mustBeContent(t)

	empty := func(c *client, subj string) {
		require.Equal(t, "404", c.ask(t, subj, `{"batch":1,"no_wait":true}`).Header.Get("Status"), subj)
		c.mustBeContent(t)
	}
	for _, tenant := range []string{bus.DefaultTenant, "t", "u", "with-dash"} {
		empty(n.connect(t, bus.RoleNotifier, tenant, ""), pullEvents+journal.NotifierDurable(tenant))
	}
	for _, p := range cfg.Pools {
		empty(n.connect(t, bus.RoleOwner, p.Tenant, p.Pool), pullWork+subject.WorkConsumer(p.Tenant, p.Pool))
	}
}
