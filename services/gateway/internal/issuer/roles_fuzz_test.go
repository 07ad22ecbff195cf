package issuer

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
)

// FuzzRoles: whatever an issuer says of somebody's groups, it is a list of texts or one
// text, whole, or it is none; and nobody has a role that none of the groups has.
func FuzzRoles(f *testing.F) {
	for _, s := range []string{
		``, `null`, `"ops"`, `["ops"]`, `["ops","staff"]`, `["ops",1]`, `["ops",null]`, `["ops",["staff"]]`, `[["ops"]]`, `{"ops":true}`, `1`, `1e999`, `true`, `["*"]`, `"*"`, `""`, `[""]`, `[]`,
		`["OPS"]`, `["ops"`, "[\"\xff\"]", `"o\u0070s"`, `["ops","ops"]`, `[[[[[[[[[[[[[[[["ops"]]]]]]]]]]]]]]]]`,
	} {
		f.Add([]byte(s))
	}
	admin, viewer, all := wire.Grant{Role: wire.RoleAdmin, Projects: []string{"*"}}, wire.Grant{Role: wire.RoleViewer, Projects: []string{"shop"}}, wire.Grant{Role: wire.RoleViewer, Projects: []string{"lobby"}}
	i := &Issuer{Options: Options{Roles: map[string][]wire.Grant{"ops": {admin}, "staff": {viewer}, "*": {all}}}}
	f.Fuzz(func(t *testing.T, claim []byte) {
		set := i.roles(claim)
		var said any
		_ = json.Unmarshal(claim, &said) // nil where it is no JSON
		in := map[string]bool{}
		switch v := said.(type) {
		case string:
			in[v] = true
		case []any:
			for _, one := range v {
				s, ok := one.(string)
				if !ok {
					in = map[string]bool{}
					break
				}
				in[s] = true
			}
		}
		var want []wire.Grant
		if in["ops"] {
			want = append(want, admin)
		}
		if in["staff"] {
			want = append(want, viewer)
		}
		require.ElementsMatch(t, append(want, all), []wire.Grant(set))
		require.True(t, set.Same(i.roles(claim)), "said again, it is the same")
		require.Len(t, i.Roles["*"], 1, "what is configured stays as it is")
	})
}
