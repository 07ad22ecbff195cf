// Package runtime is what the worker and the kinds of agents agree on. A Runtime
// starts Runs; a Run reports through its Host and asks through it.
package runtime

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/banksman/banksman/services/agent/internal/gate"
	"github.com/banksman/banksman/services/agent/internal/store"
)

// Spec says what to run.
type Spec struct {
	SessionID string
	Cwd       string
	Mode      string
	Model     string
	// Memory is what the run remembered last; nil for a session that begins.
	Memory json.RawMessage
	// Open are the asks that an earlier process left open. A run that goes on
	// by itself asks them again with the same id; nobody else does.
	Open []gate.Kept
	// MidTurn says that an earlier process was lost while it was the agent's turn.
	MidTurn bool
	Logger  *slog.Logger
}

// Prompt is what a person said.
type Prompt = store.Prompt

// Runtime is one kind of agent.
type Runtime interface {
	Name() string
	// Start begins a session or takes it up again. ctx bounds the start alone.
	// The text of an error is shown to people; a LaterError may pass.
	Start(ctx context.Context, s Spec, h Host) (Run, error)
}

// Run is a session at work. Its methods may be called from any goroutine, but
// Kill only from outside a call of the Host.
type Run interface {
	// Prompt hands over what a person said. It may wait until the run can take
	// it, and returns nil only when it did.
	Prompt(ctx context.Context, p Prompt) error
	Interrupt(ctx context.Context) error
	SetMode(ctx context.Context, mode string) error
	// Kill ends the run at once and returns when it calls its Host no more. The
	// agent does not take the end for an answer to anything.
	Kill()
}

// Host is what a run may do. Calls of one run come in the order that things
// happened in.
type Host interface {
	// Emit reports. It may wait for room.
	Emit(Event)
	// Ask opens an ask. The host fills in who asks and for which session.
	Ask(gate.Ask)
	Withdraw(id, reason string)
	// Remember replaces the run's memory; it is on disk when it returns.
	Remember(memory json.RawMessage) error
	// Flush returns nil when all that was emitted is stored. A run whose memory
	// says that something was told remembers it after that.
	Flush(ctx context.Context) error
}

// Reasons of TurnDone that every runtime uses; others are its own.
const (
	EndTurn     = "end_turn"
	Interrupted = "interrupted"
)

// Event is one thing that happened in a run. Parent names the tool call that
// runs the sub-agent an event belongs to; empty for the main conversation.
type Event interface{ runtimeEvent() }

// The events.
type (
	// TextDelta is a piece of a block that Text gives whole.
	TextDelta struct{ BlockID, Text, Parent string }
	// Text is a whole block. Role is user or assistant.
	Text struct{ Role, BlockID, Text, Parent string }
	// ToolStart begins a tool call.
	ToolStart struct{ ID, Name, Parent string }
	// ToolDelta is a piece of its input, as written so far.
	ToolDelta struct{ ID, Text, Parent string }
	// ToolEnd has the whole input, byte for byte.
	ToolEnd struct {
		ID, Name string
		Input    json.RawMessage
		Parent   string
	}
	// ToolResult is what the agent was told about a call.
	ToolResult struct {
		ID, Content string
		IsError     bool
		Parent      string
	}
	// Problem is shown to people as an error.
	Problem struct{ Message string }
	// Note is shown to people as what happened to the session.
	Note struct{ Message string }
	// Turn says whose turn it is.
	Turn struct{ Assistant bool }
	// TurnDone ends a turn of the agent.
	TurnDone struct{ Reason string }
	// Info is what became known of mode and model; empty means unchanged.
	Info struct{ Mode, Model string }
	// Ended is the last event of a run that ended by itself. The session is dead.
	Ended struct{ Message string }
)

func (TextDelta) runtimeEvent()  {}
func (Text) runtimeEvent()       {}
func (ToolStart) runtimeEvent()  {}
func (ToolDelta) runtimeEvent()  {}
func (ToolEnd) runtimeEvent()    {}
func (ToolResult) runtimeEvent() {}
func (Problem) runtimeEvent()    {}
func (Note) runtimeEvent()       {}
func (Turn) runtimeEvent()       {}
func (TurnDone) runtimeEvent()   {}
func (Info) runtimeEvent()       {}
func (Ended) runtimeEvent()      {}

// RejectedError says that a prompt cannot be used; the session goes on.
type RejectedError struct{ Err error }

func (e *RejectedError) Error() string { return "the message was not sent: " + e.Err.Error() }
func (e *RejectedError) Unwrap() error { return e.Err }

// LaterError is why a run cannot start now that may yet change: something of the
// machine is missing.
type LaterError struct{ Err error }

func (e *LaterError) Error() string { return e.Err.Error() }
func (e *LaterError) Unwrap() error { return e.Err }
