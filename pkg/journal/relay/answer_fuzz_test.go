package relay

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// FuzzTaken: what was left counts as stored where the stream says a number, or that the
// place is taken, and at nothing else that it says.
func FuzzTaken(f *testing.F) {
	for _, s := range []string{
		``, `null`, `[]`, `{}`, `1`, `{"seq":1}`, `{"seq":0}`, `{"seq":-1}`, `{"seq":1.5}`, `{"seq":"1"}`, `{"seq":18446744073709551615}`, `{"seq":18446744073709551616}`, `{"seq":1e999}`,
		`{"stream":"HITL_REQUESTS","seq":7,"duplicate":true}`, `{"seq":1,"seq":0}`, `{"seq":1,"error":null}`, `{"seq":1,"error":{}}`, `{"seq":1,"error":{"err_code":10167}}`, `{"error":{"err_code":10071}}`,
		`{"error":{"err_code":10077,"description":"maximum messages per subject exceeded"}}`, `{"error":{"err_code":10077,"description":"maximum bytes exceeded"}}`,
		`{"error":{"err_code":10054,"description":"message size exceeds maximum allowed"}}`, `{"error":"no"}`, `{"error":{"err_code":"10071"}}`, "{\"error\":{\"err_code\":1,\"description\":\"\xff\"}}", `{"seq":1`,
		strings.Repeat(`{"error":`, 300), `{"error":{"err_code":10077,"description":7}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		err := taken(answer)
		if hitl.CheckJSON(answer) != nil {
			if !json.Valid(answer) {
				require.Error(t, err)
			}
			return // said twice, or no text: the server says no such thing
		}
		var said map[string]json.RawMessage
		if json.Unmarshal(answer, &said) != nil {
			require.Error(t, err, "no object says anything")
			return
		}
		for k := range said { // a reader that takes case for nothing
			if l := strings.ToLower(k); l != k && (l == "seq" || l == "error") {
				return
			}
		}
		var seq json.Number
		_ = json.Unmarshal(said["seq"], &seq)
		refused := len(said["error"]) > 0 && string(said["error"]) != "null"
		switch {
		case err == nil && !refused:
			require.Regexp(t, `^[0-9]*[1-9][0-9]*$`, seq.String())
		case err == nil:
			require.Regexp(t, `10071|10077`, string(said["error"]))
			require.True(t, strings.Contains(string(said["error"]), "10071") || strings.Contains(string(answer), "per subject") || strings.Contains(string(answer), `\u`))
		case errors.Is(err, ErrNotMeant):
			require.Contains(t, string(said["error"]), "10054", "given up is only what is too large")
		}
	})
}

// FuzzPass: whatever an owner says, wherever and by whichever reply, either nothing
// happens, or the owner is told why not, or one message with the same body goes where
// the owner may say it, in its own name.
func FuzzPass(f *testing.F) {
	for _, subj := range []string{
		"hitl.say.req.t.o.i", "hitl.say.cxl.t.o.i", "hitl.say.evt.t.o.s", "hitl.say.ses.t.o.s", "hitl.say.ack.t.o.i.applied", "hitl.say.ack.t.o.i", "hitl.say.dec.t.o.i", "hitl.say.ixe.t.o.s.i.open",
		"hitl.say.req.t.o." + strings.Repeat("a", 4000), "hitl.say.req.t.o.*", "hitl.say.req.t.o.>", "hitl.say.req.t.o.\xff", "hitl.say", "hitl.say.", "hitl.req.t.o.i", "", "hitl.say.box.t.o.i.req", "hitl.say.say.req.t.o.i", "hitl.say.req.t.o.h_x",
	} {
		for _, reply := range []string{"_R_.x", "", "hitl.dec.t.o.i", "_R_"} {
			f.Add(subj, reply, "Nats-Rollup", "all", []byte("body"))
		}
	}
	for _, name := range []string{expect, expectAmong, "Nats-Msg-Id", "Hitl-Via", "Nats-Schedule", "Status", "traceparent", hitl.HeaderWorker} {
		for _, v := range []string{"1", strings.Repeat("9", 4000), "hitl.evt.other.o.s", "\xff\r\nStatus: 404"} {
			f.Add("hitl.say.evt.t.o.s", "_R_.x", name, v, []byte(`{"v":1}`))
		}
	}
	const heard = 10 * time.Second
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, MaxPayload: 8 << 20})
	require.NoError(f, err)
	srv.Start()
	require.True(f, srv.ReadyForConnections(heard))
	f.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	connect := func() *nats.Conn {
		closed := make(chan struct{})
		nc, err := nats.Connect(srv.ClientURL(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		require.NoError(f, err)
		f.Cleanup(func() {
			nc.Close()
			<-closed
		})
		return nc
	}
	gw, witness := connect(), connect()
	r, err := Start(Options{Conn: gw, Name: "gw"})
	require.NoError(f, err)
	forget := func() { // nothing is under way of what was said before
		r.mu.Lock()
		defer r.mu.Unlock()
		r.flight, r.owners, r.turns, r.letters, r.waiting = map[string]flight{}, map[owner]*load{}, nil, 0, 0
	}
	f.Cleanup(func() {
		forget()
		r.Close()
	})
	all, err := witness.SubscribeSync(">")
	require.NoError(f, err)
	require.NoError(f, witness.Flush())
	f.Fuzz(func(t *testing.T, subj, reply, name, value string, body []byte) {
		for _, c := range []byte(reply) {
			if c <= ' ' || c == 0x7f {
				return // no server delivers such a reply
			}
		}
		forget()
		r.pass(&nats.Msg{Subject: subj, Reply: reply, Header: nats.Header{name: {value}}, Data: body})
		require.NoError(t, gw.Publish("the.end", nil))
		var out []*nats.Msg
		for {
			m, err := all.NextMsg(heard)
			require.NoError(t, err)
			if m.Subject == "the.end" {
				break
			}
			out = append(out, m)
		}
		across := strings.HasPrefix(reply, "_R_.")
		at, err := subject.Parse(subject.Meant(subj))
		may := err == nil && slices.Contains([]string{"req", "cxl", "evt", "ses", "ack"}, at.Kind) && (reply == "" || across)
		switch {
		case len(out) == 0:
			require.False(t, may && reply != "", "who can be told is told something")
		case out[0].Subject == reply:
			var e struct {
				Error struct {
					Code int    `json:"err_code"`
					Text string `json:"description"`
				} `json:"error"`
			}
			require.NoError(t, json.Unmarshal(out[0].Data, &e))
			require.True(t, across)
			require.NotZero(t, e.Error.Code)
			require.NotEmpty(t, e.Error.Text)
		default:
			require.True(t, may, "said where nobody may: %q", out[0].Subject)
			require.Equal(t, subject.Meant(subj), out[0].Subject)
			require.Equal(t, string(body), string(out[0].Data))
			require.True(t, strings.HasPrefix(out[0].Reply, r.inbox), "the answer comes here first")
			require.Equal(t, "gw", out[0].Header.Get(HeaderVia))
		}
		require.LessOrEqual(t, len(out), 1)
	})
}
