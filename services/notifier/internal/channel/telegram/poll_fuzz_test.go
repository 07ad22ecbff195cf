package telegram

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/notifier/internal/channel/web"
)

// FuzzUpdates: a press has the presser and the data that stand in the answer, as a reader
// sees them who takes the answer member by member; what is no answer is none at all.
func FuzzUpdates(f *testing.F) {
	const good = `{"ok":true,"result":[{"update_id":7,"callback_query":{"id":"q","from":{"id":42},"data":"allow:ticket_x","message":{"date":1764400000}}}]}`
	f.Add([]byte(good))
	f.Add([]byte(good[:len(good)-2]))
	for _, c := range [][2]string{
		{`true`, `false`},
		{`true`, `1`},
		{`42`, `"42"`},
		{`42`, `4.2e1`},
		{`42`, `-42`},
		{`42`, `9223372036854775808`},
		{`42`, `1e999`},
		{`:7`, `:9223372036854775807`},
		{`"from":{"id":42}`, `"from":{"id":42,"id":43}`},
		{`"from"`, `"From":{"id":43},"from"`},
		{`"data"`, `"data":"deny:ticket_y","data"`},
		{"ticket_x", "\xff"},
		{`"allow:ticket_x"`, `["allow:ticket_x"]`},
		{`"allow:ticket_x"`, strings.Repeat("[", 9000) + strings.Repeat("]", 9000)},
		{`{"id":42}`, `null`},
		{`{"date":1764400000}`, `[]`},
		{`1764400000`, `"now"`},
		{`[{`, `[null,{`},
		{`"callback_query"`, `"message"`},
	} {
		f.Add([]byte(strings.Replace(good, c[0], c[1], 1)))
	}
	for _, s := range []string{``, `null`, `[]`, `{}`, `{"ok":true}`, `{"ok":true,"result":{}}`, `{"ok":false,"description":"secret"}`, `<html>`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := updates(&web.Response{Status: 200, Body: body})
		if err != nil {
			require.Empty(t, list)
			require.Equal(t, "no answer of Telegram", err.Error(), "none of a stranger's words")
			return
		}
		require.True(t, json.Valid(body))
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		var said any
		require.NoError(t, dec.Decode(&said))
		all := texts(said, map[string]bool{})
		for _, u := range list {
			if u.Press == nil {
				continue
			}
			require.True(t, u.Press.Data == "" || all[u.Press.Data], "%q is nowhere in the answer", u.Press.Data)
			require.True(t, u.Press.ID == "" || all[u.Press.ID])
			raw, err := json.Marshal(u.Press.From.ID)
			require.NoError(t, err)
			require.True(t, u.Press.From.ID == 0 || all[string(raw)], "nobody of the number %s", raw)
		}
	})
}

// texts are all texts and numbers of a document.
func texts(v any, all map[string]bool) map[string]bool {
	switch v := v.(type) {
	case string:
		all[v] = true
	case json.Number:
		all[v.String()] = true
	case []any:
		for _, m := range v {
			texts(m, all)
		}
	case map[string]any:
		for _, m := range v {
			texts(m, all)
		}
	}
	return all
}
