package paths

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is looked for before the expression only spares work.
func FuzzSecret(f *testing.F) {
	for _, s := range []string{
		"/home/a/.ssh/id_rsa", ".aws", "x/.gnupg/", "id_ed25519", ".netrc", "a/.npmrc", ".pgpass", "credentials", "a/credentials",
		"/etc/shadow", ".kube/config", "x/.docker/config.json", "key.pem", "TARGET=staging", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { require.Equal(t, secret.MatchString(s), IsSecret(s)) })
}
