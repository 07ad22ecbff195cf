package notifier_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier"
)

func FuzzConfig(f *testing.F) {
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	hook := `{"channels":[{"name":"hook","type":"webhook","url":"https://example.org/s3cretpath","secrets":["` + secret + `"],"after":"5s"}]}`
	for _, s := range []string{
		``, `{}`, `null`, `[]`, hook, `{"channels":[{"name":"log","type":"log"}]}`, strings.Replace(hook, `"name"`, `"name":"x","Name"`, 1), strings.Replace(hook, "5s", "-5s", 1),
		strings.Replace(hook, "https", "http", 1), strings.Replace(hook, "example.org", "u:p@example.org", 1), strings.Replace(hook, `"`+secret+`"`, `{"a":"`+secret+`"}`, 1), `{"channels":[{"name":"a b","type":"log"}]}`,
		`{"ledger_replicas":9}`, `{"unknown":1}`, strings.Replace(hook, "https://example.org/s3cretpath", "https://[::1/s3cretpath", 1),
	} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "notifier.json")
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		c, err := notifier.LoadConfig(path)
		if err != nil {
			var ce *notifier.ConfigError
			require.ErrorAs(t, err, &ce)
			require.ErrorContains(t, err, path)
			require.NotContains(t, err.Error(), "whsec_MDEy")
			require.NotContains(t, err.Error(), "s3cretpath")
			return
		}
		require.NoError(t, c.Validate())
		shown, err := hitl.Marshal(c)
		require.NoError(t, err)
		require.NotContains(t, string(shown), "whsec_MDEy")
		names := map[string]bool{}
		for _, ch := range c.Channels {
			require.False(t, names[ch.Name])
			names[ch.Name] = true
		}
	})
}
