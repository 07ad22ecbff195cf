package history

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzPlace: a place is written in one way only, and what is none is the beginning of
// nothing.
func FuzzPlace(f *testing.F) {
	at := time.Date(2026, 11, 28, 10, 0, 0, 123, time.UTC)
	good := place(at, 5)
	for _, s := range []string{"", good, good[:len(good)-1], good + "A", good + "=", good + "\n", "\xff\xfe", place(at, 1<<63), place(time.Unix(0, 0), 1), place(time.Unix(-5, 0), 7)} {
		f.Add(s)
	}
	for _, s := range []string{
		"1.2", "+1.2", "1.+2", " 1.2", "1. 2", "01.2", "1.02", "1.0", "1.-2", "1.2 ", "1.2.3", "1.2x", "-1.2", "-0.2", "1", ".", "9223372036854775808.1", "1.18446744073709551616",
		"1.18446744073709551615", "0x1.2", "1_0.2", "{\"a\":1,\"a\":2}", "1\n.2", "1.2\n",
	} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(s)))
	}
	f.Fuzz(func(t *testing.T, text string) {
		created, seq, ok := parsePlace(text)
		if !ok {
			return
		}
		require.NotZero(t, seq, "no message has the number 0")
		require.Equal(t, text, place(time.Unix(0, created), seq))
	})
}
