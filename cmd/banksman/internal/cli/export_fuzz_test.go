package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// FuzzEvidence: a file for banksman verify holds each field once, as it was
// written, or is refused by name. Without a key nothing of it holds, and no text
// in it passes for a verdict.
func FuzzEvidence(f *testing.F) {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	file := `{"v":1,"subject":"hitl.dec.t.o.i","signer":"k","signature":"AA","decision_b64":"` + b64(`{"v":1,"decision_id":"d","interaction_id":"i","outcome":"allowed","request_b64":"`+b64(`{"v":1}`)+`"}`) + `","seq":"7"}`
	for _, s := range []string{
		file, ``, `{}`, `null`, `[]`, file + file, strings.Replace(file, `"v":1`, `"v":2`, 1), strings.Replace(file, `"v":1`, `"v":1,"V":1`, 1), strings.Replace(file, `"signer"`, `"Signer"`, 1),
		strings.Replace(file, `"seq"`, `"unknown"`, 1), strings.Replace(file, `hitl.dec.t.o.i`, `hitl.req.t.o.i\u001b[2J`, 1), `{"v":1,"decision_b64":"!"}`, `{"v":1,"decision_b64":null}`,
	} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "evidence.json")
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		e, err := readEvidence(path)
		if err != nil {
			require.Nil(t, e)
			require.ErrorContains(t, err, path)
			return
		}
		require.NoError(t, hitl.CheckJSON(raw))
		require.Equal(t, 1, e.V)
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &fields))
		for name, want := range map[string]string{"subject": e.Subject, "signer": e.Signer, "signature": e.Signature} {
			var got string
			for have, v := range fields {
				if strings.EqualFold(have, name) {
					require.NoError(t, json.Unmarshal(v, &got))
				}
			}
			require.Equal(t, got, want)
		}
		d, r, problems := Check(e, nil)
		require.NotEmpty(t, problems, "no key counts")
		if d == nil {
			require.Nil(t, r)
			return
		}
		var out bytes.Buffer
		Report(&out, e, d, r)
		for line := range strings.Lines(out.String()) {
			require.NotContains(t, line, "\x1b")
			require.False(t, strings.HasPrefix(line, "VALID") || strings.HasPrefix(line, "NOT VALID"), "a text passes for a verdict: %q", line)
		}
	})
}
