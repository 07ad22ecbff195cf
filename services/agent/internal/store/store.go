// Package store is a worker's own memory of its sessions: one file each,
// replaced atomically and on disk before a call returns. Two workers never share
// a directory; a lock sees to it, and the system drops it with the process.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/agent/internal/gate"
)

// ErrInUse means that another process works with the directory.
var ErrInUse = errors.New("another worker uses this data directory")

// commandMemory is how many command ids of a session are remembered.
const commandMemory = 128

// Prompt is what a person said and the runtime has not taken yet.
type Prompt struct {
	Text        string            `json:"text"`
	Attachments []hitl.Attachment `json:"attachments,omitempty"`
}

// Session is what a successor must know of a session.
type Session struct {
	V     int               `json:"v"`
	State hitl.SessionState `json:"state"`
	// Claimed says that the session is surely ours.
	Claimed bool `json:"claimed"`
	// Inbox are prompts in order, not yet handed to the runtime.
	Inbox []Prompt `json:"inbox,omitempty"`
	// Asks are the open asks, oldest first.
	Asks []gate.Kept `json:"asks,omitempty"`
	// Receipts may not have been sent yet.
	Receipts []gate.Receipt `json:"receipts,omitempty"`
	// Commands are the ids of commands that were carried out, oldest first.
	Commands []string `json:"commands,omitempty"`
	// Memory is the runtime's own.
	Memory json.RawMessage `json:"memory,omitempty"`
}

// DidCommand reports whether the command was carried out before.
func (s *Session) DidCommand(id string) bool {
	for _, c := range s.Commands {
		if c == id {
			return true
		}
	}
	return false
}

// NoteCommand remembers a command id.
func (s *Session) NoteCommand(id string) {
	s.Commands = append(s.Commands, id)
	if over := len(s.Commands) - commandMemory; over > 0 {
		s.Commands = append([]string(nil), s.Commands[over:]...)
	}
}

// Dir is a worker's data directory.
type Dir struct {
	path string
	lock *os.File
}

// Open takes the directory, making it if need be. The caller closes it.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(filepath.Join(path, "sessions"), 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := tryLock(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), lock.Close())
	}
	return &Dir{path: path, lock: lock}, nil
}

// Close gives the directory up.
func (d *Dir) Close() error { return d.lock.Close() }

// LedgerPath is where the ledger of used approvals lies.
func (d *Dir) LedgerPath() string { return filepath.Join(d.path, "approvals.jsonl") }

func (d *Dir) file(sessionID string) string {
	return filepath.Join(d.path, "sessions", subject.Token(sessionID)+".json")
}

// Save replaces the session's file; it is on disk when Save returns.
func (d *Dir) Save(s *Session) error {
	s.V = 1
	raw, err := hitl.Marshal(s) // leaves the bytes of a tool's input alone
	if err != nil {
		return fmt.Errorf("session %s: %w", s.State.SessionID, err)
	}
	if err := writeFile(d.file(s.State.SessionID), raw); err != nil {
		return fmt.Errorf("session %s: %w", s.State.SessionID, err)
	}
	return nil
}

// Delete forgets a session.
func (d *Dir) Delete(sessionID string) error {
	err := os.Remove(d.file(sessionID))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Load returns every session. One that cannot be read is reported and left in
// place; it does not keep the others from coming back.
func (d *Dir) Load() ([]*Session, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, "sessions"))
	if err != nil {
		return nil, err
	}
	var out []*Session
	var bad []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(d.path, "sessions", e.Name()))
		if err == nil {
			var s Session
			if err = json.Unmarshal(raw, &s); err == nil && s.V != 1 {
				err = fmt.Errorf("v: unknown version %d", s.V)
			}
			if err == nil && s.State.SessionID == "" {
				err = errors.New("state.session_id: missing")
			}
			for i, a := range s.Asks {
				if err == nil && a.Request == nil {
					err = fmt.Errorf("asks[%d].request: missing", i)
				}
			}
			if err == nil {
				out = append(out, &s)
				continue
			}
		}
		bad = append(bad, fmt.Errorf("%s: %w", e.Name(), err))
	}
	return out, errors.Join(bad...)
}

// WorkerID returns the directory's stable name for a worker, made with newID the
// first time.
func (d *Dir) WorkerID(newID func() string) (string, error) {
	path := filepath.Join(d.path, "worker")
	raw, err := os.ReadFile(path)
	if err == nil && len(raw) > 0 {
		return strings.TrimSpace(string(raw)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	id := newID()
	return id, writeFile(path, []byte(id+"\n"))
}

func writeFile(path string, raw []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(raw)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
