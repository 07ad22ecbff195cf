package gate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

var (
	// ErrSpent means that an approval was handed out before.
	ErrSpent = errors.New("the approval was already used")
	// ErrTaken means that another process of the owner claimed the approval: one
	// that worked with this directory and was lost before it could note it here,
	// or one that works with a copy.
	ErrTaken = errors.New("another worker process took the approval before; whether the tool ran there is unknown")
	// ErrReplaced means that the interaction's approval was handed out before,
	// by another decision. A record holds one decision of an interaction, so this
	// one was put back to an older copy in between.
	ErrReplaced = errors.New("another approval of the same request was already used")
)

// Ledger remembers which approvals were handed to a runtime. An entry is on
// disk before the runtime hears of the approval, so that a crash in between
// costs an approval, and never uses one twice.
type Ledger struct {
	mu   sync.Mutex
	f    *os.File
	used map[string]string // decision by interaction
	bad  error             // an append failed half-way: nothing more may be handed out
}

type ledgerEntry struct {
	Interaction string    `json:"interaction_id"`
	Decision    string    `json:"decision_id"`
	At          time.Time `json:"at"`
}

// OpenLedger opens or creates the ledger at path. The caller closes it.
func OpenLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := &Ledger{f: f, used: map[string]string{}}
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger %s: %w", path, err), f.Close())
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger %s: %w", path, err), f.Close())
	}
	return l, nil
}

// load reads the entries and cuts a last line that a crash left unfinished:
// its approval was not handed out.
func (l *Ledger) load() error {
	r := bufio.NewReader(l.f)
	var good int64
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var e ledgerEntry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil || e.Interaction == "" || e.Decision == "" {
			return fmt.Errorf("unreadable entry at byte %d", good)
		}
		l.used[e.Interaction] = e.Decision
		good += int64(len(line))
	}
	if err := l.f.Truncate(good); err != nil {
		return err
	}
	_, err := l.f.Seek(good, io.SeekStart)
	return err
}

// Claim takes an interaction's approval for its one use. The error is ErrSpent
// or ErrReplaced when one was taken before, by this process or an earlier one.
func (l *Ledger) Claim(interaction, decision string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch before, used := l.used[interaction]; {
	case used && before == decision:
		return ErrSpent
	case used:
		return ErrReplaced
	case l.bad != nil:
		return l.bad
	}
	line, err := json.Marshal(ledgerEntry{interaction, decision, time.Now().UTC()})
	if err != nil {
		return err
	}
	if _, err := l.f.Write(append(line, '\n')); err != nil {
		l.bad = fmt.Errorf("ledger: %w", err)
		return l.bad
	}
	if err := l.f.Sync(); err != nil {
		l.bad = fmt.Errorf("ledger: %w", err)
		return l.bad
	}
	l.used[interaction] = decision
	return nil
}

// Spent reports whether an approval of the interaction was taken.
func (l *Ledger) Spent(interaction string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, used := l.used[interaction]
	return used
}

// Close closes the file.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bad == nil {
		l.bad = errors.New("ledger: closed")
	}
	return l.f.Close()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
