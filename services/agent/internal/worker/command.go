package worker

import (
	"context"
	"errors"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/runtime"
)

// The words of a command's reply.
const (
	replyOK        = "ok"
	replyDuplicate = "duplicate"
	replyInvalid   = "invalid"
	replyNotFound  = "not_found"
	replyFailed    = "failed"
)

var errStarting = errors.New("the session is still starting")

// command carries out what a gateway passes on. Commands of a session come one
// after the other. Another worker's session is left to its own answer.
func (s *session) command(c hitl.Command) hitl.CommandReply {
	if s.check(s.ctx) != nil {
		return hitl.CommandReply{}
	}
	s.mu.Lock()
	run, away, known := s.run, s.away(), s.rec.DidCommand(c.CommandID)
	s.mu.Unlock()
	switch {
	case away != nil:
		return *away
	case known:
		return hitl.CommandReply{Status: replyDuplicate}
	}
	var err error
	switch c.Type {
	case hitl.CommandMessage:
		return s.message(c)
	case hitl.CommandStop:
		return s.stop(c)
	case hitl.CommandInterrupt:
		err = s.control(run, func(ctx context.Context) error { return run.Interrupt(ctx) })
	case hitl.CommandSetMode:
		if c.Mode == "" {
			return hitl.CommandReply{Status: replyInvalid, Error: "mode is missing"}
		}
		err = s.control(run, func(ctx context.Context) error { return run.SetMode(ctx, c.Mode) })
	default:
		return hitl.CommandReply{Status: replyInvalid, Error: "type: unknown command " + c.Type}
	}
	if err != nil {
		return hitl.CommandReply{Status: replyFailed, Error: err.Error()}
	}
	s.note(c.CommandID)
	return hitl.CommandReply{Status: replyOK}
}

// away needs s.mu. It is the reply of a session that takes no command any more.
func (s *session) away() *hitl.CommandReply {
	switch {
	case s.over != nil:
		return &hitl.CommandReply{Status: replyNotFound, Error: "the session is over"}
	case s.lost:
		return &hitl.CommandReply{}
	case s.left:
		return &hitl.CommandReply{Status: replyFailed, Error: "the worker is stopping; its successor takes the session up"}
	}
	return nil
}

// stop ends the session. That is on disk before the reply, so that no crash
// takes it back.
func (s *session) stop(c hitl.Command) hitl.CommandReply {
	s.mu.Lock()
	if away := s.away(); away != nil {
		s.mu.Unlock()
		return *away
	}
	s.rec.NoteCommand(c.CommandID)
	err := s.conclude(ending{reason: "stopped by a person"})
	s.mu.Unlock()
	s.log.Info("session stopped by command")
	s.cancel(gate.ErrClosed)
	if err != nil {
		s.log.Error("stop not stored", "error", err)
		return hitl.CommandReply{Status: replyFailed, Error: "the session is stopped, but that could not be stored on the agent's machine"}
	}
	return hitl.CommandReply{Status: replyOK}
}

func (s *session) control(run runtime.Run, f func(context.Context) error) error {
	if run == nil {
		return errStarting
	}
	ctx, cancel := context.WithTimeout(s.ctx, controlLimit)
	defer cancel()
	return f(ctx)
}

func (s *session) note(commandID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec.NoteCommand(commandID)
	s.save()
}

// message takes a prompt: it is on disk before the reply, so that it is neither
// lost nor taken twice.
func (s *session) message(c hitl.Command) hitl.CommandReply {
	if strings.TrimSpace(c.Text) == "" && len(c.Attachments) == 0 {
		return hitl.CommandReply{Status: replyInvalid, Error: "text is missing"}
	}
	p := runtime.Prompt{Text: c.Text, Attachments: c.Attachments}
	s.mu.Lock()
	if away := s.away(); away != nil {
		s.mu.Unlock()
		return *away
	}
	commands, inbox := s.rec.Commands, s.rec.Inbox
	s.rec.NoteCommand(c.CommandID)
	s.rec.Inbox = append(append([]runtime.Prompt(nil), inbox...), p)
	if err := s.w.dir.Save(&s.rec); err != nil {
		s.rec.Commands, s.rec.Inbox = commands, inbox
		s.mu.Unlock()
		s.log.Error("message not stored", "error", err)
		return hitl.CommandReply{Status: replyFailed, Error: "the message could not be stored on the agent's machine"}
	}
	s.mu.Unlock()
	s.pub.push(item{event: promptEvent(p)})
	s.kick()
	return hitl.CommandReply{Status: replyOK}
}
