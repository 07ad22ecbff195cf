// Package audit is banksman audit: the whole record as a file in which nothing
// can be changed, left out or put in without it showing, and its check without a
// network.
//
// The file has a line of JSON for each decision, between a line that says what
// was exported and one that says that this is the end. Each line holds the
// SHA-256 of the one before it. Whoever notes the last line's own digest
// elsewhere can later tell whether it is the same file.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/wire"
)

const usage = `usage: banksman audit export [--since TIME] [--until TIME] > FILE
       banksman audit verify FILE [--head DIGEST] [--show ID]

Writes all decisions of the record, one a line, each line with the SHA-256 of
the one before; and checks such a file without a network: the chain, that no
decision is missing in between, and every decision as banksman verify does.
Export prints the digest of the last line: keep it elsewhere, and give it to
verify as --head.

TIME is a date (2026-11-28) or RFC 3339; it counts when the server stored it.

Exit code: 0 everything holds, 1 something does not and is named, 2 anything else.
`

// first is what the first line says of the one before it.
var first = strings.Repeat("0", sha256.Size*2)

// line is one line of the file: one of Head, Decision and End.
type line struct {
	N    int    `json:"n"`
	Prev string `json:"prev"`
	Head *head  `json:"audit,omitempty"`
	// Decision is as banksman export writes it.
	Decision *wire.Evidence `json:"decision,omitempty"`
	End      *end           `json:"end,omitempty"`
}

type head struct {
	V          int        `json:"v"`
	ExportedAt time.Time  `json:"exported_at"`
	Since      *time.Time `json:"since,omitempty"`
	Until      *time.Time `json:"until,omitempty"`
	// Record is when the record was made: its numbers mean something in it only.
	Record time.Time `json:"record"`
}

type end struct {
	Decisions int `json:"decisions"`
}

func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Command is banksman audit; it returns the exit code.
func Command(ctx context.Context, args []string, stdio cli.Stdio) int {
	if len(args) > 0 {
		switch args[0] {
		case "export":
			return exportCommand(ctx, args[1:], stdio)
		case "verify":
			return verifyCommand(args[1:], stdio)
		case "-h", "--help", "help":
			fmt.Fprint(stdio.Out, usage)
			return cli.ExitOK
		}
		fmt.Fprintf(stdio.Err, "banksman audit: what is %q?\n\n", args[0])
	}
	fmt.Fprint(stdio.Err, usage)
	return cli.ExitError
}

// flags makes the flags that both commands have.
func flags(name string, stdio cli.Stdio) (fs *flag.FlagSet, data, creds *string) {
	fs = flag.NewFlagSet("banksman audit "+name, flag.ContinueOnError)
	fs.SetOutput(stdio.Err)
	fs.Usage = func() {
		fmt.Fprint(stdio.Err, usage+"\n")
		fs.PrintDefaults()
	}
	data = fs.String("data", stdio.DataDir, "data `directory` of the instance")
	creds = fs.String("creds", "", "credential `file`")
	return fs, data, creds
}

// parse reads flags wherever they stand.
func parse(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		if args = fs.Args(); len(args) == 0 {
			return rest, nil
		}
		rest, args = append(rest, args[0]), args[1:]
	}
}

// fail tells the person and returns the exit code.
func fail(stdio cli.Stdio, err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return cli.ExitOK
	}
	say(stdio.Err, "banksman audit: %v", err)
	return cli.ExitError
}

// say writes a line for the person, with nothing in it that a terminal obeys.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, cli.Safe(fmt.Sprintf(format, args...)))
}

// moment reads a date or a time.
func moment(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a date such as 2026-11-28 nor a time such as 2026-11-28T12:00:00Z", text)
}
