package credential

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func FuzzCredentials(f *testing.F) {
	kp, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, []byte("0123456789abcdef0123456789abcdef"))
	require.NoError(f, err)
	seed, err := kp.Seed()
	require.NoError(f, err)
	const key = `"decision_keys":{"c8cf13c7a5ae2bd3":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`
	owner := `{"v":1,"role":"owner","tenant":"default","name":"agents","urls":["nats://127.0.0.1:4222"],"seed":"` + string(seed) + `",` + key + `}`
	for _, s := range []string{
		owner, strings.Replace(owner, "owner", "provisioner", 1), strings.Replace(owner, "owner", "gateway", 1), `{}`, `null`, `[]`, ``, `{"v":2}`,
		strings.Replace(owner, `"v":1`, `"v":1,"V":1`, 1), strings.Replace(owner, `"seed"`, `"seed":"x","seed"`, 1), strings.Replace(owner, `"default"`, `"a.b"`, 1),
		strings.Replace(owner, string(seed), "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY", 1), strings.Replace(owner, `"`+string(seed)+`"`, `["`+string(seed)+`"]`, 1), strings.Replace(owner, "nats://", "http://", 1),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parseCredentials(raw)
		if err != nil {
			var ce *CredentialsError
			require.ErrorAs(t, err, &ce)
			require.Nil(t, c)
			// The seed is not told, whatever else is wrong.
			var in struct{ Seed string }
			if _ = json.Unmarshal(raw, &in); len(in.Seed) > 8 && strings.Count(string(raw), in.Seed) == 1 {
				require.NotContains(t, err.Error(), in.Seed)
			}
			return
		}
		require.NoError(t, hitl.CheckJSON(raw))
		_, err = c.Auth()
		require.NoError(t, err)
		require.True(t, len(c.PublicDecisionKeys()) > 0 || c.Role == RoleProvisioner)
		_, _, err = c.Signer()
		require.Equal(t, c.Role == RoleGateway, err == nil, "%v", err)
		for _, shown := range []string{c.String(), c.GoString(), c.LogValue().String()} {
			require.NotContains(t, shown, c.Seed)
		}
		path := filepath.Join(t.TempDir(), "c.json")
		require.NoError(t, c.Save(path))
		again, err := LoadCredentials(path)
		require.NoError(t, err)
		again.from = c.from
		require.Equal(t, c, again)
	})
}
