package seal

import (
	"bytes"
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Only what was sealed with the key, for that kind, opens: no other text does, however
// it is made of one that was.
func FuzzOpen(f *testing.F) {
	box, err := New(bytes.Repeat([]byte{7}, 32))
	require.NoError(f, err)
	other, err := New(bytes.Repeat([]byte{8}, 32))
	require.NoError(f, err)
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	good, err := box.Seal("a", now.Add(time.Hour), "secret")
	require.NoError(f, err)
	foreign, err := other.Seal("a", now.Add(time.Hour), "secret")
	require.NoError(f, err)
	for _, s := range []string{"", "x", good, foreign, good + "A", good[1:], good[:len(good)-4], base64.RawURLEncoding.EncodeToString(make([]byte, 12)), base64.StdEncoding.EncodeToString([]byte(good))} {
		f.Add(s, "a")
		f.Add(s, "b")
	}
	f.Fuzz(func(t *testing.T, text, kind string) {
		var v string
		nonce, err := box.Open(kind, text, now, &v)
		if err != nil {
			require.ErrorIs(t, err, ErrBroken)
			require.Empty(t, nonce+v, "nothing of it is told")
			return
		}
		raw, err := base64.RawURLEncoding.DecodeString(text)
		require.NoError(t, err)
		for i := range raw {
			raw[i] ^= 1
			_, err = box.Open(kind, base64.RawURLEncoding.EncodeToString(raw), now, &v)
			require.ErrorIs(t, err, ErrBroken, "byte %d is another", i)
			raw[i] ^= 1
		}
		require.Equal(t, "a", kind)
		require.Equal(t, "secret", v)
		_, err = box.Open(kind, text, now.Add(time.Hour), &v)
		require.ErrorIs(t, err, ErrBroken, "it has expired")
	})
}
