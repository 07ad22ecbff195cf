package gateway_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway"
)

// screen knows what the frames of one reader told.
type screen struct {
	open      map[string]wire.Summary
	over      map[string]wire.Closed
	events    []string // of the session that is followed
	cursor    string   // the newest
	recovered bool
	pages     int // of a snapshot
}

func newScreen() screen {
	return screen{open: map[string]wire.Summary{}, over: map[string]wire.Closed{}}
}

// take reads a frame; one that is a receipt is returned.
func (o *screen) take(t *testing.T, raw json.RawMessage) *wire.Receipt {
	t.Helper()
	var f struct {
		Cursor   string              `json:"cursor"`
		Sessions []wire.ProcessState `json:"sessions"`
		Events   []wire.Event        `json:"events"`
		More     bool                `json:"more"`
		wire.ProcessState
	}
	var head struct {
		Type      string
		Recovered bool
	}
	require.NoError(t, json.Unmarshal(raw, &head))
	switch head.Type {
	case wire.TypeReceipt:
		rec := new(wire.Receipt)
		require.NoError(t, json.Unmarshal(raw, rec))
		return rec
	case wire.TypeHello:
		o.recovered = head.Recovered
	case wire.TypeActiveProcesses, wire.TypeProcessState, wire.TypeEvent:
		require.NoError(t, json.Unmarshal(raw, &f))
		if head.Type == wire.TypeActiveProcesses {
			o.pages++
		}
		if f.Cursor != "" && !f.More && head.Type != wire.TypeEvent {
			o.cursor = f.Cursor
		}
		for _, ev := range f.Events {
			o.events = append(o.events, tell(ev.Type, string(ev.Data)))
		}
		for _, st := range append(f.Sessions, f.ProcessState) {
			for id, s := range o.open { // a state is whole: what it lacks is gone
				if s.SessionKey == st.SessionKey {
					delete(o.open, id)
				}
			}
			for _, s := range st.PendingRequests {
				o.open[s.RequestID] = s
			}
			for _, c := range st.Closed {
				o.over[c.RequestID] = c
			}
		}
	}
	return nil
}

// overStream sees by GET /api/events alone and answers by POST.
type overStream struct {
	overHTTP
	screen
	res *http.Response
	in  *bufio.Scanner
	end context.CancelFunc
}

func newOverStream(t *testing.T, g *running, from string) *overStream {
	t.Helper()
	o := &overStream{overHTTP: overHTTP{t, g}, screen: newScreen()}
	o.connect(g.token, from)
	require.Equal(t, 200, o.res.StatusCode)
	return o
}

