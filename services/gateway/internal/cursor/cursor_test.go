package cursor

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "x", Position{}.String(), Position{1795826644558716053, 7, 1795826644563993523, 2}.String(), Position{Events: 1, Transcripts: -1}.String(),
		base64.RawURLEncoding.EncodeToString([]byte("1.2.3")), base64.RawURLEncoding.EncodeToString([]byte("1.2.3.4.5")), base64.RawURLEncoding.EncodeToString([]byte("1.99999999999999999999.3.4")),
		base64.RawURLEncoding.EncodeToString([]byte(" 1. 2. 3. 4")), base64.RawURLEncoding.EncodeToString([]byte("1.2.3.4x")), base64.RawURLEncoding.EncodeToString([]byte("0x1.0b1.1_0.4")),
		base64.StdEncoding.EncodeToString([]byte("1.2.3.4")),
	} {
		f.Add(s, Position{1, 2, 1, 2}.String())
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		p, okP := Parse(a)
		q, okQ := Parse(b)
		if okP {
			require.GreaterOrEqual(t, p.Events, int64(0))
			require.GreaterOrEqual(t, p.Transcripts, int64(0))
			again, ok := Parse(p.String())
			require.True(t, ok)
			require.Equal(t, p, again)
			require.True(t, p.Covers(p))
			require.False(t, After(a, a), "nothing is after itself")
		}
		if !okP || !okQ {
			require.True(t, After(a, b), "what cannot be read covers nothing")
			return
		}
		require.Equal(t, !q.Covers(p), After(a, b))
		if p.Covers(q) && q.Covers(p) {
			require.Equal(t, p, q)
		}
		if !p.SameEpoch(q) {
			require.True(t, After(a, b) && After(b, a), "a stream made anew makes every cursor worthless")
		}
	})
}
