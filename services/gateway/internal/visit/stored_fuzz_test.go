package visit

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// FuzzStored: a visit that cannot be read is none; one that can be says when it was, and
// says the same when it is stored again.
func FuzzStored(f *testing.F) {
	good, err := json.Marshal(stored{V: 1, At: time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC), First: "127.0.0.1", From: "::1", Agent: "Firefox"})
	require.NoError(f, err)
	f.Add(good)
	f.Add(good[:len(good)-1])
	for _, c := range [][2]string{
		{`"v":1`, `"v":2`},
		{`"v":1`, `"v":"1"`},
		{`"v":1`, `"v":1e999`},
		{`"v":1`, `"v":1,"v":1`},
		{`"from"`, `"From":"x","from"`},
		{"Firefox", "\xff"},
		{`"::1"`, `["::1"]`},
		{`"::1"`, strings.Repeat("[", 300) + strings.Repeat("]", 300)},
		{"2026-11-28T10:00:00Z", "yesterday"},
		{"2026-11-28T10:00:00Z", "0001-01-01T00:00:00Z"},
		{"2026-11-28T10:00:00Z", "9999-12-31T23:59:59-23:59"},
	} {
		f.Add([]byte(strings.Replace(string(good), c[0], c[1], 1)))
	}
	for _, s := range []string{``, `null`, `[]`, `{}`, `{"v":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := decode(raw)
		if err != nil {
			var inv *hitl.InvalidError
			require.True(t, errors.As(err, &inv))
			require.NotEmpty(t, inv.Fields)
			require.Zero(t, v)
			return
		}
		require.NoError(t, hitl.CheckJSON(raw))
		require.Equal(t, 1, v.V)
		require.False(t, v.At.IsZero())
		again, err := json.Marshal(v)
		if err != nil {
			return // a year beyond 9999
		}
		same, err := decode(again)
		require.NoError(t, err)
		require.True(t, v.At.Equal(same.At))
		require.Equal(t, []string{v.First, v.From, v.Agent}, []string{same.First, same.From, same.Agent})
	})
}
