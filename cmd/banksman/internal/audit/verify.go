package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/shown"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	maxLine = 3 * journal.MaxDecisionMsg // a decision in base64, and the rest
	// maxTold bounds the problems that are printed; all are counted.
	maxTold = 50
)

func verifyCommand(args []string, stdio cli.Stdio) int {
	fs, data, creds := flags("verify", stdio)
	want := fs.String("head", "", "the `digest` of the last line, as export printed it")
	show := fs.String("show", "", "print the decision of this `id`, or of the interaction of this id, with what was shown")
	keys := map[string]ed25519.PublicKey{}
	fs.Func("key", "public decision key in `base64`; may be repeated", func(s string) error {
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return fmt.Errorf("is not base64 of %d bytes", ed25519.PublicKeySize)
		}
		keys[hitl.KeyID(raw)] = raw
		return nil
	})
	rest, err := parse(fs, args)
	if err == nil && len(rest) != 1 {
		err = errors.New("verify needs one file")
	}
	if err == nil && len(keys) == 0 {
		if *data == "" {
			*data, err = cli.DefaultDataDir()
		}
		if *creds == "" {
			*creds = filepath.Join(*data, "creds", "owner-cli.json")
		}
		var cred *bus.Credentials
		if err == nil {
			if cred, err = bus.LoadCredentials(*creds); err == nil {
				keys = cred.PublicDecisionKeys()
			} else {
				err = fmt.Errorf("no keys: %w (name a credential with --creds, or a key with --key)", err)
			}
		}
	}
	if err != nil {
		return fail(stdio, err)
	}
	f, err := os.Open(rest[0])
	if err != nil {
		return fail(stdio, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	v := &verifier{keys: keys, prev: first, outcomes: map[hitl.Outcome]int{}, out: stdio.Out, show: *show}
	if err := v.file(f); err != nil {
		return fail(stdio, fmt.Errorf("%s: %w", rest[0], err))
	}
	if *want != "" && *want != v.prev {
		v.bad("head: the last line's digest is %s, not %s", v.prev, *want)
	}
	return v.report()
}

// verifier checks the lines of one file in their order.
type verifier struct {
	keys map[string]ed25519.PublicKey
	out  io.Writer
	show string // the id of a decision, or of its interaction, to print

	n         int    // lines so far
	prev      string // digest of the last one
	head      *head
	end       *end
	decisions int
	seq       uint64
	stored    time.Time
	outcomes  map[hitl.Outcome]int
	other     int // shown in another way than this build shows them
	problems  int
}

func (v *verifier) bad(format string, args ...any) {
	if v.problems++; v.problems <= maxTold {
		say(v.out, "NOT VALID: "+format, args...)
	}
}

// file reads to the end. The error is that it cannot be read.
func (v *verifier) file(r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		raw, err := readLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", v.n+1, err)
		}
		v.line(raw)
	}
	switch {
	case v.head == nil:
		return errors.New("is no audit file")
	case v.end == nil:
		v.bad("end: it is missing, so lines may be as well")
	case v.end.Decisions != v.decisions:
		v.bad("end: it says %d decisions, there are %d", v.end.Decisions, v.decisions)
	}
	return nil
}

// readLine is a line without its line feed. The last one has one, too: without,
// the file was cut.
func readLine(in *bufio.Reader) ([]byte, error) {
	var all []byte
	for {
		part, err := in.ReadSlice('\n')
		all = append(all, part...)
		switch {
		case len(all) > maxLine:
			return nil, fmt.Errorf("is longer than any decision: %d bytes", len(all))
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(all) > 0:
			return nil, errors.New("has no end")
		case err != nil:
			return nil, err
		default:
			return all[:len(all)-1], nil
		}
	}
}

func (v *verifier) line(raw []byte) {
	number := v.n
	v.n++
	prev := v.prev
	v.prev = digest(raw)
	var l line
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := errors.Join(hitl.CheckJSON(raw), dec.Decode(&l)); err != nil {
		v.bad("line %d: %v", number+1, err)
		return
	}
	if l.N != number || l.Prev != prev {
		v.bad("line %d: it does not follow the line before it", number+1)
	}
	switch {
	case v.end != nil:
		v.bad("line %d: it stands after the end", number+1)
	case number == 0:
		if v.head = l.Head; l.Head == nil || l.Head.V != 1 || l.Decision != nil || l.End != nil {
			v.head = nil
		}
	case l.End != nil && l.Decision == nil && l.Head == nil:
		v.end = l.End
	case l.Decision != nil && l.Head == nil:
		v.decision(number+1, l.Decision)
	default:
		v.bad("line %d: it is no decision", number+1)
	}
}

func (v *verifier) decision(number int, e *wire.Evidence) {
	v.decisions++
	d, r, problems := cli.Check(e, v.keys)
	for _, p := range problems {
		v.bad("line %d: %s", number, p)
	}
	if e.V != 1 {
		v.bad("line %d: v: unknown version %d", number, e.V)
	}
	seq, err := strconv.ParseUint(e.Seq, 10, 64)
	switch {
	case err != nil || seq <= v.seq:
		v.bad("line %d: seq: %q does not follow %d", number, e.Seq, v.seq)
	case v.seq > 0 && seq != v.seq+1:
		v.bad("line %d: seq: %d to %d of the record are missing", number, v.seq+1, seq-1)
	}
	v.seq = max(v.seq, seq)
	stored, err := time.Parse(time.RFC3339Nano, e.StoredAt)
	if h := v.head; err != nil || h != nil && (h.Since != nil && stored.Before(*h.Since) || h.Until != nil && !stored.Before(*h.Until)) {
		v.bad("line %d: stored_at: %q is not in the time of this export", number, e.StoredAt)
	}
	v.stored = stored
	if d == nil {
		return
	}
	v.outcomes[d.Outcome]++
	if d.Shown != "" && (r == nil || shown.Digest(r, d.Card) != d.Shown) {
		v.other++
	}
	if v.show != "" && (v.show == d.InteractionID || v.show == d.DecisionID) {
		cli.Report(v.out, e, d, r)
	}
}

func (v *verifier) report() int {
	if v.problems > maxTold {
		say(v.out, "NOT VALID: %d more", v.problems-maxTold)
	}
	if v.head != nil {
		say(v.out, "exported   %s", v.head.ExportedAt.Format(time.RFC3339))
	}
	say(v.out, "decisions  %d", v.decisions)
	for _, o := range slices.Sorted(maps.Keys(v.outcomes)) {
		say(v.out, "  %-9s %d", o, v.outcomes[o])
	}
	if v.other > 0 {
		say(v.out, "shown      %d were shown in other words than this version uses", v.other)
	}
	say(v.out, "head       %s", v.prev)
	if v.problems > 0 {
		return cli.ExitDenied
	}
	say(v.out, "VALID")
	return cli.ExitOK
}
