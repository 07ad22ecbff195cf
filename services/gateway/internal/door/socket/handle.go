package socket

import (
	"context"
	"encoding/json"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/door/act"
)

// handleLimit bounds what one frame causes. It goes on without the socket: an
// answer that is on its way counts even if the browser closes meanwhile.
const handleLimit = 30 * time.Second

// handle takes one frame of a signed-in client. Whatever cannot be understood
// gets a receipt that says so; nothing is dropped silently.
func (s *socket) handle(raw []byte) {
	var f wire.Client
	if inv := act.Decode(raw, "frame", &f); inv != nil {
		s.refuse(readable(raw), inv)
		return
	}
	switch f.Type {
	case wire.TypePong:
	case wire.TypeSeen:
		// It comes often: a word back is for who asks, and for what is wrong.
		if rec := s.h.o.Desk.Presence.See(s.session, f.Requests); f.Ref != "" || rec.Status != hitl.Accepted {
			s.receipt(wire.Receipt{Ref: f.Ref, Receipt: rec})
		}
	case wire.TypeSubscribe:
		s.subscribe(&f)
	case wire.TypeUnsubscribe:
		s.unsubscribe(&f)
	case wire.TypeResponse:
		s.respond(&f)
	case wire.TypeStartSession:
		s.later(&f, func(ctx context.Context) wire.Receipt { return s.h.o.Desk.Start(ctx, s.session, f) })
	case wire.TypeSendMessage:
		s.command(&f, hitl.CommandMessage)
	case wire.TypeInterrupt:
		s.command(&f, hitl.CommandInterrupt)
	case wire.TypeStopSession:
		s.command(&f, hitl.CommandStop)
	case wire.TypeSetMode:
		s.command(&f, hitl.CommandSetMode)
	case wire.TypeAuth:
		s.refuse(&f, hitl.Invalid("type", "is auth, but this socket is signed in already"))
	case "":
		s.refuse(&f, hitl.Invalid("type", "is missing"))
	default:
		s.refuse(&f, hitl.Invalid("type", "%q is unknown", act.Clip(f.Type)))
	}
}

// readable gets what a receipt repeats out of a frame that is not right.
func readable(raw []byte) *wire.Client {
	var head map[string]json.RawMessage
	_ = json.Unmarshal(raw, &head) // what cannot be read is not repeated
	text := func(key string) (s string) {
		_ = json.Unmarshal(head[key], &s)
		return s
	}
	return &wire.Client{Response: hitl.Response{
		Ref: text("ref"), RequestID: text("request_id"), SessionID: text("session_id"),
	}}
}

func (s *socket) respond(f *wire.Client) {
	inv := &hitl.InvalidError{}
	for _, field := range []struct{ name, value string }{
		{"session_id", f.SessionID}, {"request_id", f.RequestID}, {"request_type", f.RequestType},
	} {
		if field.value == "" {
			inv.Fields = append(inv.Fields, hitl.Field{Field: field.name, Problem: "is missing"})
		}
	}
	if len(inv.Fields) > 0 {
		s.refuse(f, inv)
		return
	}
	s.later(f, func(ctx context.Context) wire.Receipt {
		return s.h.o.Desk.Decide(ctx, s.session, api.Attempt{Response: f.Response})
	})
}

func (s *socket) command(f *wire.Client, kind string) {
	s.later(f, func(ctx context.Context) wire.Receipt { return s.h.o.Desk.Send(ctx, s.session, kind, *f) })
}

// later does what takes its time beside the reader and sends the receipt. Only
// so much is under way at once; then the reader waits.
func (s *socket) later(f *wire.Client, do func(context.Context) wire.Receipt) {
	if s.slots == nil {
		s.slots = make(chan struct{}, inFlight)
	}
	select {
	case s.slots <- struct{}{}:
	case <-s.ctx.Done():
		return
	}
	slots := s.slots
	s.h.wg.Go(func() {
		defer func() { <-slots }()
		ctx, cancel := context.WithTimeout(s.h.ctx, handleLimit)
		defer cancel()
		rec := do(ctx)
		if rec.RequestID == "" {
			rec.RequestID = f.RequestID
		}
		s.receipt(rec)
	})
}

func (s *socket) refuse(f *wire.Client, inv *hitl.InvalidError) {
	s.receipt(wire.Receipt{Ref: f.Ref, RequestID: f.RequestID, SessionID: f.SessionID, Receipt: act.Invalid(inv)})
}

func (s *socket) receipt(rec wire.Receipt) {
	rec.Type = wire.TypeReceipt
	frame, err := hitl.Marshal(rec)
	if err != nil {
		s.h.o.Logger.Error("receipt not encoded", "error", err)
		return
	}
	s.push(frame)
}
