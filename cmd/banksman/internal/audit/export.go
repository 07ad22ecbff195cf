package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/cmd/banksman/internal/cli"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/wire"
)

// connectWait is how long an export waits for the server.
const connectWait = 10 * time.Second

func exportCommand(ctx context.Context, args []string, stdio cli.Stdio) int {
	fs, data, creds := flags("export", stdio)
	server := fs.String("nats", "", "server `address`, in place of the credential file's")
	var since, until *time.Time
	at := func(to **time.Time) func(string) error {
		return func(text string) error {
			t, err := moment(text)
			*to = &t
			return err
		}
	}
	fs.Func("since", "from this `time` on", at(&since))
	fs.Func("until", "before this `time`", at(&until))
	rest, err := parse(fs, args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("what is %q?", rest[0])
	}
	if err == nil && since != nil && until != nil && !since.Before(*until) {
		err = errors.New("--since is not before --until")
	}
	if err == nil && *data == "" {
		*data, err = cli.DefaultDataDir()
	}
	if err != nil {
		return fail(stdio, err)
	}
	if *creds == "" {
		*creds = natsd.CredentialsFile(*data, bus.RoleGateway, "", "")
	}
	cred, err := bus.LoadCredentials(*creds)
	if err != nil {
		return fail(stdio, fmt.Errorf("%w (the record is read with a gateway's credential: --creds)", err))
	}
	if cred.Role != bus.RoleGateway {
		return fail(stdio, fmt.Errorf("%s is the credential of a %s: the whole record takes a gateway's", *creds, cred.Role))
	}
	if *server != "" {
		cred.URLs = []string{*server}
	}
	option, err := cred.Auth()
	if err != nil {
		return fail(stdio, err)
	}
	nc, err := nats.Connect(strings.Join(cred.URLs, ","), option, nats.Name("banksman audit"), nats.Timeout(connectWait))
	if err != nil {
		return fail(stdio, fmt.Errorf("no answer from %s: %w", strings.Join(cred.URLs, ", "), err))
	}
	defer nc.Close()
	records := journal.New(nc, journal.Options{
		Keys: cred.PublicDecisionKeys(), Logger: slog.New(slog.NewTextHandler(stdio.Err, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	n, last, err := export(ctx, records, stdio.Out, since, until)
	if err != nil {
		return fail(stdio, fmt.Errorf("the file is not whole: %w", err))
	}
	say(stdio.Err, "%d decisions. Keep this elsewhere: --head %s", n, last)
	return cli.ExitOK
}

// export writes the file and returns how many decisions it has and the digest
// of its last line.
func export(ctx context.Context, records *journal.JetStream, out io.Writer, since, until *time.Time) (n int, last string, err error) {
	at, err := records.Position(ctx, journal.Decisions)
	if err != nil {
		return 0, "", err
	}
	w := bufio.NewWriter(out)
	prev, number := first, 0
	write := func(l line) error {
		l.N, l.Prev = number, prev
		raw, err := hitl.Marshal(l)
		if err != nil {
			return err
		}
		number, prev = number+1, digest(raw)
		_, err = w.Write(append(raw, '\n'))
		return err
	}
	err = write(line{Head: &head{V: 1, ExportedAt: at.Now.UTC(), Since: since, Until: until, Record: at.Created.UTC()}})
	if err != nil {
		return 0, "", err
	}
	err = records.Read(ctx, journal.Decisions, 1, nil, func(m journal.Message) error {
		if since != nil && m.Time.Before(*since) || until != nil && !m.Time.Before(*until) {
			return nil
		}
		n++
		return write(line{Decision: &wire.Evidence{
			V: 1, Subject: m.Subject, Signer: header(m, hitl.HeaderSigner), Signature: header(m, hitl.HeaderSignature),
			Decision: m.Data, Seq: strconv.FormatUint(m.Seq, 10), StoredAt: m.Time.UTC().Format(time.RFC3339Nano),
		}})
	})
	if err == nil {
		err = write(line{End: &end{Decisions: n}})
	}
	return n, prev, errors.Join(err, w.Flush())
}

func header(m journal.Message, key string) string {
	if v := m.Header[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}
