package sight

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// A frame lists a part of what waits where much does. To who sees some of it, what the
// frame does not list is not over.
func TestAPartOfWhatWaitsIsSaidToBeOne_B18(t *testing.T) {
	t.Parallel()
	s := role.Set{{Role: wire.RoleResponder, Projects: []string{"mine"}}}
	state := func(count int, projects ...string) wire.ProcessState {
		var st wire.ProcessState
		st.Tenant, st.PendingCount = "default", count
		for _, p := range projects {
			st.PendingRequests = append(st.PendingRequests, wire.Summary{Tenant: "default", ProjectID: p})
		}
		return st
	}
	for name, tc := range map[string]struct {
		st   wire.ProcessState
		want int
	}{
		"all is listed":             {state(2, "mine", "other"), 1},
		"more waits than is listed": {state(5, "mine", "other"), 2},
		"nothing of it is seen":     {state(5, "other", "other"), 1},
	} {
		got, _ := State(s, tc.st)
		require.Equal(t, tc.want, got.PendingCount, name)
	}
}
