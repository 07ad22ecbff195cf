package slack

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever comes as a payload, only one press of a button that decides is a press, and
// all of it is in the payload.
func FuzzReadPress(f *testing.F) {
	for _, s := range []string{
		``, `null`, `[]`, `{}`, `{"type":"block_actions"}`, `{"type":"view_submission","actions":[{"block_id":"decide","action_id":"allow","value":"ticket_x"}]}`,
		`{"type":"block_actions","team":{"id":"T1"},"user":{"id":"U1","team_id":"T2"},"channel":{"id":"C1"},"actions":[{"block_id":"decide","action_id":"allow","value":"ticket_x"}]}`,
		`{"type":"block_actions","actions":[{"block_id":"decide","action_id":"allow"},{"block_id":"decide","action_id":"deny"}]}`, `{"type":"block_actions","actions":[{"block_id":"open"}]}`,
		`{"type":"block_actions","user":[],"actions":[{"block_id":"decide"}]}`, `{"type":"block_actions","actions":[{"block_id":"decide","value":1}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, err := readPress(payload)
		if err != nil {
			require.Nil(t, p)
			return
		}
		require.True(t, json.Valid(payload))
		if p == nil {
			return
		}
		var all struct {
			Type    string
			Actions []struct {
				Block  string `json:"block_id"`
				Action string `json:"action_id"`
				Value  string
			}
		}
		require.NoError(t, json.Unmarshal(payload, &all))
		require.Equal(t, "block_actions", all.Type)
		require.Len(t, all.Actions, 1, "two presses at once are none")
		require.Equal(t, "decide", all.Actions[0].Block)
		require.Equal(t, all.Actions[0].Action, p.Decision)
		require.Equal(t, all.Actions[0].Value, p.Token)
	})
}
