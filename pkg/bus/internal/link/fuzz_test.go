package link

import (
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// FuzzServerWords reads what a server may say, and what somebody who stored a
// header would like it to have said.
func FuzzServerWords(f *testing.F) {
	for _, s := range []string{"", "wrong last sequence: 7", "wrong last sequence: ", "sequence: 18446744073709551616", "sequence: -1", "sequence: 1 sequence: 2", "+5", " 5"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, header string) {
		if seq, ok := (&ConflictError{Text: text}).Last(); ok {
			require.True(t, strings.HasSuffix(text, "sequence: "+strconv.FormatUint(seq, 10)) || strings.HasSuffix(strings.TrimLeft(text[strings.Index(text, "sequence: ")+10:], "0"), strconv.FormatUint(seq, 10)) || seq == 0)
		}
		// The server adds its own last.
		m := nats.NewMsg("s")
		m.Header.Add("Nats-Sequence", header)
		m.Header.Add("Nats-Sequence", "42")
		require.Equal(t, uint64(42), Sequence(m))
		require.Zero(t, Sequence(&nats.Msg{Header: nats.Header{"Nats-Sequence": {"x" + header}}}))
		m.Header.Add("Nats-Time-Stamp", header)
		m.Header.Add("Nats-Time-Stamp", "2026-11-27T10:00:00.000000001Z")
		at, err := StoredAt(m)
		require.NoError(t, err)
		require.Equal(t, int64(1795773600000000001), at.UnixNano())
		_, err = StoredAt(&nats.Msg{Header: nats.Header{"Nats-Time-Stamp": {"x" + header}}})
		require.ErrorIs(t, err, ErrUnavailable)
	})
}
