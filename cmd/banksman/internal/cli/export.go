package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

const exportUsage = `export KEY [--out FILE]

Writes one decision as it stands in the record, to standard output or a file
that banksman verify checks. KEY is tenant.owner.id; the id alone is enough for
an owner's own. Without --creds the gateway's credential in the data directory
is used; an owner's credential reads that owner's decisions. Where the gateway's
credential is not at hand, and with --login, a gateway is asked, as the person
who confirmed banksman login --cli; there the id alone is enough too.`

// Export is the command export.
func Export(ctx context.Context, args []string, stdio Stdio) int {
	c := newCommand("export", exportUsage, stdio)
	out := c.flags.String("out", "", "`file` to write, mode 0600 (default standard output)")
	login := c.flags.String("login", "", "login `file` (default cli-login.json in the data directory)")
	rest, err := c.parse(args)
	if err != nil {
		return c.fail(err)
	}
	if len(rest) != 1 {
		return c.fail(errors.New("needs one interaction (banksman export -h)"))
	}
	var e *wire.Evidence
	gateways := natsd.CredentialsFile(c.data, bus.RoleGateway, "", "")
	if _, err := os.Stat(gateways); *login != "" || c.creds == "" && errors.Is(err, fs.ErrNotExist) {
		e, err = c.asked(ctx, *login, rest[0])
		if err != nil {
			return c.fail(err)
		}
	} else if e, err = c.read(ctx, cmp.Or(c.creds, gateways), rest[0]); err != nil {
		return c.fail(err)
	}
	if *out != "" {
		err = writeFile(*out, e)
	} else {
		err = c.print(e)
	}
	if err != nil {
		return c.fail(err)
	}
	return ExitOK
}

// asked has a gateway read the decision, for the person who signed in.
func (c *command) asked(ctx context.Context, login, key string) (*wire.Evidence, error) {
	client, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	token, err := Token(c.loginFile(login))
	if err != nil {
		return nil, err
	}
	return call(ctx, func(ctx context.Context) (*wire.Evidence, error) {
		return client.Export(ctx, wire.ExportCall{ID: key, Token: token})
	})
}

// read reads the decision with the credential in a file.
func (c *command) read(ctx context.Context, path, key string) (*wire.Evidence, error) {
	cred, err := bus.LoadCredentials(path)
	if err != nil {
		return nil, err
	}
	if c.nats != "" {
		cred.URLs = []string{c.nats}
	}
	ref, ok := subject.ParseRef(key)
	if !ok && cred.Role == bus.RoleOwner && !strings.Contains(key, ".") {
		ref, ok = subject.NewRef(cred.Tenant, cred.Name, key), true
	}
	if !ok {
		return nil, fmt.Errorf("%q is not of the form tenant.owner.id", key)
	}
	return fetch(ctx, cred, ref)
}

// fetch reads a decision from the record.
func fetch(ctx context.Context, cred *bus.Credentials, ref subject.Ref) (*wire.Evidence, error) {
	auth, err := cred.Auth()
	if err != nil {
		return nil, err
	}
	refused := make(chan error, 1)
	nc, err := nats.Connect(strings.Join(cred.URLs, ","), auth, nats.Name("banksman export"), nats.Timeout(connectWait),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case refused <- err:
			default:
			}
		}))
	if err != nil {
		return nil, fmt.Errorf("no answer from %s: %w", strings.Join(cred.URLs, ", "), err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	type answer struct {
		m   *nats.Msg
		err error
	}
	answered := make(chan answer, 1)
	subj := subject.Decision(ref)
	go func() {
		m, err := nc.RequestWithContext(ctx, subject.Direct(journal.Decisions, subj), nil)
		answered <- answer{m, err}
	}()
	var got answer
	select {
	case err := <-refused:
		cancel()
		<-answered
		return nil, fmt.Errorf("this credential may not read that decision: %w", err)
	case got = <-answered:
	}
	if got.err != nil {
		return nil, fmt.Errorf("read the record: %w", got.err)
	}
	if len(got.m.Data) == 0 {
		return nil, fmt.Errorf("%s has no decision in the record", ref)
	}
	h := got.m.Header
	return &wire.Evidence{
		V: 1, Subject: subj, Signer: h.Get(hitl.HeaderSigner), Signature: h.Get(hitl.HeaderSignature),
		Decision: got.m.Data, Seq: h.Get("Nats-Sequence"), StoredAt: h.Get("Nats-Time-Stamp"),
	}, nil
}

// readEvidence reads an exported file.
func readEvidence(path string) (*wire.Evidence, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > 2*journal.MaxDecisionMsg {
		return nil, fmt.Errorf("%s: %d bytes are more than any decision has", path, info.Size())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := hitl.CheckJSON(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var e wire.Evidence
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return nil, fmt.Errorf("%s: not an exported decision: %w", path, err)
	}
	if e.V != 1 {
		return nil, fmt.Errorf("%s: v: unknown version %d, this build reads 1", path, e.V)
	}
	return &e, nil
}

func when(t time.Time) string { return t.UTC().Format(time.RFC3339) }
