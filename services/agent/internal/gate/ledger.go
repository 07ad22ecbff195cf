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
	"slices"
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

// trimmed ends the name of the file that is to take the ledger's place.
const trimmed = ".new"

// Ledger remembers which approvals were handed to a runtime. An entry is on
// disk before the runtime hears of the approval, so that a crash in between
// costs an approval, and never uses one twice.
type Ledger struct {
	mu   sync.Mutex
	path string
	f    *os.File
	uses []Use
	used map[string]string // decision by interaction
	bad  error             // an append failed half-way: nothing more may be handed out
}

// Use is an entry of the ledger.
type Use struct {
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
	l := &Ledger{path: path, f: f, used: map[string]string{}}
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
		var e Use
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil || e.Interaction == "" || e.Decision == "" {
			return fmt.Errorf("unreadable entry at byte %d", good)
		}
		l.note(e)
		good += int64(len(line))
	}
	if err := l.f.Truncate(good); err != nil {
		return err
	}
	_, err := l.f.Seek(good, io.SeekStart)
	return err
}

func (l *Ledger) note(u Use) {
	l.uses = append(l.uses, u)
	l.used[u.Interaction] = u.Decision
}

// Trim drops what was used longer than keep before now and before the newest use:
// a clock that is far ahead alone makes nothing forgotten. The new file takes the
// place of the old one at once or, after a crash in between, not at all.
func (l *Ledger) Trim(now time.Time, keep time.Duration) (dropped int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bad != nil {
		return 0, l.bad
	}
	if err := os.Remove(l.path + trimmed); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("ledger: %w", err)
	}
	var kept []Use
	var text []byte
	for _, u := range l.uses {
		if newest := l.uses[len(l.uses)-1].At; u.At.Before(now.Add(-keep)) && u.At.Before(newest.Add(-keep)) {
			dropped++
			continue
		}
		line, err := json.Marshal(u)
		if err != nil {
			return 0, fmt.Errorf("ledger: %w", err)
		}
		kept, text = append(kept, u), append(append(text, line...), '\n')
	}
	if dropped == 0 {
		return 0, nil
	}
	f, err := os.OpenFile(l.path+trimmed, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, fmt.Errorf("ledger: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), l.path)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("ledger: %w", err), f.Close(), os.Remove(f.Name()))
	}
	old := l.f
	l.f, l.uses, l.used = f, nil, map[string]string{}
	for _, u := range kept {
		l.note(u)
	}
	if err := errors.Join(syncDir(filepath.Dir(l.path)), old.Close()); err != nil {
		// Which of the two files a crash would leave is not known: what is
		// noted from here on could be lost with it.
		l.bad = fmt.Errorf("ledger: %w", err)
		return 0, l.bad
	}
	return dropped, nil
}

// Claim takes an interaction's approval for its one use. The error is ErrSpent
// or ErrReplaced when one was taken before, by this process or an earlier one.
func (l *Ledger) Claim(interaction, decision string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.spent(interaction, decision); err != nil {
		return err
	}
	if l.bad != nil {
		return l.bad
	}
	u := Use{interaction, decision, time.Now().UTC()}
	line, err := json.Marshal(u)
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
	l.note(u)
	return nil
}

// Spent is ErrSpent when the approval was taken, ErrReplaced when another one of
// the interaction was, else nil.
func (l *Ledger) Spent(interaction, decision string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent(interaction, decision)
}

// spent needs l.mu.
func (l *Ledger) spent(interaction, decision string) error {
	switch before, used := l.used[interaction]; {
	case !used:
		return nil
	case before == decision:
		return ErrSpent
	}
	return ErrReplaced
}

// Uses are all entries, the oldest first.
func (l *Ledger) Uses() []Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.uses)
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
