package bus

import (
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

func FuzzReply(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `{"error":"text","status":"accepted"}`, `{"error":{"code":"not_found","error":"no such interaction"}}`, `{"error":{}}`, `{"error":[]}`,
		`{"status":"already_decided","decision":{"v":1,"outcome":"denied"}}`, `{"interactions":[{"id":"i"}]}`, `{"error":{"code":1}}`, `{"error":{"code":"x"},"Error":"y"}`,
	} {
		f.Add([]byte(s), "")
		f.Add([]byte(s), "500")
	}
	f.Fuzz(func(t *testing.T, body []byte, code string) {
		m := &nats.Msg{Data: body, Header: nats.Header{}}
		if code != "" {
			m.Header.Set(headerServiceErrorCode, code)
		}
		var rec wire.Receipt
		err := decodeReply("decide", m, &rec)
		var refused *ServiceError
		switch {
		case errors.As(err, &refused):
			require.Equal(t, "decide", refused.Verb)
		case err == nil:
			require.Empty(t, code, "what the framework reports as an error is none")
			require.True(t, json.Valid(body))
			var e struct{ Error struct{ Code string } }
			require.False(t, json.Unmarshal(body, &e) == nil && e.Error.Code != "", "a refusal is never taken for a receipt")
		}
	})
}

func FuzzCommand(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"v":1,"command_id":"c","type":"message","text":"t"}`, `{"v":1,"command_id":"c","Command_id":"d","type":"stop"}`, `{"command_id":1}`,
		"{\"command_id\":\"c\",\"text\":\"\xff\"}", `{"command_id":"c","attachments":[{"kind":"image","media_type":"m","data_b64":"AA"}]}`, `null`,
	} {
		f.Add([]byte(s))
	}
	c := &Client{log: slog.New(slog.DiscardHandler)}
	f.Fuzz(func(t *testing.T, body []byte) {
		c.command(&nats.Msg{Data: body}, func(cmd hitl.Command) hitl.CommandReply {
			require.NoError(t, hitl.CheckJSON(body))
			require.NotEmpty(t, cmd.CommandID)
			again, err := hitl.Marshal(cmd)
			require.NoError(t, err)
			var same hitl.Command
			require.NoError(t, hitl.Decode(again, "command", &same))
			require.Equal(t, cmd, same)
			return hitl.CommandReply{Status: "ok"}
		})
	})
}

func FuzzStart(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{}`, `{"v":1}`, `{"v":1,"session_id":"s","tenant":"default","pool":"agents","runtime":"demo","prompt":"hello","started_by":{"kind":"person","id":"ada"}}`,
		`{"session_id":"s","Session_id":"t"}`, "{\"session_id\":\"\xff\"}", `{"session_id":1}`, `{"session_id":"s","attachments":[{"kind":"image","media_type":"m","name":"n","data_b64":"AA"}]}`,
		`{"session_id":"s"}{"session_id":"t"}`, `{"session_id":"a.b.*.>","cwd":"/tmp","mode":"plan","model":"m"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		st, err := decodeStart(body)
		if err != nil {
			return
		}
		require.NoError(t, hitl.CheckJSON(body), "what two readers could take for two things is no start")
		require.NotEmpty(t, st.SessionID)
		require.True(t, subject.ValidToken(subject.NewSession("t", "o", st.SessionID).ID))
		again, err := hitl.Marshal(st)
		require.NoError(t, err)
		same, err := decodeStart(again)
		require.NoError(t, err)
		require.Equal(t, st, same)
	})
}
