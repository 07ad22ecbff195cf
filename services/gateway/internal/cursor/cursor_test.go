package cursor

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/subject"
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

func FuzzParseRow(f *testing.F) {
	for _, s := range []string{
		"", "x", Row{}.String(), Row{1795826644558716053, subject.NewRef("t", "o", "i")}.String(), Row{-1, subject.NewRef("t", "o", "i")}.String(),
		base64.RawURLEncoding.EncodeToString([]byte("1 t.o")), base64.RawURLEncoding.EncodeToString([]byte("01 t.o.i")), base64.RawURLEncoding.EncodeToString([]byte("1  t.o.i")),
		base64.RawURLEncoding.EncodeToString([]byte("99999999999999999999 t.o.i")), base64.RawURLEncoding.EncodeToString([]byte("1 t.o.>")),
	} {
		f.Add(s, Row{1, subject.NewRef("t", "o", "i")}.String())
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		r, ok := ParseRow(a)
		if !ok {
			require.Equal(t, Row{}, r, "what cannot be read is no place")
			return
		}
		again, ok := ParseRow(r.String())
		require.True(t, ok)
		require.Equal(t, r, again)
		require.Zero(t, r.Compare(r))
		if o, ok := ParseRow(b); ok {
			require.Equal(t, r.Compare(o), -o.Compare(r))
			require.Equal(t, r == o, r.Compare(o) == 0)
		}
	})
}
