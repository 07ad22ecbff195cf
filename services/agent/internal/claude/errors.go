package claude

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotInstalled means that no Claude Code executable was found.
	ErrNotInstalled = errors.New("the Claude Code CLI (claude) was not found; install it with: npm install -g @anthropic-ai/claude-code")
	// ErrWithdrawn means that the CLI no longer wants an answer.
	ErrWithdrawn = errors.New("the ask was withdrawn")
	// ErrAnswered means that an answer was already sent.
	ErrAnswered = errors.New("the ask is already answered")
	// ErrUnknownAsk means that this process never made such an ask.
	ErrUnknownAsk = errors.New("no such ask")
	// ErrWrongKind means that a tool ask was answered as a form or the reverse.
	ErrWrongKind = errors.New("the ask is of another kind")
	// ErrExited means that the process is gone or its input is closed.
	ErrExited = errors.New("the Claude Code process has ended")
	// ErrNoConversation means that the CLI does not have what it should resume.
	ErrNoConversation = errors.New("the Claude Code CLI has no such conversation")
	// ErrLineTooLong means that the CLI wrote a line above protocol.MaxLine.
	ErrLineTooLong = errors.New("line too long")
)

// BusyError says why Close would make the CLI see a denial.
type BusyError struct {
	Open  []string // request ids without an answer
	State string   // session state, if it is not idle
}

func (e *BusyError) Error() string {
	if len(e.Open) > 0 {
		return "asks are open: " + strings.Join(e.Open, ", ")
	}
	return "the session is " + e.State
}

// ControlError is a refusal of a control request by the CLI.
type ControlError struct {
	Subtype string
	Message string
}

func (e *ControlError) Error() string {
	return fmt.Sprintf("control request %s refused: %s", e.Subtype, e.Message)
}
