// Command banksman is Banksman in one process, and its command line.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/banksman/banksman/cmd/banksman/internal/admin"
	"github.com/banksman/banksman/cmd/banksman/internal/audit"
	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/cmd/banksman/internal/config"
	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/cmd/banksman/internal/doctor"
	"github.com/banksman/banksman/cmd/banksman/internal/notify"
	"github.com/banksman/banksman/cmd/banksman/internal/up"
	"github.com/banksman/banksman/services/agent"
)

const usage = `Banksman asks a person before an agent acts.

  banksman up              run everything on this machine
  banksman ask             ask a person and wait for the decision
  banksman pending         list what waits
  banksman decide ID ...   allow or deny, after banksman login --cli
  banksman answer ID ...   answer a question or a form, likewise
  banksman login           a new link for the browser, or --cli for this terminal
  banksman export KEY      one decision, as it stands in the record, into a file
  banksman verify FILE     check such a file, without a network
  banksman audit           the whole record as a chained file, and its check
  banksman users           who may sign in, and what they may do
  banksman tokens          tokens by which programs act
  banksman rules           what is decided before anybody is asked
  banksman notify          try channels; who was told of a request, and what comes next
  banksman config          check settings before a start
  banksman doctor          what is wrong with an installation, and how to mend it
  banksman creds           write accounts, credentials and the server configuration

Each command explains itself with --help.
`

func main() {
	if len(os.Args) > 1 && os.Args[1] == agent.GuardCommand {
		os.Exit(agent.RunGuard(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := dispatch(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func dispatch(ctx context.Context, args []string) int {
	stdio := cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	commands := map[string]func(context.Context, []string, cli.Stdio) int{
		"up": up.Command, "creds": creds.Command, "ask": cli.Ask, "pending": cli.Pending,
		"decide": cli.Decide, "answer": cli.Answer, "login": cli.Login,
		"export": cli.Export, "verify": cli.Verify, "audit": audit.Command,
		"config": config.Command, "doctor": doctor.Command,
		"users": admin.Users, "tokens": admin.Tokens, "rules": admin.Rules, "notify": notify.Command,
	}
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(os.Stdout, usage)
		return 0
	}
	run, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(os.Stderr, "banksman: unknown command %q\n\n%s", args[0], usage)
		return 2
	}
	return run(ctx, args[1:], stdio)
}
