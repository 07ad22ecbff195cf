// Package settings makes the options of an agent worker from its command line,
// the environment and a file.
package settings

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/settings"
	"github.com/banksman/banksman/services/agent"
)

// Agent is what the settings of one worker say. What a program finds out by
// itself, its connection among it, is not in Options yet.
type Agent struct {
	agent.Options
	*settings.Common
	Credentials *bus.Credentials
}

func set(a *Agent) (fs *settings.Set, finish func(stderr io.Writer) error) {
	fs = settings.New("banksman-agent")
	creds := fs.String("creds", "", "credential `file` of an owner (required)")
	a.Common = fs.Common(slog.LevelInfo)
	fs.StringVar(&a.DataDir, "data", "", "the worker's own data `directory` (required)")
	fs.BoolVar(&a.SharedData, "data-shared", false, "several workers of this host share -data: each takes a directory below it")
	fs.StringVar(&a.ClaudePath, "claude", "", "`path` of the Claude Code CLI (default: found when a session starts)")
	fs.StringVar(&a.DefaultCwd, "cwd", "", "`directory` of sessions that name none (default: the present one)")
	var ask time.Duration
	fs.DurationVar(&ask, "ask-timeout", agent.DefaultAskTimeout, "how long people have for an answer; 0: no limit")
	return fs, func(stderr io.Writer) (err error) {
		switch {
		case *creds == "":
			return errors.New("-creds is missing: name the credential file of an owner")
		case a.DataDir == "":
			return errors.New("-data is missing: name the worker's data directory")
		case ask < 0:
			return fmt.Errorf("-ask-timeout: %s is less than 0", ask)
		}
		a.Timeouts = agent.AskTimeout(ask)
		if a.Credentials, err = bus.LoadCredentials(*creds); err != nil {
			return fmt.Errorf("-creds: %w", err)
		}
		a.Logger, err = a.Log(stderr)
		return err
	}
}

// Flags are the flags themselves, for who explains them.
func Flags() *settings.Set {
	fs, _ := set(&Agent{})
	return fs
}

// Parse reads the settings; environ is as of os.Environ. It writes to stderr
// only the help, where that is asked for; the log goes there as well.
func Parse(args, environ []string, stderr io.Writer) (Agent, error) {
	var a Agent
	fs, finish := set(&a)
	if err := fs.ParseOrHelp(args, environ, "usage: banksman-agent [flags]\n\n", stderr); err != nil {
		return a, err
	}
	return a, finish(stderr)
}
