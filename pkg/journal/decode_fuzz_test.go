package journal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"unicode/utf8"

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

// FuzzAck: a message is stored only if the server says so of the very stream.
func FuzzAck(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `{"stream":"HITL_DECISIONS","seq":7}`, `{"stream":"HITL_DECISIONS","seq":7,"duplicate":true}`, `{"stream":"HITL_EVENTS","seq":7}`, `{"stream":"HITL_DECISIONS","seq":0}`,
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"},"stream":"HITL_DECISIONS","seq":0}`, `{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"HITL_DECISIONS","seq":7}`,
		`{"error":{"err_code":10164}}`, `{"error":{}}`, `{"error":null,"stream":"HITL_DECISIONS","seq":1}`, `{"error":[]}`, `{"stream":"HITL_DECISIONS","seq":-1}`, `{"Stream":"HITL_DECISIONS","SEQ":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		seq, err := readAck(answer, Decisions)
		var said struct {
			Stream string
			Seq    uint64
			Error  *APIError
		}
		readable := json.Unmarshal(answer, &said) == nil
		require.Equal(t, readable && said.Error == nil && said.Stream == Decisions && said.Seq > 0, err == nil)
		if err == nil {
			require.Equal(t, said.Seq, seq)
			return
		}
		require.Zero(t, seq)
		// No verdict without the server's code for it.
		if !readable || said.Error == nil {
			require.Zero(t, apiCode(err))
			require.False(t, full(err))
			return
		}
		require.Equal(t, said.Error.ErrCode, apiCode(err))
		require.False(t, full(err) && said.Error.ErrCode == codeWrongLast)
	})
}

// FuzzCompare: whatever one field of a stream's configuration is changed to, or
// whatever is added, is told; what the server writes of our own is no
// difference.
func FuzzCompare(f *testing.F) {
	for field, value := range map[string]string{
		"max_msgs_per_subject": `2`, "discard": `"old"`, "discard_new_per_subject": `false`, "deny_delete": `false`, "deny_purge": `null`, "allow_msg_ttl": `true`, "allow_rollup_hdrs": `true`,
		"subjects": `["hitl.dec.>","hitl.x"]`, "republish": `{"src":"hitl.dec.>","dest":"hitl.other.>"}`, "metadata": `{"_nats.ver":"2.15.2"}`, "max_bytes": `1`, "num_replicas": `3`, "max_age": `31536000000000000`,
		"retention": `"limits"`, "mirror": `{"name":"X"}`, "sources": `[]`, "placement": `{}`, "subject_delete_marker_ttl": `0`, "": `1`, "Discard": `"new"`, "max_msg_size": `8388608.0`, "allow_msg_schedules": `-0`,
	} {
		for stream := range 6 {
			f.Add(uint8(stream), field, []byte(value))
		}
	}
	streams := Config{}.streams()
	f.Fuzz(func(t *testing.T, which uint8, field string, value []byte) {
		want := streams[int(which)%len(streams)]
		skip := Config{}.open(want.name())
		said := map[string]json.RawMessage{}
		for k, v := range want {
			raw, err := json.Marshal(v)
			require.NoError(t, err)
			said[k] = raw
		}
		own, err := json.Marshal(said)
		require.NoError(t, err)
		d, err := compare("stream", want, own, skip)
		require.NoError(t, err)
		require.Empty(t, d.fields)

		// As the server would send it: names and values are valid.
		if !utf8.ValidString(field) || !json.Valid(value) || hitl.CheckJSON(value) != nil {
			_, _ = compare("stream", want, value, skip)
			return
		}
		said[field] = value
		changed, err := json.Marshal(said)
		require.NoError(t, err)
		d, err = compare("stream", want, changed, skip)
		if err != nil {
			return // told as well
		}
		was, named := want[field]
		given, err := canonical(json.RawMessage(value))
		require.NoError(t, err)
		before := []byte("null")
		if named {
			before, err = canonical(was)
			require.NoError(t, err)
		}
		nothing := off(given) && off(before) || named && bytes.Equal(given, before)
		if nothing || slices.Contains(skip, field) && named || slices.Contains(ignored, field) {
			require.Empty(t, d.fields)
			return
		}
		require.Len(t, d.fields, 1)
		require.Contains(t, d.fields, field)
		require.Equal(t, slices.Contains(safeStream, field), d.safe(safeStream))
		// What Provision would send puts right this field and leaves the rest.
		merged, err := json.Marshal(d.merged(want))
		require.NoError(t, err)
		if named {
			require.JSONEq(t, string(own), string(merged))
		}
	})
}
