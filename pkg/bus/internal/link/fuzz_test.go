package link

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// FuzzAck: nothing but a stream's name and a sequence says that a message is
// stored, and an error never does.
func FuzzAck(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `{"stream":"HITL_REQUESTS","seq":7}`, `{"stream":"HITL_REQUESTS","seq":7,"duplicate":true}`, `{"stream":"X","seq":0}`, `{"stream":"","seq":7}`, `{"seq":7}`,
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"},"stream":"X","seq":0}`, `{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"X","seq":9}`,
		`{"error":{"err_code":10054}}`, `{"error":{"err_code":10164}}`, `{"error":{}}`, `{"error":null,"stream":"X","seq":1}`, `{"error":"no"}`, `{"stream":"X","seq":-1}`, `{"stream":"X","seq":1e30}`, `{"stream":"X","seq":1}{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		tooLarge := errors.New("too large")
		seq, err := readAck(answer, tooLarge)
		var said struct {
			Stream string
			Seq    uint64
			Error  *struct {
				Code int `json:"err_code"`
			}
		}
		readable := json.Unmarshal(answer, &said) == nil
		stored := readable && said.Error == nil && said.Stream != "" && said.Seq > 0
		require.Equal(t, stored, err == nil, "%v", err)
		if stored {
			require.Equal(t, said.Seq, seq)
			return
		}
		require.Zero(t, seq)
		// What is no answer leaves open what happened; only these two codes say
		// that there is a message, and they do not say whose.
		var conflict *ConflictError
		require.Equal(t, !readable || said.Error == nil, errors.Is(err, ErrUnavailable))
		code := 0
		if readable && said.Error != nil {
			code = said.Error.Code
		}
		require.Equal(t, code == CodeWrongLastSeq || code == codeStoreFailed, errors.As(err, &conflict))
		require.Equal(t, code == codeTooLarge, errors.Is(err, tooLarge))
	})
}

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
