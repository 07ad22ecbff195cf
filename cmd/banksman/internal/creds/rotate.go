package creds

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/natsd"
)

const rotateUsage = `banksman creds rotate gives something a new key; the old one counts beside it
until it is dropped.

  banksman creds rotate decision-key              gateways sign with a new key
  banksman creds rotate decision-key --announce   make that key known only: do this
                                                  first if credential files were
                                                  copied to other machines
  banksman creds rotate NAME                      a new key to connect with; NAME is a
                                                  credential file without its .json:
                                                  owner-ci, gateway, notifier ...
  banksman creds rotate ... --drop-old            the old key no longer counts

`

const decisionKey = "decision-key"

// rotate is "banksman creds rotate".
func rotate(args []string, stdio cli.Stdio) int {
	fs := flag.NewFlagSet("banksman creds rotate", flag.ContinueOnError)
	fs.SetOutput(stdio.Err)
	fs.Usage = func() {
		fmt.Fprint(stdio.Err, rotateUsage)
		fs.PrintDefaults()
	}
	dir := fs.String("data", stdio.DataDir, "data `directory` (default as of banksman up)")
	drop := fs.Bool("drop-old", false, "the old key no longer counts")
	announce := fs.Bool("announce", false, "make the next decision key known and go on signing with the present one")
	names, err := parseNames(fs, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return cli.ExitOK
	case err != nil:
		return cli.ExitError
	}
	fail := func(err error) int {
		fmt.Fprintln(stdio.Err, "banksman creds rotate:", err)
		return cli.ExitError
	}
	switch {
	case len(names) != 1:
		return fail(errors.New("name one thing (banksman creds rotate -h)"))
	case *announce && *drop:
		return fail(errors.New("--announce and --drop-old are different steps"))
	case *announce && names[0] != decisionKey:
		return fail(errors.New("--announce is for the decision key; other keys are known to the server only"))
	}
	if *dir == "" {
		if *dir, err = cli.DefaultDataDir(); err != nil {
			return fail(err)
		}
	}
	if names[0] == decisionKey {
		err = rotateDecisionKey(stdio.Out, *dir, *announce, *drop)
	} else {
		err = rotateIdentity(stdio.Out, *dir, names[0], *drop)
	}
	if err != nil {
		return fail(err)
	}
	return cli.ExitOK
}

const (
	reload = `The server takes this over without a restart: that of banksman up by itself
within a second; your own with nats-server --signal reload=PID, on each node of a
cluster after accounts.conf was copied there.
`
	followed = `Gateways and askers look at their credential file for each decision and need no
restart. Copies of these files on other machines must be exchanged`
)

func rotateDecisionKey(out io.Writer, dir string, announce, drop bool) error {
	step := natsd.RotateDecisionKey
	switch {
	case announce:
		step = natsd.AnnounceDecisionKey
	case drop:
		step = natsd.DropDecisionKeys
	}
	keys, err := step(dir)
	if err != nil {
		return err
	}
	for _, set := range []map[string]string{keys.Accepted, keys.Dropped} {
		for _, id := range slices.Sorted(maps.Keys(set)) {
			what := "accepted, no longer signs"
			switch {
			case id == keys.Signing:
				what = "signs"
			case id == keys.Next:
				what = "accepted, will sign next"
			case keys.Dropped[id] != "":
				what = "dropped"
			}
			fmt.Fprintf(out, "%s  %s  %s\n", id, set[id], what)
		}
	}
	fmt.Fprintf(out, "\n%s", followed)
	switch {
	case announce:
		fmt.Fprintf(out, " now, all of %s:\nwho does not know the next key takes nothing that it signed. Then run\n  banksman creds rotate decision-key\n", filepath.Join(dir, "creds"))
	case drop:
		fmt.Fprint(out, ":\nuntil then they accept what the old key signed. The gateway's file keeps the\npublic half to read the record. What was decided under it before is no answer\nfor an asker any more. Keep the line above: an export of that time is checked\nwith banksman verify --key.\n")
	default:
		fmt.Fprint(out, ":\nfirst the askers' and the notifier's, last the gateways'. Once no asker waits on a\ndecision of the old key any more:\n  banksman creds rotate decision-key --drop-old\n")
	}
	return nil
}

func rotateIdentity(out io.Writer, dir, name string, drop bool) error {
	if drop {
		if err := natsd.DropOldKeys(dir, name); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: the old key no longer counts.\n\n%sWhoever is still connected with the old key is cut off, and ends.\n", name, reload)
		return nil
	}
	if err := natsd.RotateKey(dir, name); err != nil {
		return err
	}
	fmt.Fprintf(out, `%s: new key in %s; the old one counts too.

%sThen give the file to whoever uses it, in place of the old one, and restart that
program: a connection keeps the key it was made with. After that:
  banksman creds rotate %s --drop-old
`, name, filepath.Join(dir, "creds", name+".json"), reload, name)
	return nil
}
