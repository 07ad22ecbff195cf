// Package claudert runs Claude Code as a Runtime: it maps what the CLI asks to
// requests, decisions to the CLI's own answers, and brings a session back after
// its worker was lost.
//
// The request's key is the CLI's session id, the tool use id and the control
// request id, joined by colons; a form has no tool use id.
//
// A conversation survives its worker, but an open ask does not: the resumed CLI
// has forgotten it. So a successor asks people again under the same key, resumes
// the CLI once everything that was open is decided, tells the model what was
// decided, and applies an approval when the model makes the same call again.
package claudert
