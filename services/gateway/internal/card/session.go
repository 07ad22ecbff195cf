package card

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// Bounds of what a worker tells of itself and its sessions.
const (
	maxError    = 2000 // runes
	maxRuntimes = 16
	maxSessions = 5000 // of a heartbeat
)

// ReadState takes a worker's word on a session and makes it fit for people and
// for frames. ok is false for what is not about key, and for names that no
// worker of ours would use.
func ReadState(key subject.Session, raw []byte) (st hitl.SessionState, ok bool) {
	if hitl.Decode(raw, "state", &st) != nil || subject.NewSession(st.Tenant, st.Owner, st.SessionID) != key {
		return st, false
	}
	for _, name := range []string{st.SessionID, st.Worker} {
		if utf8.RuneCountInString(name) > hitl.MaxIdentifier {
			return st, false
		}
	}
	for _, text := range []*string{&st.Title, &st.Cwd, &st.ProjectID, &st.Runtime, &st.State, &st.Mode, &st.Model, &st.KillReason} {
		*text = Line(*text)
	}
	st.Error = cutRunes(Visible(st.Error), maxError)
	st.StartedAt, st.StateChangedAt = writable(st.StartedAt), writable(st.StateChangedAt)
	return st, true
}

// writable is t in UTC, or the zero time: some times can be read from JSON but
// not written to it again.
func writable(t time.Time) time.Time {
	t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}
	}
	return t
}

// ReadBeat takes a heartbeat; worker is the token it was sent under.
func ReadBeat(worker string, raw []byte) (b hitl.Beat, ok bool) {
	if hitl.Decode(raw, "beat", &b) != nil || subject.Token(b.Worker) != worker ||
		utf8.RuneCountInString(b.Worker) > hitl.MaxIdentifier {
		return b, false
	}
	b.Sessions = slices.Clone(b.Sessions[:min(len(b.Sessions), maxSessions)])
	b.Runtimes = slices.DeleteFunc(b.Runtimes, func(s string) bool { return !subject.ValidToken(s) })
	b.Runtimes = slices.Clone(b.Runtimes[:min(len(b.Runtimes), maxRuntimes)])
	return b, true
}

// replies are what a worker may say to a command.
var replies = []string{"ok", "duplicate", "invalid", "not_found", "failed"}

// ReadReply takes a worker's word on a command and makes it fit for people.
func ReadReply(raw []byte) (hitl.CommandReply, error) {
	var r hitl.CommandReply
	err := hitl.Decode(raw, "reply", &r)
	if err == nil && !slices.Contains(replies, r.Status) {
		err = hitl.Invalid("status", "is unknown")
	}
	if err != nil {
		return hitl.CommandReply{}, fmt.Errorf("the worker's reply cannot be read: %w", err)
	}
	r.Error = Line(r.Error)
	return r, nil
}
