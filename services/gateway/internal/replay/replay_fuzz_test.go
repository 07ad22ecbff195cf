package replay

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
)

// FuzzRead: whatever is stored, in whatever order, a conversation read at once
// and one read in two parts are the same.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"", `{"v":1,"type":"text","data":{"text":"a"}}`, "{\"v\":1,\"type\":\"text\",\"data\":{\"text\":\"a\"}}\n{\"v\":1,\"session_id\":\"s\",\"tenant\":\"t\",\"owner\":\"o\",\"state\":\"dead\"}\n{}",
		"{}\nnull\n[]", `{"kind":"approval","request_id":"i","title":"x"}`, "\xff\n{\"type\":\"done\",\"v\":1}",
	} {
		f.Add([]byte(s), uint16(0b0110), uint8(1))
		f.Add([]byte(s), uint16(0b1001), uint8(2))
	}
	key := subject.NewSession("t", "o", "s")
	f.Fuzz(func(t *testing.T, body []byte, order uint16, cut uint8) {
		j := hitltest.NewMemoryJournal()
		ref := subject.NewRef("t", "o", "i")
		subjects := []string{subject.Transcript(key), subject.State(key), subject.Event(ref, key.ID, subject.Open), subject.Event(ref, key.ID, subject.Closed)}
		for i, line := range bytes.Split(body, []byte("\n")) {
			if i == 8 {
				break
			}
			// What the stream refuses was not said.
			_, _ = j.Publish(subjects[order>>(2*i)&3], nil, line)
		}
		ends := func() cursor.Position {
			ev, err := j.Position(t.Context(), journal.Events)
			require.NoError(t, err)
			tr, err := j.Position(t.Context(), journal.Transcripts)
			require.NoError(t, err)
			return cursor.Of(0, ev, tr)
		}
		end := ends()
		start := cursor.Position{EventsEpoch: end.EventsEpoch, TranscriptsEpoch: end.TranscriptsEpoch}
		all, err := Read(t.Context(), j, key, start, end)
		require.NoError(t, err)
		last := start
		for _, ev := range all {
			c, ok := cursor.Parse(ev.Cursor)
			require.True(t, ok)
			require.True(t, c.Covers(last), "cursors only go on")
			last = c
		}
		require.True(t, end.Covers(last))
		// Going on from any cursor gives what followed it, once.
		if len(all) == 0 {
			return
		}
		at := int(cut) % len(all)
		from, _ := cursor.Parse(all[at].Cursor)
		rest, err := Read(t.Context(), j, key, from, end)
		require.NoError(t, err)
		for at+1 < len(all) && all[at+1].Cursor == all[at].Cursor {
			at++
		}
		want := all[at+1:]
		require.Len(t, rest, len(want))
		for i := range want {
			require.Equal(t, want[i].Type, rest[i].Type)
			require.Equal(t, string(want[i].Data), string(rest[i].Data))
		}
	})
}
