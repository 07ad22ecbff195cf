// Package settings makes the options of an agent worker from its command line,
// the environment and a file.
package settings

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/settings"
	"github.com/banksman/banksman/services/agent"
	"github.com/banksman/banksman/services/agent/internal/claude"
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
	key := fs.String("claude-key-file", "", "`file` with the API key of the Claude Code CLI, read at the start; an empty one is none (default: the CLI's own sign-in)")
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
		if a.ClaudeEnv, err = withKey(*key, os.Environ()); err != nil {
			return fmt.Errorf("-claude-key-file: %w", err)
		}
		if a.Credentials, err = bus.LoadCredentials(*creds); err != nil {
			return fmt.Errorf("-creds: %w", err)
		}
		if a.Logger, err = a.Log(stderr); err != nil {
			return err
		}
		return a.Validate(a.Credentials)
	}
}

// withKey is the environment of the CLI with the key of a file; nil, which is the
// default, without one.
func withKey(file string, environ []string) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key := strings.TrimSpace(string(raw))
	switch {
	case key == "":
		return nil, nil
	case strings.ContainsAny(key, " \t\r\n\x00"):
		return nil, fmt.Errorf("%s: holds more than a key", file)
	}
	return append(claude.UserEnv(environ), "ANTHROPIC_API_KEY="+key), nil
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
