package natsd

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/stretchr/testify/require"
)

// FuzzPlan: a plan that is taken becomes a configuration in which the server
// reads the very values, and nothing else.
func FuzzPlan(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"plan":{}}`, `{"plan":{"host":"127.0.0.1","port":4222,"store_dir":"/tmp/a \"b\\","durability":"relaxed"},"keys":{},"decision_keys":{}}`,
		`{"plan":{"port":1,"tenants":["a"],"owners":[{"name":"x","tenant":"a","pool":true}],"callers":[{"name":"y"}]},"keys":{},"decision_keys":{}}`,
		`{"plan":{"port":1,"host":"::1","cluster":{"name":"c","server_name":"n","port":2,"routes":["nats://127.0.0.1:3"]}},"keys":{},"decision_keys":{}}`,
		`{"plan":{"port":1,"host":"x\", port: 9, y: \"","cluster":{"name":"c","server_name":"n","host":"127.0.0.1","port":2,"user":"$HOME","password":"\\\"#;"}},"keys":{},"decision_keys":{}}`,
		`{"plan":{"port":1,"host":"a\nb"},"keys":{},"decision_keys":{}}`, `{"plan":{"port":1,"durability":"never"},"keys":{},"decision_keys":{}}`, `{"plan":{"port":1,"store_dir":"\u2028$x"},"keys":{},"decision_keys":{}}`,
	} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	require.NoError(f, os.MkdirAll(natsDir(dir), 0o700))
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.NoError(t, os.WriteFile(planFile(dir), raw, 0o600))
		st, err := readState(dir)
		if err != nil {
			require.ErrorContains(t, err, planFile(dir), "the file is named")
			return
		}
		if st.Plan.Port == 0 {
			st.Plan.Port = DefaultPort // no test of what is free
		}
		p, err := Plan{Dir: dir}.merge(st.Plan)
		if err != nil {
			var fe *FieldError
			require.ErrorAs(t, err, &fe)
			require.NotEmpty(t, fe.Field)
			return
		}
		keys := map[string][]string{}
		for _, id := range p.identities() {
			keys[id.file()] = []string{"UAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}
		}
		require.NoError(t, os.WriteFile(AccountsFile(dir), []byte(renderAccounts(&p, keys, "sealed-x")), 0o600))
		require.NoError(t, os.WriteFile(ConfigFile(dir), []byte(renderServer(&p)), 0o600))
		got, err := conf.ParseFile(ConfigFile(dir))
		require.NoError(t, err)
		require.Equal(t, p.Host, got["host"])
		require.EqualValues(t, p.Port, got["port"])
		require.Equal(t, p.StoreDir, got["jetstream"].(map[string]any)["store_dir"])
		require.NotContains(t, got, "authorization")
		want := 2 + len(p.Tenants) + len(p.Owners) + len(p.Callers) + 1
		require.Len(t, got["accounts"], want, "system, CORE, the provisioner, and one for each identity")
		if c := p.Cluster; c != nil {
			cluster := got["cluster"].(map[string]any)
			require.Equal(t, c.Name, cluster["name"])
			require.Len(t, cluster["routes"], len(c.Routes))
			if c.User != "" {
				require.Equal(t, c.Password, cluster["authorization"].(map[string]any)["password"])
			}
		}
		// Writing the same plan again changes nothing.
		st.Plan = p
		again, err := json.Marshal(st)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(planFile(dir), again, 0o600))
		st2, err := readState(dir)
		require.NoError(t, err)
		q, err := Plan{Dir: dir}.merge(st2.Plan)
		require.NoError(t, err)
		require.Equal(t, renderServer(&p), renderServer(&q))
		require.Equal(t, renderAccounts(&p, keys, "s"), renderAccounts(&q, keys, "s"))
		_, err = os.Stat(filepath.Join(dir, "creds"))
		require.True(t, errors.Is(err, os.ErrNotExist))
	})
}
