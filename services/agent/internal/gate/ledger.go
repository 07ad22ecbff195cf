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

// ErrSpent means that an approval was handed out before.
var ErrSpent = errors.New("the approval was already used")

// Ledger remembers which approvals were handed to a runtime. An entry is on
// disk before the runtime hears of the approval, so that a crash in between
// costs an approval, and never uses one twice.
type Ledger struct {
	mu   sync.Mutex
	f    *os.File
	used map[string]bool
	bad  error // an append failed half-way: nothing more may be handed out
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
	l := &Ledger{f: f, used: map[string]bool{}}
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
		l.used[ledgerKey(e.Interaction, e.Decision)] = true
		good += int64(len(line))
	}
	if err := l.f.Truncate(good); err != nil {
		return err
	}
	_, err := l.f.Seek(good, io.SeekStart)
	return err
}

func ledgerKey(interaction, decision string) string { return interaction + " " + decision }

// Claim takes an approval for its one use. The error is ErrSpent when it was
// taken before, by this process or an earlier one.
func (l *Ledger) Claim(interaction, decision string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := ledgerKey(interaction, decision)
	switch {
	case l.used[key]:
		return ErrSpent
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
	l.used[key] = true
	return nil
}

// Spent reports whether the approval was taken.
func (l *Ledger) Spent(interaction, decision string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used[ledgerKey(interaction, decision)]
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
