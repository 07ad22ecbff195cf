// Package settings makes the options of a notifier from its command line, the
// environment and a file. Whom it tells is in a file of its own.
package settings

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/settings"
	"github.com/banksman/banksman/services/notifier"
)

// Notifier is what the settings of one notifier say.
type Notifier struct {
	notifier.Options
	*settings.Common
}

func set(n *Notifier) (fs *settings.Set, finish func(stderr io.Writer) error) {
	fs = settings.New("banksman-notifier")
	creds := fs.String("creds", "", "credential `file` of a notifier (required)")
	n.Common = fs.Common(slog.LevelInfo)
	config := fs.String("config", "", "`file` with channels, people and routes, YAML or JSON (default: a log, and pushes to the browsers of whoever may decide)")
	fs.StringVar(&n.BaseURL, "base-url", "", "`URL` that people use, for links (default: alerts have none)")
	return fs, func(stderr io.Writer) (err error) {
		if *creds == "" {
			return errors.New("-creds is missing: name the credential file of a notifier")
		}
		if n.Credentials, err = bus.LoadCredentials(*creds); err != nil {
			return fmt.Errorf("-creds: %w", err)
		}
		if *config != "" {
			if n.Config, err = notifier.LoadConfig(*config); err != nil {
				return fmt.Errorf("-config: %w", err)
			}
		}
		if n.Logger, err = n.Log(stderr); err != nil {
			return err
		}
		return n.Validate()
	}
}

// Flags are the flags themselves, for who explains them.
func Flags() *settings.Set {
	fs, _ := set(&Notifier{})
	return fs
}

// Parse reads the settings; environ is as of os.Environ. It writes to stderr
// only the help, where that is asked for; the log goes there as well.
func Parse(args, environ []string, stderr io.Writer) (Notifier, error) {
	var n Notifier
	fs, finish := set(&n)
	if err := fs.ParseOrHelp(args, environ, "usage: banksman-notifier [flags]\n\n", stderr); err != nil {
		return n, err
	}
	return n, finish(stderr)
}
