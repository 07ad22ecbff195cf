package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// FuzzJSONFlags: what --json of ask and answer takes goes on byte for byte, and
// nothing of it is lost without a word.
func FuzzJSONFlags(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `{"kind":"approval","tool":{"name":"Bash","input":{"n":9007199254740993,"f":1e400}}}`, `{"questions":[{"question":"?"}]}`, `{"unknown":1}`,
		`{"title":"a","TITLE":"b"}`, `{"answers":{"0":"A"}}`, `{"content":{"n":1.0}}`, `{"action":"dismiss"}`, `{"0":"A"}`, `{"answers":{"0":"A"},"extra":1}`, `{"expires_in":"-1s"}`, `{"v":"1"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := fragment(raw)
		if err != nil {
			require.ErrorContains(t, err, "--json: ")
		} else {
			require.NoError(t, hitl.CheckJSON(raw))
			if r.Tool != nil && len(r.Tool.Input) > 0 {
				require.True(t, bytes.Contains(raw, r.Tool.Input), "byte for byte")
			}
			again, err := hitl.Marshal(r)
			require.NoError(t, err)
			same, err := fragment(again)
			require.NoError(t, err)
			last, err := hitl.Marshal(same)
			require.NoError(t, err)
			require.Equal(t, string(again), string(last))
		}
		if hitl.CheckJSON(raw) != nil {
			return // the command has refused it by now
		}
		for _, kind := range []string{hitl.KindQuestion, hitl.KindForm} {
			p, err := response(raw, kind)
			if err != nil {
				continue
			}
			for _, part := range []json.RawMessage{p.Answers, p.Content} {
				require.True(t, bytes.Contains(raw, part))
			}
			require.Empty(t, p.Decision, "an answer is no consent")
		}
	})
}

func FuzzInstance(f *testing.F) {
	for _, s := range []string{``, `{}`, `null`, `{"pid":1,"http":"http://127.0.0.1:8080","nats":"nats://127.0.0.1:4222","started_at":"2026-11-27T10:00:00Z"}`, `{"pid":"x"}`, `{"pid":-1}`} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.NoError(t, os.WriteFile(InstanceFile(dir), raw, 0o600))
		in, err := ReadInstance(dir)
		if err != nil {
			require.ErrorContains(t, err, InstanceFile(dir))
			require.Nil(t, in)
			return
		}
		if in.Write(dir) != nil {
			return // a time that cannot be written
		}
		again, err := ReadInstance(dir)
		require.NoError(t, err)
		require.Equal(t, in.HTTP, again.HTTP)
		require.Equal(t, in.PID, again.PID)
	})
}
