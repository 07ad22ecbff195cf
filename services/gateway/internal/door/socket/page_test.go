package socket

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

func TestReplayPagesKeepWhatHasOneCursorTogether(t *testing.T) {
	t.Parallel()
	var events []wire.Event
	for i := range 60 {
		for range 3 {
			events = append(events, wire.Event{
				Type: "x", Cursor: fmt.Sprint(i), Data: json.RawMessage(`"` + strings.Repeat("x", 9000) + `"`),
			})
		}
	}
	pages := replayPages("t.o.s", events, "end", true)
	require.Greater(t, len(pages), 10)
	var all []wire.Event
	for i, p := range pages {
		require.Equal(t, "s", p.SessionID)
		require.Equal(t, "t.o.s", p.SessionKey)
		require.Equal(t, i == 0, p.Reset)
		last := i == len(pages)-1
		require.Equal(t, !last, p.More)
		require.NotEmpty(t, p.Events)
		if last {
			require.Equal(t, "end", p.Cursor)
		} else {
			require.Equal(t, p.Events[len(p.Events)-1].Cursor, p.Cursor)
			require.NotEqual(t, p.Cursor, pages[i+1].Events[0].Cursor, "page %d is cut inside a cursor", i)
		}
		raw, err := json.Marshal(p)
		require.NoError(t, err)
		require.Less(t, len(raw), pageBytes+3*9200)
		all = append(all, p.Events...)
	}
	require.Equal(t, events, all)

	// Nothing to replay is one empty page: the client learns that it has all.
	pages = replayPages("t.o.s", nil, "end", false)
	require.Len(t, pages, 1)
	require.NotNil(t, pages[0].Events)
	require.False(t, pages[0].Reset || pages[0].More)
}

func TestSnapshotPages(t *testing.T) {
	t.Parallel()
	var w api.Watch
	w.Cursor = "c"
	for i := range 1000 {
		p := wire.ProcessState{SessionKey: fmt.Sprint(i)}
		for j := range i % 3 {
			s := wire.Summary{RequestID: fmt.Sprint(i, j), Body: &wire.Body{Message: strings.Repeat("x", 10_000)}}
			p.PendingRequests = append(p.PendingRequests, s)
		}
		w.Snapshot = append(w.Snapshot, p)
	}
	shared := w.Snapshot[2].PendingRequests
	var pages snapshotPages
	frames, err := pages.of(w)
	require.NoError(t, err)
	n := 0
	for i, f := range frames {
		require.Less(t, len(f), 512<<10)
		var p wire.ActiveProcesses
		require.NoError(t, json.Unmarshal(f, &p))
		require.LessOrEqual(t, len(p.Sessions), maxPageCount)
		require.Equal(t, i < len(frames)-1, p.More)
		for _, s := range p.Sessions {
			require.Equal(t, fmt.Sprint(n), s.SessionKey)
			require.Len(t, s.PendingRequests, n%3)
			n++
		}
	}
	require.Equal(t, 1000, n)
	require.NotContains(t, string(frames[0]), `"body"`)
	require.NotNil(t, shared[0].Body, "what the engine shares is left alone")

	// Who comes at the same moment gets the same bytes; a newer state does not.
	pages.made = time.Now() // however long the above took
	same, err := pages.of(w)
	require.NoError(t, err)
	require.Same(t, &frames[0][0], &same[0][0])
	w.Cursor, w.Snapshot = "d", nil
	newer, err := pages.of(w)
	require.NoError(t, err)
	require.Len(t, newer, 1)
	require.Contains(t, string(newer[0]), `"sessions":[],"more":false`)
}
