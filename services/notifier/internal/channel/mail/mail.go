// Package mail sends alerts over SMTP, each as a text and an HTML part.
//
// An alert's Message-ID comes from its id, so a repeated one can be known as
// such. All mails about one request refer to the same ancestor, by which readers
// put them into one thread; that ancestor was never sent.
package mail

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net"
	netmail "net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// timeout bounds one attempt, from the name's resolution to the last answer.
const timeout = 10 * time.Second

// Options describe a server and the sender.
type Options struct {
	// URL is smtp://host:587, where TLS is begun by STARTTLS and must be, or
	// smtps://host:465. AllowPrivate admits private addresses, and servers that
	// offer no TLS; a password is sent to none of those but on this machine.
	URL          string
	AllowPrivate bool
	// User and Password log in; both may be empty.
	User, Password string
	// From is the sender: an address, or a name with one.
	From string
	// Roots are who vouches for the server; nil: those of the machine.
	Roots *x509.CertPool
}

// Channel sends through one server. Each mail has a connection of its own.
type Channel struct {
	host     string
	port     int
	implicit bool // TLS from the first byte
	from     *netmail.Address
	o        Options
}

var _ channel.Channel = (*Channel)(nil)

// New checks the options. The error, if any, is a *channel.FieldError.
func New(o Options) (*Channel, error) {
	fail := func(field, problem string) (*Channel, error) {
		return nil, &channel.FieldError{Field: field, Problem: problem}
	}
	if o.URL == "" {
		return fail("url", "missing")
	}
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps":
		return fail("url", "not an address such as smtp://mail.example.com:587 or smtps://mail.example.com:465")
	case u.User != nil:
		return fail("url", "must not contain a user or password: there are fields for them")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return fail("url", "must end with the port")
	case (o.User == "") != (o.Password == ""):
		return fail("password", "user and password belong together")
	}
	c := &Channel{host: u.Hostname(), implicit: u.Scheme == "smtps", o: o}
	if c.port, err = strconv.Atoi(cmp.Or(u.Port(), map[bool]string{true: "465", false: "587"}[c.implicit])); err != nil || c.port < 1 || c.port > 65535 {
		return fail("url", "has no usable port")
	}
	if o.From == "" {
		return fail("from", "missing: who the mails come from")
	}
	if c.from, err = netmail.ParseAddress(o.From); err != nil {
		return fail("from", `not an address such as "Banksman <banksman@example.com>"`)
	}
	return c, nil
}

// CheckTo says what is wrong with a recipient's address; empty: nothing.
func CheckTo(to string) string {
	if a, err := netmail.ParseAddress(to); err != nil || a.Address != to {
		return "not a mail address such as ada@example.com"
	}
	return ""
}

// Send sends one mail.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	m, err := c.compose(&a)
	if err != nil {
		return channel.Receipt{}, &channel.Problem{Text: "the mail cannot be made", Class: channel.Refused}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var conn net.Conn
	client, err := c.client(&conn)
	if err != nil {
		return channel.Receipt{}, &channel.Problem{Text: "the mail server's configuration cannot be used", Class: channel.Refused}
	}
	dialled, err := client.DialToSMTPClientWithContext(ctx)
	if conn != nil {
		// The library leaves a connection open that failed before it was logged in,
		// and does not look at the context afterwards.
		defer func() { _ = conn.Close() }()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
	}
	if err != nil {
		return channel.Receipt{}, c.problem(err)
	}
	err = client.SendWithSMTPClient(dialled, m)
	if !m.IsDelivered() {
		return channel.Receipt{}, c.problem(err)
	}
	_ = dialled.Quit() // it is delivered, whatever comes of the goodbye
	return channel.Receipt{Said: "the mail server has taken it"}, nil
}

func (c *Channel) client(conn *net.Conn) (*mail.Client, error) {
	config := &tls.Config{ServerName: c.host, RootCAs: c.o.Roots, MinVersion: tls.VersionTLS12}
	policy := mail.TLSMandatory
	switch {
	case c.implicit:
		policy = mail.NoTLS // it is there already
	case c.o.AllowPrivate:
		policy = mail.TLSOpportunistic
	}
	options := []mail.Option{
		mail.WithPort(c.port), mail.WithTimeout(timeout), mail.WithTLSPolicy(policy), mail.WithTLSConfig(config), mail.WithoutNoop(), mail.WithoutRset(),
		mail.WithDialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := web.Dialer(c.o.AllowPrivate).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			*conn = raw
			if c.implicit {
				t := tls.Client(raw, config)
				if err := t.HandshakeContext(ctx); err != nil {
					return nil, err
				}
				*conn = t
			}
			return *conn, nil
		}),
	}
	if c.o.User != "" {
		options = append(options, mail.WithSMTPAuthCustom(&login{user: c.o.User, password: c.o.Password, host: c.host}))
	}
	return mail.NewClient(c.host, options...)
}

