package ledger

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
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

// FuzzOver: how an interaction ended is read back as it was written, and a write
// is known by its own mark only.
func FuzzOver(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `{"w":"x","outcome":"denied","at":"2026-11-27T10:00:00Z"}`, `{"w":"x","W":"mine"}`, `{"w":1}`, "{\"w\":\"\xff\"}",
		`{"w":"mine"`, `{"w":"x","outcome":"allowed","at":"2026-01-01T00:00:00+24:00"}`, `{"outcome":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		key := overKey(subject.NewRef("t", "o", "i"))
		o, err := decodeOver(key, value)
		if err != nil {
			require.Nil(t, o)
			require.ErrorContains(t, err, "ledger: decode "+key)
			return
		}
		require.Equal(t, o.Write, writeOf(value))
		raw, err := hitl.Marshal(o)
		if err != nil {
			require.ErrorContains(t, err, "Time.MarshalJSON")
			return
		}
		again, err := decodeOver(key, raw)
		require.NoError(t, err)
		require.Equal(t, o.Outcome, again.Outcome)
		require.Equal(t, o.Write, again.Write)
		require.True(t, o.At.Equal(again.At))
	})
}

type kept struct {
	jetstream.KeyValueEntry
	key   string
	value []byte
}

func (k kept) Key() string      { return k.key }
func (k kept) Value() []byte    { return k.value }
func (k kept) Revision() uint64 { return 7 }

// FuzzWatch: whatever is stored comes out once, as what its key says, or as
// broken. An entry never silences another channel than its own.
func FuzzWatch(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `{"w":"x","channel":"log","target":"d","at":"2026-11-27T10:00:00Z"}`, `{"channel":"other","target":"d"}`, `{"channel":"log.d","target":""}`,
		`{"v":1,"state":"sent"}`, `{"v":1,"state":"planned"}`, `{"channel":1}`,
	} {
		for _, key := range []string{"gone.log.d", "gone.", "gone", "gonex.log.d", "ix.t.o.i.open.log", ""} {
			f.Add(key, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		seen := 0
		w := Watcher{
			Delivery: func(r *Record) {
				seen++
				require.Equal(t, key, r.Key.String())
				require.Equal(t, 1, r.V)
			},
			Gone: func(g Gone) {
				seen++
				require.Equal(t, key, goneKey(g.Channel, g.Target))
			},
			Broken: func(k string, err error) {
				seen++
				require.Equal(t, key, k)
				require.ErrorContains(t, err, "ledger: ")
			},
		}
		w.see(kept{key: key, value: value})
		require.Equal(t, 1, seen)
		if !strings.HasPrefix(key, gones+".") && !strings.HasPrefix(key, deliveries+".") {
			_, err := decode(key, value, 7)
			require.Error(t, err)
		}
	})
}
