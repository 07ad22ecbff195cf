package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
)

// Exit codes. Of a decision: how it ended. ExitDenied also stands for somebody
// else's decision where one was to be made.
const (
	ExitOK        = 0 // allowed or answered; done
	ExitDenied    = 1
	ExitError     = 2 // usage or error: nothing was decided
	ExitExpired   = 3
	ExitNoAnswer  = 4 // dismissed, or text instead of an answer
	ExitCancelled = 5 // cancelled, orphaned or invalid
)

// Stdio is what a command reads and writes.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
	// DataDir is the default of --data; empty: DefaultDataDir.
	DataDir string
}

const (
	// connectWait is how long a command waits for the server.
	connectWait = 10 * time.Second
	// callWait bounds a call of the service API, with its repetitions.
	callWait = 20 * time.Second
)

// Program is how this program was called, for whoever is to call it again from a
// terminal in the same directory.
func Program() string {
	if exe, err := os.Executable(); err == nil && byGoRun(exe) {
		return "go run ./cmd/banksman"
	}
	if strings.ContainsRune(os.Args[0], filepath.Separator) {
		return os.Args[0]
	}
	return "banksman"
}

// byGoRun reports whether go run built a program: into the temp directory, or into its
// cache, whose directories end in -d.
func byGoRun(exe string) bool {
	dir := filepath.Dir(exe)
	return strings.HasPrefix(exe, os.TempDir()) || strings.HasSuffix(dir, "-d") && len(filepath.Base(filepath.Dir(dir))) == 2
}

// DefaultDataDir is where an instance keeps its data if nobody says otherwise.
func DefaultDataDir() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "banksman"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no data directory: %w (use --data)", err)
	}
	return filepath.Join(home, ".local", "share", "banksman"), nil
}

// errUsage is a usage error that the flag package has printed already.
var errUsage = errors.New("usage")

// command is one run of a command.
type command struct {
	Stdio
	name  string
	flags *flag.FlagSet
	data  string
	creds string
	nats  string
}

func newCommand(name, usage string, io Stdio) *command {
	c := &command{Stdio: io, name: name, flags: flag.NewFlagSet(name, flag.ContinueOnError)}
	c.flags.SetOutput(io.Err)
	c.flags.Usage = func() {
		fmt.Fprintf(io.Err, "usage: banksman %s\n\nflags:\n", usage)
		c.flags.PrintDefaults()
	}
	c.flags.StringVar(&c.data, "data", io.DataDir, "data `directory` of the instance")
	c.flags.StringVar(&c.creds, "creds", "", "credential `file` (default creds/owner-cli.json in the data directory)")
	c.flags.StringVar(&c.nats, "nats", "", "server `address`, in place of the credential file's")
	return c
}

// parse reads flags wherever they stand and returns what is none.
func (c *command) parse(args []string) ([]string, error) {
	var rest []string
	for {
		if err := c.flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, errUsage
		}
		args = c.flags.Args()
		if len(args) == 0 {
			break
		}
		rest, args = append(rest, args[0]), args[1:]
	}
	if c.data == "" {
		dir, err := DefaultDataDir()
		if err != nil {
			return nil, err
		}
		c.data = dir
	}
	return rest, nil
}

// fail tells the person and returns the exit code.
func (c *command) fail(err error) int {
	switch {
	case errors.Is(err, flag.ErrHelp):
		return ExitOK
	case errors.Is(err, errUsage):
		return ExitError
	}
	c.say("banksman %s: %v", c.name, err)
	return ExitError
}

// say writes a line for the person.
func (c *command) say(format string, args ...any) {
	fmt.Fprintln(c.Err, safe(fmt.Sprintf(format, args...)))
}

// print writes a line of JSON for a program.
func (c *command) print(v any) error {
	raw, err := hitl.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Out, escape(string(raw)))
	return err
}

// connect reaches the bus with the terminal's identity.
func (c *command) connect(ctx context.Context) (*bus.Client, error) {
	path := c.creds
	if path == "" {
		path = filepath.Join(c.data, "creds", "owner-cli.json")
	}
	cred, err := bus.LoadCredentials(path)
	if errors.Is(err, fs.ErrNotExist) && c.creds == "" {
		return nil, fmt.Errorf("no instance at %s: run banksman up (or name another with --data)", c.data)
	}
	if err != nil {
		return nil, err
	}
	if c.nats != "" {
		cred.URLs = []string{c.nats}
	}
	limit, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	logger := slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelError}))
	client, err := bus.Connect(limit, cred, bus.Options{Name: "banksman " + c.name, Logger: logger})
	if err != nil && ctx.Err() == nil && limit.Err() != nil {
		return nil, fmt.Errorf("no answer from %s: is the instance running? (banksman up)", strings.Join(cred.URLs, ", "))
	}
	return client, err
}

// call repeats a call of the service API while nobody has answered it. Every
// call that commands make may safely be repeated.
func call[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	for {
		out, err := do(ctx)
		var refused *bus.ServiceError
		again := errors.Is(err, bus.ErrUnavailable) ||
			errors.As(err, &refused) && refused.Body.Code == string(hitl.Unavailable)
		if !again {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(500 * time.Millisecond):
		}
	}
}