func (o *overStream) connect(token, from string) {
	o.t.Helper()
	ctx, cancel := context.WithCancel(o.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.g.Addr()+"/api/events", nil)
	require.NoError(o.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	if from != "" {
		req.Header.Set("Last-Event-ID", from)
	}
	o.end = cancel
	o.res, err = o.g.client().Do(req)
	require.NoError(o.t, err)
	o.in = bufio.NewScanner(o.res.Body)
	o.in.Buffer(nil, 8<<20)
	o.t.Cleanup(o.leave)
}

func (o *overStream) leave() {
	o.end()
	_ = o.res.Body.Close()
}

// until reads events until done says so.
func (o *overStream) until(done func() bool) {
	o.t.Helper()
	late := time.AfterFunc(patience, o.end)
	defer late.Stop()
	id, typ := "", ""
	for !done() {
		require.True(o.t, o.in.Scan(), "the stream ended: %v", o.in.Err())
		switch key, value, _ := strings.Cut(o.in.Text(), ": "); key {
		case "id":
			id = value
		case "event":
			typ = value
		case "data":
			var head struct{ Type string }
			require.NoError(o.t, json.Unmarshal([]byte(value), &head))
			require.Equal(o.t, typ, head.Type)
			at := o.cursor
			require.Nil(o.t, o.take(o.t, json.RawMessage(value)), "an answer comes with its request")
			o.cursor = cmp.Or(id, at) // what a reader of events goes by
			id = ""
		}
	}
}

func (o *overStream) seen(id string) wire.Summary {
	o.t.Helper()
	o.until(func() bool { return o.open[id].RequestID == id })
	return o.open[id]
}

func (o *overStream) closed(id string) wire.Closed {
	o.t.Helper()
	o.until(func() bool { return o.over[id].RequestID == id })
	require.NotContains(o.t, o.open, id)
	return o.over[id]
}

func (o *overStream) stranger(in hitl.Response) bool {
	o.t.Helper()
	other := &overStream{overHTTP: o.overHTTP}
	other.connect("made-up", "")
	defer other.leave()
	return other.res.StatusCode == http.StatusUnauthorized && o.overHTTP.stranger(in)
}

func (o *overStream) told() *screen { return &o.screen }
func (o *overSocket) told() *screen { return &o.screen }
func (o *overSocket) leave()        { _ = o.conn.CloseNow() }

// watcher is a way in that is told by itself, and comes back where it left.
type watcher interface {
	transport
	told() *screen
	leave()
}

// One suite for what is told by itself of everything: it goes on after a cut and on
// another gateway with what was missed, and where it cannot, with the whole.
func TestWatchersAgree_D0_30_D1_28_D1_29_C07_invariant8(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, g *running, from string) watcher{
		"WebSocket":    func(t *testing.T, g *running, from string) watcher { return newOverSocketFrom(t, g, from) },
		"HTTP and SSE": func(t *testing.T, g *running, from string) watcher { return newOverStream(t, g, from) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			one := s.gateway()
			two := s.gateway(func(o *gateway.Options) { o.TestLogin += "-2" })
			agents := s.client("agents")
			id := func(key string) string { return hitl.ID(bus.DefaultTenant, "agents", key, 1) }
			deny := func(in *hitl.Response) { in.Decision = "deny" }

			w := open(t, one, "")
			ended, stays := ask(t, agents, "ended"), ask(t, agents, "stays")
			sum := w.seen(id("ended"))
			w.seen(id("stays"))
			require.False(t, w.told().recovered)
			require.Equal(t, 1, w.told().pages)
			from := w.told().cursor
			require.NotEmpty(t, from)
			w.leave()

			// What ends and what begins while nobody looks.
			plain := &overHTTP{t, one}
			require.Equal(t, hitl.Accepted, plain.decide(answerTo(sum, deny)).Status)
			require.Equal(t, hitl.Denied, take(t, ended).Decision.Outcome)
			began := ask(t, agents, "began")
			plain.seen(id("began"))
			for _, g := range []*running{two, one} {
				w = open(t, g, from)
				require.Equal(t, hitl.Denied, w.closed(id("ended")).Outcome)
				w.seen(id("began"))
				require.True(t, w.told().recovered)
				require.Zero(t, w.told().pages, "what was missed, and not the whole again")
				w.leave()
			}

			raw, err := base64.RawURLEncoding.DecodeString(from)
			require.NoError(t, err)
			var at [4]int64
			_, err = fmt.Sscanf(string(raw), "%d.%d.%d.%d", &at[0], &at[1], &at[2], &at[3])
			require.NoError(t, err)
			changed := func(i int, by int64) string {
				at := at
				at[i] += by
				return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d.%d.%d", at[0], at[1], at[2], at[3]))
			}
			for name, bad := range map[string]string{
				"other events": changed(0, 1), "other transcripts": changed(2, 1), "the future": changed(1, 1000), "garbage": "garbage",
			} {
				w = open(t, two, bad)
				w.seen(id("stays"))
				w.seen(id("began"))
				require.False(t, w.told().recovered, name)
				require.Equal(t, 1, w.told().pages, name)
				require.NotContains(t, w.told().open, id("ended"), name)
				w.leave()
			}

			w = open(t, two, "")
			for key, got := range map[string]<-chan *bus.Answer{"stays": stays, "began": began} {
				rec := w.decide(answerTo(w.seen(id(key)), deny))
				require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
				require.Equal(t, rec.Decision.DecisionID, take(t, got).Decision.DecisionID)
				require.Equal(t, hitl.Denied, w.closed(id(key)).Outcome)
			}
		})
	}
}
