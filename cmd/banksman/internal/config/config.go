// Package config is the command "banksman config": it checks the files that
// programs are set by, and writes the page about them.
package config

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/cmd/banksman/internal/up"
	"github.com/banksman/banksman/pkg/settings"
	agent "github.com/banksman/banksman/services/agent/settings"
	gateway "github.com/banksman/banksman/services/gateway/settings"
	"github.com/banksman/banksman/services/notifier"
	notify "github.com/banksman/banksman/services/notifier/settings"
)

const usage = `banksman config checks settings before a program is started with them.

  banksman config check WHAT FILE    WHAT is up, gateway, agent, notifier (a file of
                                     settings) or channels (whom the notifier tells)
  banksman config check WHAT         the environment as it is here, without a file

It reads what the settings name (credentials, secrets) and connects to nothing. The
exit code is 0 if the program would take them, and 2 if not.
`

// Command is "banksman config"; it returns the exit code.
func Command(_ context.Context, args []string, stdio cli.Stdio) int {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
		fmt.Fprint(stdio.Out, usage)
		return cli.ExitOK
	}
	err := errors.New("unknown command " + fmt.Sprintf("%q", args[0]))
	switch args[0] {
	case "check":
		err = check(args[1:], stdio)
	case "page": // docs/configuration.md is made with it
		if err = page(stdio.Out); err == nil {
			return cli.ExitOK
		}
	}
	if err != nil {
		fmt.Fprintln(stdio.Err, "banksman config:", err)
		return cli.ExitError
	}
	fmt.Fprintln(stdio.Out, "ok")
	return cli.ExitOK
}

// checks read the settings of each program, as the program does.
var checks = map[string]func(args, environ []string, stdio cli.Stdio) error{
	"up": func(args, environ []string, stdio cli.Stdio) error {
		_, err := up.Parse(args, environ, stdio)
		return err
	},
	"gateway": func(args, environ []string, _ cli.Stdio) error {
		_, err := gateway.Parse(args, environ, io.Discard)
		return err
	},
	"agent": func(args, environ []string, _ cli.Stdio) error {
		_, err := agent.Parse(args, environ, io.Discard)
		return err
	},
	"notifier": func(args, environ []string, _ cli.Stdio) error {
		_, err := notify.Parse(args, environ, io.Discard)
		return err
	},
}

func check(args []string, stdio cli.Stdio) error {
	if len(args) == 0 || len(args) > 2 {
		return errors.New("check: want what to check, and its file; see banksman config --help")
	}
	if args[0] == "channels" {
		if len(args) == 1 {
			return errors.New("check channels: want a file")
		}
		_, err := notifier.LoadConfig(args[1])
		return err
	}
	read := checks[args[0]]
	if read == nil {
		return fmt.Errorf("check: %q is none of up, gateway, agent, notifier and channels", args[0])
	}
	var rest []string
	if len(args) == 2 {
		rest = []string{"-" + settings.FileFlag, args[1]}
	}
	return read(rest, os.Environ(), stdio)
}

const intro = `<!-- Made by "go generate" from the programs' flags; change those. -->
# Configuration

Each program is set by flags, by the environment and by a YAML file. For each setting
the first of these counts that names it:

1. the command line: ` + "`-listen 127.0.0.1:9000`" + `
2. the environment: ` + "`BANKSMAN_GATEWAY_LISTEN=127.0.0.1:9000`" + `; an empty variable counts as
   none, and a setting that may be repeated takes one value from each line
3. the file that ` + "`-settings`" + ` (or ` + "`BANKSMAN_GATEWAY_SETTINGS`" + `) names:

   ` + "```yaml" + `
   listen: 127.0.0.1:9000
   origin: [https://wiki.example.org, https://shop.example.org]
   ` + "```" + `
4. the default

A list of one place replaces that of another; they are not joined. A name that no setting
has is an error everywhere, which says what may have been meant, and in a file where it
stands; variables that Kubernetes makes of a service's name are let pass. A program that
cannot take its settings does not start.

**No setting takes a secret.** Secrets are files that a setting names, mode 0600:
credentials, the client secret of an issuer. What the notifier tells people by is in a
file of its own: [notifications.md](notifications.md).

    banksman config check gateway /etc/banksman/gateway.yaml
    banksman config check channels /etc/banksman/notify.yaml

reads settings as the program would, the environment of the shell included, and ends with
code 2 and the reason if they cannot be taken. ` + "`-check`" + ` of a program does the same where it is,
and a program that cannot take its settings ends with code 2, too; any other failure is 1.
Durations are written like ` + "`90s`, `5m` or `1h30m`" + `.
`

// page writes docs/configuration.md.
func page(w io.Writer) error {
	var b strings.Builder
	b.WriteString(intro)
	for _, p := range []struct {
		title, about string
		set          *settings.Set
	}{
		{"banksman up", "Everything in one process, on this machine.", up.Flags()},
		{"banksman-gateway", "The gateway as a process of its own.", gateway.Flags()},
		{"banksman-agent", "A worker as a process of its own.", agent.Flags()},
		{"banksman-notifier", "The notifier as a process of its own.", notify.Flags()},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| setting | in the environment | default | |\n|---|---|---|---|\n", p.title, p.about)
		p.set.VisitAll(func(f *flag.Flag) {
			arg, text := flag.UnquoteUsage(f)
			name := "`-" + f.Name
			if arg != "" {
				name += " " + arg
			}
			def := "`" + f.DefValue + "`"
			if slices.Contains([]string{"", "false", "0", "0s"}, f.DefValue) {
				def = ""
			}
			fmt.Fprintf(&b, "| %s` | `%s` | %s | %s |\n", name, p.set.Env(f.Name), def, strings.ReplaceAll(text, "|", `\|`))
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}
