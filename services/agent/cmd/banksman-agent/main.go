// Command banksman-agent is the agent worker as a process of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/services/agent"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == agent.GuardCommand {
		os.Exit(agent.RunGuard(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "banksman-agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	creds := flag.String("creds", "", "credential `file` of an owner")
	data := flag.String("data", "", "the worker's own data `directory`")
	claude := flag.String("claude", "", "`path` of the Claude Code CLI (default: found when a session starts)")
	askTimeout := flag.Duration("ask-timeout", agent.DefaultAskTimeout, "how long people have for an answer; 0: no limit")
	var level slog.Level
	flag.TextVar(&level, "log", slog.LevelInfo, "log `level`: debug, info, warn or error")
	flag.Parse()
	if *askTimeout < 0 {
		return fmt.Errorf("--ask-timeout: %s is less than 0", *askTimeout)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	cred, err := bus.LoadCredentials(*creds)
	if err != nil {
		return fmt.Errorf("--creds: %w", err)
	}
	exe, errExe := os.Executable()
	cwd, errCwd := os.Getwd()
	client, err := bus.Connect(ctx, cred, bus.Options{Name: "banksman-agent", Logger: log})
	if err = errors.Join(errExe, errCwd, err); err != nil {
		return err
	}
	defer client.Close()
	a, err := agent.New(agent.Options{
		Logger: log, Client: client, DataDir: *data, ClaudePath: *claude,
		Guard: []string{exe, agent.GuardCommand}, DefaultCwd: cwd, Timeouts: agent.AskTimeout(*askTimeout),
	})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}
