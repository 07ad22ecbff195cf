package journal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

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
