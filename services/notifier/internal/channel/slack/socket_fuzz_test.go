package slack

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// Whatever comes over the socket, only an envelope with one press of a button of ours, by
// whom the list names, decides; and the next press is taken, over a new socket if need be.
func FuzzSocketFrame(f *testing.F) {
	press := payload("U1", "deny", "ticket_x")
	for _, s := range []string{
		``, `null`, `[]`, `{}`, `"x"`, `7`, `{"type":"interactive"}`, `{"type":"interactive","envelope_id":"e","payload":null}`, `{"type":"interactive","envelope_id":"e","payload":"x"}`,
		`{"type":"interactive","envelope_id":"e","payload":` + press + `}`, `{"type":"interactive","payload":` + press + `}`, `{"type":"interactive","envelope_id":7,"payload":` + press + `}`,
		`{"type":"events_api","envelope_id":"e","payload":` + press + `}`, `{"type":"slash_commands","envelope_id":"e","payload":` + press + `}`, `{"type":"slash_commands"}`, `{"type":"events_api"}`,
		`{"type":"interactive","envelope_id":"e","payload":` + payload("U3", "deny", "ticket_x") + `}`, `{"type":"interactive","envelope_id":"e","payload":` + payloadIn("T2", "T2", "U1", "deny", "ticket_x") + `}`,
		`{"type":"hello"}`, `{"type":"hello","connection_info":null,"num_connections":-1}`, `{"type":"disconnect","reason":"warning"}`, `{"type":"bogus","envelope_id":"e"}`, `{"Type":"interactive"}`,
		`{"type":"interactive","envelope_id":"e","retry_attempt":1e999,"payload":{}}`, "{\"type\":\"interactive\",\"envelope_id\":\"\xff\"}", `{"type":"interactive"`, `{"type":"hello"}{"type":"disconnect"}`,
	} {
		f.Add([]byte(s))
	}
	h, g := newHub(f), &gateway{used: map[string]string{}}
	h.replica(f, g, quiet())
	l := got(f, h.links)
	n := 0
	f.Fuzz(func(t *testing.T, frame []byte) {
		_ = l.conn.WriteMessage(websocket.TextMessage, frame)
		n++
		id := fmt.Sprint("after ", n)
		after, err := json.Marshal(map[string]any{"type": "interactive", "envelope_id": id, "payload": json.RawMessage(payload("U3", "deny", "ticket_x"))})
		require.NoError(t, err)
		_ = l.conn.WriteMessage(websocket.TextMessage, after) // it comes again over a new socket if this one ends
		for late := time.After(time.Minute); ; {
			select {
			case l = <-h.links:
				_ = l.conn.WriteMessage(websocket.TextMessage, after)
				continue
			case ack := <-l.acks:
				if ack != id {
					continue // the frame's own
				}
			case <-late:
				t.Fatal("no press is taken any more")
			}
			break
		}
		for m := range h.told { // who pressed after it is told last, or is the only one
			if m.User == "U3" {
				break
			}
		}
		g.mu.Lock()
		said := g.used["ticket_x"]
		delete(g.used, "ticket_x")
		g.mu.Unlock()
		if said == "" {
			return
		}
		var e struct {
			Type    string
			Payload json.RawMessage
		}
		require.NoError(t, json.Unmarshal(frame, &e))
		require.Equal(t, "interactive", e.Type)
		p, err := readPress(e.Payload)
		require.NoError(t, err)
		require.NotNil(t, p)
		require.Equal(t, "ticket_x", p.Token)
		require.Contains(t, []string{"U1", "U2"}, p.Account)
		require.NotContains(t, []string{p.team, p.home}, "T2")
	})
}
