package claude

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/claude/protocol"
)

// FuzzInitialize: whatever the CLI replies, every ask that comes of it can be
// answered, and nothing that waits is taken for nothing.
func FuzzInitialize(f *testing.F) {
	const ask = `{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}`
	for _, s := range []string{
		``, `{}`, `null`, `{"subtype":"success"}`, `{"subtype":"error","error":"no"}`, `{"subtype":"success","response":{"claude_code_version":"2","pid":7,"session_state":"idle"}}`,
		`{"subtype":"success","response":{"pid":"x","session_state":1}}`, `{"subtype":"success","response":[]}`,
		`{"subtype":"success","response":{},"pending_permission_requests":[` + ask + `]}`, `{"subtype":"success","response":{},"pending_permission_requests":[` + ask + `,` + ask + `]}`,
		`{"subtype":"success","response":{},"pending_permission_requests":[7,null,{"request_id":7},"x"],"pending_elicitation_requests":[{"request_id":"e"},[]]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !json.Valid(body) {
			return // no line of it would be a reply
		}
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Close()); require.NoError(t, w.Close()) }()
		p := &Proc{
			log: slog.New(slog.DiscardHandler), stdin: w, queue: newQueue(),
			asks: map[string]*askState{}, waiting: map[string]chan *protocol.ControlReply{},
		}
		lines := bufio.NewReader(r)
		// call has the CLI read one request and reply with the body.
		call := func(do func()) (reply *protocol.ControlReply) {
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if _, err := lines.ReadBytes('\n'); err != nil {
					return
				}
				reply = &protocol.ControlReply{}
				if out, err := protocol.NewDecoder().Decode(fmt.Appendf(nil, `{"type":"control_response","response":%s}`, body)); err == nil && out.Reply != nil {
					reply = out.Reply
				}
				reply.RequestID = fmt.Sprintf("driver-%d", p.lastID)
				p.accept(protocol.Decoded{Reply: reply}, 0)
			}()
			do()
			<-answered
			return reply
		}

		call(func() { err = p.initialize(context.Background()) })
		require.Equal(t, err == nil, p.info.Raw != nil)
		if err == nil {
			require.True(t, json.Valid(p.info.Raw))
		}
		var waiting []string
		reply := call(func() { waiting, _, err = p.reinitialize(context.Background()) })
		readable := err == nil
		if readable {
			require.Equal(t, "success", reply.Subtype)
			require.Len(t, waiting, len(reply.Pending)+len(reply.Forms), "what waits waits, readable or not")
		}
		var asks []protocol.Ask
		call(func() { asks, err = p.Reinitialize(context.Background()) })
		if err != nil {
			require.Empty(t, asks)
		}
		told := map[string]bool{}
		for _, a := range asks {
			require.NotEmpty(t, a.ToolName)
			if readable {
				require.Contains(t, waiting, a.RequestID)
			}
			told[a.RequestID] = true
		}
		require.Len(t, p.asks, len(told), "nothing else can be answered")
		require.Empty(t, p.waiting)
		for id := range told {
			require.NoError(t, hitl.CheckJSON(p.asks[id].input))
			require.NoError(t, p.Deny(id, "no", false))
			require.ErrorIs(t, p.Deny(id, "no", false), ErrAnswered)
		}
	})
}
