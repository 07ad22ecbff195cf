package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

// FuzzFrames: a frame that is taken says the same after it was passed on, and
// what two readers could read in two ways is refused.
func FuzzFrames(f *testing.F) {
	at := time.Date(2026, 11, 27, 10, 0, 0, 1, time.UTC)
	sum := wire.Summary{RequestID: "i", Key: "t.o.i", Kind: "approval", Digest: "d", CreatedAt: at, ExpiresAt: &at, Body: &wire.Body{Verbs: []string{"allow"}, Input: `{"n":9007199254740993}`}}
	d := &hitl.Decision{V: 1, DecisionID: "d", InteractionID: "i", Digest: "d", Content: hitl.Content{Outcome: hitl.Allowed, UpdatedInput: []byte(`{"n":1e400}`)}, DecidedAt: at, RequestedAt: at}
	samples := []any{
		wire.Client{Type: wire.TypeResponse, Response: hitl.Response{Ref: "r", RequestID: "i", Decision: "allow", UpdatedInput: []byte(`"{}"`)}},
		wire.Client{Type: wire.TypeStartSession, CommandID: "c", Runtime: "demo", Attachments: []hitl.Attachment{{Kind: "image", DataB64: "AA=="}}},
		wire.Opened{V: 1, Summary: sum, RequestSeq: 7, RequestB64: "e30="},
		wire.Ended{V: 1, Closed: wire.Closed{Summary: sum, State: wire.StateClosed, Outcome: hitl.Allowed, Decision: d, Trail: []hitl.Ack{{V: 1, Stage: hitl.Applied, At: at}}}},
		wire.SessionVerdict{V: 1, State: "dead", Generation: 2, At: at},
		wire.ProcessState{SessionKey: "t.o.s", PendingRequests: []wire.Summary{sum}, PendingRequest: &sum},
		wire.Receipt{Ref: "r", Receipt: hitl.Receipt{Status: hitl.AlreadyDecided, Decision: d, Fields: []hitl.Field{{Field: "f", Problem: "p"}}}},
		wire.DecideCall{ID: "i", Token: "t", Response: hitl.Response{Decision: "deny"}},
		wire.ListReply{Interactions: []wire.Interaction{{ID: "i", Summary: sum, State: wire.StatePending}}},
		wire.AskReply{Status: "decided", ID: "i", Decision: d},
		wire.LoginReply{URL: "http://127.0.0.1:8080/#login=x"},
		wire.ErrorReply{Error: wire.Error{Code: "invalid", Error: "text", Decision: d}},
		wire.Events{Type: wire.TypeEvent, Events: []wire.Event{{Type: hitl.EventText, At: at, Data: []byte(`{"text":"x"}`)}}},
	}
	kinds := []func() any{
		func() any { return new(wire.Client) }, func() any { return new(wire.Opened) }, func() any { return new(wire.Ended) },
		func() any { return new(wire.SessionVerdict) }, func() any { return new(wire.ProcessState) }, func() any { return new(wire.Receipt) },
		func() any { return new(wire.DecideCall) }, func() any { return new(wire.GetCall) }, func() any { return new(wire.ListCall) },
		func() any { return new(wire.LoginCall) }, func() any { return new(wire.ListReply) }, func() any { return new(wire.AskReply) },
		func() any { return new(wire.LoginReply) }, func() any { return new(wire.ErrorReply) }, func() any { return new(wire.Events) },
	}
	for i := range kinds {
		for _, v := range samples {
			raw, err := hitl.Marshal(v)
			require.NoError(f, err)
			f.Add(uint8(i), raw)
		}
		for _, s := range []string{``, `[]`, `null`, `{"type":"auth","Type":"pong"}`, `{"ref":"\ud800"}`, "{\"ref\":\"\xff\"}", `{"created_at":"2026-01-01T00:00:00+24:00"}`} {
			f.Add(uint8(i), []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		v, again := kinds[int(which)%len(kinds)](), kinds[int(which)%len(kinds)]()
		if err := hitl.Decode(body, "frame", v); err != nil {
			var invalid *hitl.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.NotEmpty(t, invalid.Fields[0].Field)
			return
		}
		out, err := hitl.Marshal(v)
		if err != nil { // some times can be read and not written
			require.ErrorContains(t, err, "Time.MarshalJSON")
			return
		}
		require.NoError(t, hitl.Decode(out, "frame", again), "%s", out)
		last, err := hitl.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(out), string(last))
	})
}
