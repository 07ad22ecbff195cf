package auth

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// FuzzRecords: what stands in the bucket signs in whom it names, until the time
// it names, or nobody.
func FuzzRecords(f *testing.F) {
	now := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	yes := true
	person := hitl.Principal{Kind: "person", ID: "ada", Name: "Ada"}
	for _, v := range []any{
		Session{V: 1, Person: person, Channel: "web", Assurance: "session", Via: ViaLink, CreatedAt: now, ExpiresAt: now.Add(time.Hour)},
		Session{V: 2, Person: person, ExpiresAt: now.Add(time.Hour)},
		Session{V: 1, ExpiresAt: now.Add(time.Hour)},
		Session{V: 1, Person: person, ExpiresAt: now},
		link{V: 1, Person: person, ExpiresAt: now.Add(time.Hour)},
		cliRecord{V: 1, CLIRequest: CLIRequest{Code: "ABCDEFGH", Name: "terminal", RequestedAt: now, ExpiresAt: now.Add(time.Minute)}, PollHash: "x", Allowed: &yes, By: &person},
	} {
		raw, err := json.Marshal(v)
		require.NoError(f, err)
		f.Add(raw)
	}
	for _, s := range []string{``, `{}`, `null`, `[]`, `{"v":1}`, `{"v":1,"v":2}`, `{"v":1,"V":1}`, `{"v":1,"person":{"id":"ada"},"expires_at":"9999-12-31T23:59:59Z"}`, `{"v":1,"expires_at":"soon"}`, `{"v":"1"}`, `{"v":1,"allowed":"yes"}`, `{"v":1,"by":[]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var sess Session
		if err := decode(raw, &sess); err == nil {
			require.NoError(t, hitl.CheckJSON(raw))
			require.Equal(t, 1, sess.V)
			require.Empty(t, sess.Hash, "no record says which token it belongs to")
			if sess.good(now) {
				require.NotEmpty(t, sess.Person.ID)
				require.True(t, sess.ExpiresAt.After(now))
			}
			again, err := json.Marshal(sess)
			if err != nil {
				return // a year beyond 9999
			}
			var same Session
			require.NoError(t, decode(again, &same))
			require.Equal(t, sess.good(now), same.good(now))
		}
		var l link
		if decode(raw, &l) == nil {
			require.Equal(t, 1, l.V)
		}
		var rec cliRecord
		if decode(raw, &rec) == nil {
			require.Equal(t, 1, rec.V)
		}
	})
}
