package journal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func FuzzHeader(f *testing.F) {
	for _, s := range []string{
		"", "NATS/1.0\r\n\r\n", "NATS/1.0\r\nHitl-Attempt: 2\r\n\r\n", "NATS/1.0 409 Consumer Deleted\r\n\r\n", "NATS/1.0\r\nno colon\r\n: x\r\na:\r\n",
		"NATS/1.0\r\nNats-Sequence: 7\r\nNats-Sequence: 8\r\n\r\n", "Hitl-Attempt: 5", "NATS/1.0\nHitl-Attempt: 5\n", "NATS/1.0\r\n\x00\xff:\xfe\r\n\r\n", "NATS/1.0\r\na: b: c\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h := decodeHeader(raw)
		_, rest, _ := strings.Cut(string(raw), "\r\n")
		values := 0
		for name, list := range h {
			require.NotEmpty(t, name)
			require.NotContains(t, name, ":")
			for _, v := range list {
				require.Equal(t, strings.TrimSpace(v), v)
				require.NotContains(t, v, "\r\n")
				require.Contains(t, rest, v, "nothing is made up")
			}
			values += len(list)
		}
		require.LessOrEqual(t, values, strings.Count(rest, ":"))
	})
}

func FuzzMeta(f *testing.F) {
	for _, s := range []string{
		"", "$JS.ACK.S.C.1.2.3.4.5", "$JS.ACK.domain.hash.S.C.1.2.3.1795826644558716053.5", "$JS.ACK.domain.hash.S.C.1.2.3.4.5.token", "$JS.ACK.S.C.1.2.3.4", "$JS.ACK.........",
		"$JS.ACK.S.C.1.-2.3.4.5", "$JS.ACK.S.C.1.18446744073709551615.3.18446744073709551615.5", "$JS.ACK.S.C.+1.2.3.4.5", "_INBOX.x", "hitl.dec.t.o.i",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		m, err := parseMeta(reply)
		if err != nil {
			require.Equal(t, meta{}, m)
			return
		}
		require.True(t, strings.HasPrefix(reply, ackPrefix))
		again, err := parseMeta(fmt.Sprintf("$JS.ACK.S.C.%d.%d.%d.%d.%d", m.deliveries, m.seq, m.consumer, uint64(m.time.UnixNano()), m.pending))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

// FuzzStored: what the server says of a message counts, whatever its writer put
// into the headers.
func FuzzStored(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"message":null}`, `{"message":{}}`, `{"message":{"subject":"hitl.req.t.o.i","seq":7,"hdrs":"TkFUUy8xLjANCk5hdHMtU2VxdWVuY2U6IDkNCk5hdHMtU3ViamVjdDogeA0KDQo=","data":"e30=","time":"2026-11-27T10:00:00.000000001Z"}}`,
		`{"error":{"code":404,"err_code":10037,"description":"no message found"}}`, `{"error":{"code":503,"err_code":10008}}`, `{"error":{}}`, `{"message":{"data":"!"}}`, `{"message":{"seq":-1}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := get(getRequest{Last: "hitl.req.t.o.i"}, Requests, func(_, resp any) error {
			var failed struct {
				Error *APIError `json:"error"`
			}
			if err := json.Unmarshal(body, &failed); err != nil {
				return err
			}
			if failed.Error != nil {
				return failed.Error
			}
			return json.Unmarshal(body, resp)
		})
		if err != nil {
			require.Nil(t, m)
			require.Equal(t, apiCode(err) == 0 && bytes.Contains(body, []byte("10037")) && errors.Is(err, ErrNotFound), errors.Is(err, ErrNotFound))
			return
		}
		got := m.message()
		require.Equal(t, m.Seq, got.Seq)
		require.Equal(t, m.Subject, got.Subject)
		require.Equal(t, m.Time, got.Time)
		require.Equal(t, m.Data, got.Data)
	})
}

// FuzzDecision: nothing but what a key of ours signed, for the very subject, is
// a decision.
func FuzzDecision(f *testing.F) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	id := hitl.KeyID(key.Public().(ed25519.PublicKey))
	keys := map[string]ed25519.PublicKey{id: key.Public().(ed25519.PublicKey)}
	const subject = "hitl.dec.t.o.i"
	for _, body := range []string{`{"v":1,"decision_id":"d","interaction_id":"i","digest":"x","outcome":"allowed"}`, `{"v":2}`, `{"v":1,"V":1}`, ``} {
		f.Add(subject, hitl.Sign(key, subject, []byte(body)), []byte(body))
		f.Add("hitl.dec.t.o.j", hitl.Sign(key, subject, []byte(body)), []byte(body))
		f.Add(subject, "", []byte(body))
	}
	f.Fuzz(func(t *testing.T, at, signature string, body []byte) {
		d, err := Verify(keys, &Message{Subject: at, Data: body, Header: map[string][]string{hitl.HeaderSigner: {id}, hitl.HeaderSignature: {signature}}})
		signed := hitl.Verify(keys, id, signature, at, body) == nil
		require.Equal(t, !signed, errors.Is(err, ErrUnsigned))
		if err != nil {
			require.Nil(t, d)
			return
		}
		require.True(t, d.Outcome.Known())
		require.Equal(t, hitl.Sign(key, at, body), signature)
	})
}
