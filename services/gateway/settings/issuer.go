package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/banksman/banksman/pkg/settings"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway"
)

// issuerFlags are those of an issuer of sign-ins.
type issuerFlags struct {
	gateway.OIDC
	secretFile string
}

func (f *issuerFlags) add(fs *settings.Set) {
	f.Roles = map[string][]wire.Grant{}
	fs.StringVar(&f.Issuer, "oidc-issuer", "", "`URL` of an OpenID Connect issuer by which people sign in")
	fs.StringVar(&f.Name, "oidc-name", "", "what the issuer is `called` on the sign-in page (default: its host)")
	fs.StringVar(&f.ClientID, "oidc-client-id", "", "`id` of this gateway at the issuer")
	fs.StringVar(&f.secretFile, "oidc-secret-file", "", "`file` with the client secret")
	fs.StringVar(&f.GroupsClaim, "oidc-groups-claim", "", "`claim` that lists a person's groups (default \"groups\")")
	fs.List("oidc-role", "`GROUP=ROLE[@TENANT]:PROJECT[,PROJECT]`: what a group may do; '*' is every group, and every project; without a tenant it holds in all; may be repeated", func(s string) error {
		group, what, ok := strings.Cut(s, "=")
		name, projects, ok2 := strings.Cut(what, ":")
		if !ok || !ok2 || group == "" || name == "" || projects == "" {
			return errors.New("want GROUP=ROLE[@TENANT]:PROJECT[,PROJECT]")
		}
		grant := wire.Grant{Role: name, Projects: strings.Split(projects, ",")}
		if role, tenant, bound := strings.Cut(name, "@"); bound {
			grant.Role, grant.Tenants = role, []string{tenant}
		}
		f.Roles[group] = append(f.Roles[group], grant)
		return nil
	})
}

// read is the issuer that the flags describe, nil where they describe none.
func (f *issuerFlags) read() (*gateway.OIDC, error) {
	if f.Issuer == "" {
		if f.ClientID != "" || f.secretFile != "" || len(f.Roles) > 0 {
			return nil, errors.New("-oidc-issuer is missing, and other -oidc flags are there")
		}
		return nil, nil
	}
	if f.secretFile != "" {
		info, err := os.Stat(f.secretFile)
		if err != nil {
			return nil, fmt.Errorf("-oidc-secret-file: %w", err)
		}
		if perm := info.Mode().Perm(); perm&0o077 != 0 {
			return nil, fmt.Errorf("-oidc-secret-file: %s: mode %04o lets others read it", f.secretFile, perm)
		}
		raw, err := os.ReadFile(f.secretFile)
		if err != nil {
			return nil, fmt.Errorf("-oidc-secret-file: %w", err)
		}
		f.Secret = strings.TrimSpace(string(raw))
	}
	return &f.OIDC, nil
}