// login takes the way of logging in that the server offers. None of them sends
// the password without TLS, unless to this machine.
type login struct {
	smtp.Auth
	user, password, host string
}

func (l *login) Start(s *smtp.ServerInfo) (string, []byte, error) {
	for _, offer := range s.Auth {
		switch strings.ToUpper(offer) {
		case "PLAIN":
			l.Auth = smtp.PlainAuth("", l.user, l.password, l.host, false)
			return l.Auth.Start(s)
		case "LOGIN":
			l.Auth = smtp.LoginAuth(l.user, l.password, l.host, false)
			return l.Auth.Start(s)
		}
	}
	return "", nil, errLogin
}

// noSuchAddress are the status codes that say of the recipient's address that it takes
// nothing: not 5.1.7 and 5.1.8, which are about the sender's, nor 5.1.9, about a relay.
//
//	https://www.iana.org/assignments/smtp-enhanced-status-codes
var noSuchAddress = []string{"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"}

// errLogin: neither PLAIN nor LOGIN is offered.
var errLogin = errors.New("no known way of logging in is offered")

// problem words a failure without the server's own text, which may quote what it
// was sent.
func (c *Channel) problem(err error) *channel.Problem {
	p := &channel.Problem{Text: "mail server " + net.JoinHostPort(c.host, strconv.Itoa(c.port)) + ": "}
	var se *mail.SendError
	if errors.As(err, &se) {
		code := se.ErrorCode()
		p.Text += se.Reason.String()
		switch {
		case code >= 400 && code <= 499:
			p.Text += fmt.Sprintf(": answered %d", code)
		case code >= 500:
			p.Text += fmt.Sprintf(": answered %d", code)
			p.Class = channel.Refused
			if se.Reason == mail.ErrSMTPRcptTo && slices.Contains(noSuchAddress, se.EnhancedStatusCode()) {
				p.Class = channel.Gone
			}
		default:
			p.Text += ": no answer"
			p.Unknown = se.Reason == mail.ErrWriteContent || se.Reason == mail.ErrSMTPDataClose
		}
		return p
	}
	switch text := err.Error(); {
	case errors.Is(err, errLogin):
		p.Text, p.Class = p.Text+errLogin.Error(), channel.Refused
	case strings.Contains(text, "SMTP AUTH failed: 4"):
		p.Text += "logging in failed for now"
	case strings.Contains(text, "SMTP AUTH"), strings.Contains(text, "AUTH failed"):
		p.Text, p.Class = p.Text+"logging in was refused", channel.Refused
	case strings.Contains(text, "does not support STARTTLS"):
		p.Text, p.Class = p.Text+"it offers no TLS (allow_private admits such servers)", channel.Refused
	default:
		p.Text += web.Reason(err)
	}
	return p
}

// compose makes the mail.
func (c *Channel) compose(a *channel.Alert) (*mail.Msg, error) {
	w := words.Of(a)
	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	m.FromMailAddress(c.from)
	if err := m.To(a.To); err != nil {
		return nil, err
	}
	m.Subject(w.Head)
	m.SetDate()
	_, domain, _ := strings.Cut(c.from.Address, "@")
	m.SetMessageIDWithValue(a.ID + "@" + domain)
	ancestor := sha256.Sum256([]byte("banksman thread\x00" + a.Key + "\x00" + a.To))
	thread := "<thread_" + hex.EncodeToString(ancestor[:16]) + "@" + domain + ">"
	m.SetGenHeader(mail.HeaderReferences, thread)
	m.SetGenHeader(mail.HeaderInReplyTo, thread)
	m.SetGenHeader("Auto-Submitted", "auto-generated") // so that no vacation answers
	if words.Level(a) >= 3 {
		m.SetImportance(mail.ImportanceHigh)
	}
	m.SetBodyString(mail.TypeTextPlain, w.Plain()+"\n")
	var b bytes.Buffer
	if err := page.Execute(&b, w); err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	m.AddAlternativeString(mail.TypeTextHTML, b.String())
	return m, nil
}

// page escapes everything it is given, the link included.
var page = template.Must(template.New("mail").Parse(`<!doctype html>
<html lang="en"><body style="font-family:sans-serif;line-height:1.5;max-width:40em">
<p style="font-size:1.15em"><b>{{.Head}}</b></p>
{{if .Quote}}<p>In the agent's words:</p><blockquote style="margin:0 0 1em;padding:0 1em;border-left:3px solid #999">{{.Quote}}</blockquote>{{end}}
<table>{{range .Facts}}<tr><td style="padding-right:1em;color:#666">{{.Name}}</td><td>{{.Value}}</td></tr>{{end}}</table>
{{if .Link}}<p><a href="{{.Link}}">{{.Label}}</a><br><small>{{.Link}}</small></p>{{end}}
</body></html>
`))
