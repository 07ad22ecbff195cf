package bus

import (
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

func FuzzCredentials(f *testing.F) {
	kp, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, []byte("0123456789abcdef0123456789abcdef"))
	require.NoError(f, err)
	seed, err := kp.Seed()
	require.NoError(f, err)
	const key = `"decision_keys":{"c8cf13c7a5ae2bd3":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`
	owner := `{"v":1,"role":"owner","tenant":"default","name":"agents","urls":["nats://127.0.0.1:4222"],"seed":"` + string(seed) + `",` + key + `}`
	for _, s := range []string{
		owner, strings.Replace(owner, "owner", "provisioner", 1), strings.Replace(owner, "owner", "gateway", 1), `{}`, `null`, `[]`, ``, `{"v":2}`,
		strings.Replace(owner, `"v":1`, `"v":1,"V":1`, 1), strings.Replace(owner, `"seed"`, `"seed":"x","seed"`, 1), strings.Replace(owner, `"default"`, `"a.b"`, 1),
		strings.Replace(owner, string(seed), "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY", 1), strings.Replace(owner, `"`+string(seed)+`"`, `["`+string(seed)+`"]`, 1), strings.Replace(owner, "nats://", "http://", 1),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parseCredentials(raw)
		if err != nil {
			var ce *CredentialsError
			require.ErrorAs(t, err, &ce)
			require.Nil(t, c)
			// The seed is not told, whatever else is wrong.
			var in struct{ Seed string }
			if _ = json.Unmarshal(raw, &in); len(in.Seed) > 8 && strings.Count(string(raw), in.Seed) == 1 {
				require.NotContains(t, err.Error(), in.Seed)
			}
			return
		}
		require.NoError(t, hitl.CheckJSON(raw))
		_, err = c.Auth()
		require.NoError(t, err)
		require.True(t, len(c.PublicDecisionKeys()) > 0 || c.Role == RoleProvisioner)
		_, _, err = c.Signer()
		require.Equal(t, c.Role == RoleGateway, err == nil, "%v", err)
		for _, shown := range []string{c.String(), c.GoString(), c.LogValue().String()} {
			require.NotContains(t, shown, c.Seed)
		}
		path := filepath.Join(t.TempDir(), "c.json")
		require.NoError(t, c.Save(path))
		again, err := LoadCredentials(path)
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}

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
