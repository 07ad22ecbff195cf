package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

func FuzzEntry(f *testing.F) {
	const planned = `{"v":1,"w":"x","state":"planned","due_at":"2026-11-27T10:00:00Z","tries":0,"alert":{"id":"msg_1","type":"banksman.interaction.opened","key":"t.o.i","time":"2026-11-27T10:00:00Z","data":{"title":"t"}}}`
	for _, s := range []string{planned, ``, `{}`, `null`, `{"v":2}`, `{"v":1,"state":"planned"}`, `{"v":1,"state":"sent"}`, `{"v":1,"state":"claimed","until":"2026-01-01T00:00:00+24:00","alert":{}}`} {
		for _, key := range []string{"ix.t.o.i.open.log", "ix.t.o.i.open", "over.t.o.i", "ix......", ""} {
			f.Add(key, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		r, err := decode(key, value, 7)
		if err != nil {
			require.Nil(t, r)
			require.ErrorContains(t, err, "ledger: ")
			return
		}
		require.Equal(t, key, r.Key.String())
		require.Equal(t, uint64(7), r.Revision)
		require.True(t, r.State.Final() || r.Alert != nil, "what is to be sent is there")
		raw, err := hitl.Marshal(r.Entry)
		if err != nil {
			require.ErrorContains(t, err, "Time.MarshalJSON")
			return
		}
		again, err := decode(key, raw, 7)
		require.NoError(t, err)
		last, err := hitl.Marshal(again.Entry)
		require.NoError(t, err)
		require.Equal(t, string(raw), string(last))
		require.Equal(t, r.Write, writeOf(raw), "a write is known again by its own mark")
	})
}
