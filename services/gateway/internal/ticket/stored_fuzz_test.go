package ticket

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// FuzzStored: a stored ticket is for one interaction, for somebody, and ends; whatever
// else lies there is none, with the field for the log and none of its words.
func FuzzStored(f *testing.F) {
	now := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	t0 := Ticket{V: 1, Key: "default.agents.i", Digest: "d", People: []string{"ada"}, Recipient: "ops", Channel: "mail", Via: wire.TicketLink, CreatedAt: now, ExpiresAt: now.Add(Longest)}
	used, chat := t0, t0
	used.Used, used.UsedBy = hitl.VerbDeny, "ada"
	chat.Via, chat.People, chat.DenyOnly, chat.Shown = wire.TicketChat, []string{"ada", "bo"}, true, "s"
	for _, v := range []Ticket{t0, used, chat, {V: 1, Via: wire.TicketLink}, {V: 1, Key: t0.Key, Digest: "d", Via: wire.TicketLink, CreatedAt: now, ExpiresAt: now}} {
		raw, err := json.Marshal(v)
		require.NoError(f, err)
		f.Add(raw)
		f.Add(raw[:len(raw)-1])
		for _, c := range [][2]string{
			{`"v":1`, `"v":2`},
			{`"v":1`, `"v":1,"v":1`},
			{`"people"`, `"People":["eve"],"people"`},
			{`["ada"]`, `[]`},
			{`["ada"]`, `null`},
			{`["ada"]`, `[""]`},
			{`["ada"]`, `["ada","eve"]`},
			{`["ada"]`, `"ada"`},
			{`"link"`, `"mail"`},
			{`default.agents.i`, `default.*.i`},
			{`default.agents.i`, "\xff"},
			{"2026-12", "9999-12"},
			{`"used_by":"ada"`, `"used_by":"eve"`},
			{`"used":"deny",`, ``},
			{`"digest":"d"`, `"digest":` + strings.Repeat("[", 300) + strings.Repeat("]", 300)},
			{`"v":1`, `"v":1e400`},
		} {
			f.Add([]byte(strings.Replace(string(raw), c[0], c[1], 1)))
		}
	}
	for _, s := range []string{``, `null`, `[]`, `{}`, `{"v":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := decode(raw)
		if err != nil {
			var inv *hitl.InvalidError
			require.True(t, errors.As(err, &inv))
			require.NotEmpty(t, inv.Fields)
			require.Nil(t, got)
			return
		}
		require.NoError(t, hitl.CheckJSON(raw))
		ref, ok := subject.ParseRef(got.Key)
		require.True(t, ok)
		require.Equal(t, got.Key, ref.String())
		require.NotContains(t, got.People, "", "nobody is no person")
		require.NotEmpty(t, got.People)
		if got.Via != wire.TicketChat {
			require.Len(t, got.People, 1)
		}
		require.LessOrEqual(t, got.ExpiresAt.Sub(got.CreatedAt), Longest)
		if got.UsedBy != "" {
			require.Contains(t, got.People, got.UsedBy)
		}
		again, err := json.Marshal(got)
		if err != nil {
			return // a year beyond 9999
		}
		same, err := decode(again)
		require.NoError(t, err)
		require.True(t, got.same(same))
		require.True(t, got.ExpiresAt.Equal(same.ExpiresAt))
	})
}

// FuzzToken: a token has one form, that of 32 bytes.
func FuzzToken(f *testing.F) {
	good := wire.TicketPrefix + strings.Repeat("A", 43)
	for _, s := range []string{"", wire.TicketPrefix, good, good[:len(good)-1], good + "A", good + "=", good[:20] + "\n" + good[20:], good + "\r\n", good[:len(good)-1] + "B", strings.ToUpper(wire.TicketPrefix) + strings.Repeat("A", 43), good + "/../x", "\xff", good[:len(good)-1] + "+"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if !wellFormed(token) {
			return
		}
		require.True(t, strings.HasPrefix(token, wire.TicketPrefix))
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, wire.TicketPrefix))
		require.NoError(t, err)
		require.Len(t, raw, 32)
		require.Equal(t, token, wire.TicketPrefix+base64.RawURLEncoding.EncodeToString(raw))
	})
}
