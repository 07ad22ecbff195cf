// Package svc serves the service API on the bus: hitl.svc.<tenant>.<caller>.<verb>.
//
// Who calls is what the server pinned in the subject, never what a body says.
// A caller has no right to decide by itself; one that brings the session token
// of a person decides in that person's name. Replies go only to subjects that
// the server made for a call across accounts, so no caller can make the gateway
// publish where it likes. Each caller has a bounded queue of its own: one that
// floods is told to come back, the others do not notice.
package svc
