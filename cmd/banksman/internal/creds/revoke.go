package creds

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/natsd"
)

const revokeUsage = `banksman creds revoke takes all access away from an owner or a caller. The
connections it has are cut, and its credential file no longer counts.

  banksman creds revoke NAME      NAME is a credential file without its .json:
                                  owner-ci, caller-bot ...

What it has asked stays on record, and ends by its deadlines. Everybody else goes on.
To let it in again, with another key: banksman creds --owner (or --caller).

`

// revoke is "banksman creds revoke".
func revoke(args []string, stdio cli.Stdio) int {
	fs := flag.NewFlagSet("banksman creds revoke", flag.ContinueOnError)
	fs.SetOutput(stdio.Err)
	fs.Usage = func() {
		fmt.Fprint(stdio.Err, revokeUsage)
		fs.PrintDefaults()
	}
	dir := fs.String("data", stdio.DataDir, "data `directory` (default as of banksman up)")
	names, err := parseNames(fs, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return cli.ExitOK
	case err != nil:
		return cli.ExitError
	}
	if len(names) != 1 {
		err = errors.New("name one owner or caller (banksman creds revoke -h)")
	} else if *dir == "" {
		*dir, err = cli.DefaultDataDir()
	}
	if err == nil {
		err = natsd.Revoke(*dir, names[0])
	}
	if err != nil {
		fmt.Fprintln(stdio.Err, "banksman creds revoke:", err)
		return cli.ExitError
	}
	fmt.Fprintf(stdio.Out, "%s: revoked, and %s is removed.\n\n%sThen its connections are cut, and it cannot connect again.\n",
		names[0], filepath.Join(*dir, "creds", names[0]+".json"), reload)
	return cli.ExitOK
}

// parseNames reads flags that may stand before and after the names.
func parseNames(fs *flag.FlagSet, args []string) (names []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			return names, nil
		}
		names, args = append(names, fs.Arg(0)), fs.Args()[1:]
	}
}
