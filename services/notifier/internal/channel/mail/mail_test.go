package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
	gosmtp "github.com/wneessen/go-mail/smtp"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	user     = "banksman"
	password = "PASSWORDSECRET"
	// chatty is what the server says beside its codes; nobody is to repeat it.
	chatty = "ANSWERSECRET"
)

// server speaks SMTP by a library that mail servers are made of, with STARTTLS
// and logging in, and keeps what it gets.
type server struct {
	url    string
	roots  *x509.CertPool
	silent chan struct{} // closed with the test

	mu     sync.Mutex
	next   channeltest.Answer
	mails  []received
	logins []string          // "user over TLS" and the like
	rcpt   smtp.EnhancedCode // what recipients are refused with; empty: they are not
}

type received struct {
	from, to   string
	head       netmail.Header
	text, html string
	overTLS    bool
}

// how a server is; the zero value begins TLS by STARTTLS.
type how struct{ implicit, plain, noAuth bool }

func newServer(t *testing.T, h how) *server {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate, which is good for 127.0.0.1
	web.Close()
	s := &server{silent: make(chan struct{}), roots: x509.NewCertPool()}
	s.roots.AddCert(web.Certificate())
	config := &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.url = "smtp://" + listener.Addr().String()
	smtpd := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		if h.noAuth {
			return &session{s: s, c: c}, nil
		}
		return &authSession{session{s: s, c: c}}, nil
	}))
	smtpd.ErrorLog = log.New(io.Discard, "", 0)
	smtpd.AllowInsecureAuth = true
	switch {
	case h.implicit:
		listener = tls.NewListener(listener, config)
		s.url = "smtps" + strings.TrimPrefix(s.url, "smtp")
	case !h.plain:
		smtpd.TLSConfig = config
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = smtpd.Serve(listener) // ends with Close
	}()
	t.Cleanup(func() {
		close(s.silent)
		_ = smtpd.Close()
		_ = listener.Close() // Close does not know of it before Serve has begun
		<-done
	})
	return s
}

type session struct {
	s        *server
	c        *smtp.Conn
	from, to string
}

type authSession struct{ session }

func (a *authSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (a *authSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, u, p string) error {
		a.s.mu.Lock()
		defer a.s.mu.Unlock()
		if u != user || p != password {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: chatty + " " + p}
		}
		a.s.logins = append(a.s.logins, u)
		return nil
	}), nil
}

func (s *session) Reset()                                      {}
func (s *session) Logout() error                               { return nil }
func (s *session) Mail(from string, _ *smtp.MailOptions) error { s.from = from; return nil }

func (s *session) answer() channeltest.Answer {
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	return s.s.next
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	if s.answer() == channeltest.Gone {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: chatty}
	}
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	if s.s.rcpt != (smtp.EnhancedCode{}) {
		return &smtp.SMTPError{Code: 550, EnhancedCode: s.s.rcpt, Message: chatty}
	}
	return nil
}

func (s *session) Data(r io.Reader) error {
	m, err := read(r)
	if err != nil {
		return err
	}
	m.from, m.to = s.from, s.to
	_, m.overTLS = s.c.TLSConnectionState()
	s.s.mu.Lock()
	s.s.mails = append(s.s.mails, *m)
	s.s.mu.Unlock()
	switch s.answer() {
	case channeltest.Later:
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: chatty}
	case channeltest.Refuse:
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: chatty}
	case channeltest.Silent:
		<-s.s.silent
	}
	return nil
}

// read takes a mail apart with the standard library, which knows nothing of the
// one that made it.
func read(r io.Reader) (*received, error) {
	m, err := netmail.ReadMessage(r)
	if err != nil {
		return nil, err
	}
	got := &received{head: m.Header}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for {
		p, err := parts.NextRawPart()
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(p.Header.Get("Content-Type"), "text/html") {
			got.html = string(body)
		} else {
			got.text = strings.ReplaceAll(string(body), "\r\n", "\n")
		}
	}
}

func (s *server) options() Options {
	return Options{URL: s.url, AllowPrivate: true, User: user, Password: password, From: "Banksman <banksman@example.com>", Roots: s.roots}
}

func open(t *testing.T, o Options) *Channel {
	t.Helper()
	c, err := New(o)
	require.NoError(t, err)
	return c
}

func (s *server) Channel(t *testing.T) channel.Channel { t.Helper(); return open(t, s.options()) }

func (s *server) Next(a channeltest.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = a
}

func (s *server) Received() []channeltest.Received {
	var out []channeltest.Received
	for _, m := range s.all() {
		out = append(out, channeltest.Received{ID: m.head.Get("Message-Id"), Text: m.head.Get("Subject") + "\n" + m.text})
	}
	return out
}

func (s *server) all() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mails
}

func TestConformance(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, channeltest.Options{
		New: func(t *testing.T) channeltest.Receiver { return newServer(t, how{}) },
		Can: []channeltest.Answer{
			channeltest.Take, channeltest.Later, channeltest.Refuse, channeltest.Gone, channeltest.Silent,
		},
		Secrets: []string{password, chatty},
		Keyed:   true, NoRetryAfter: true,
	})
}

// Both parts say the same, the text of an agent is none of the markup, and makes
// no header of its own.
func TestMailIsTextAndHTMLAndNothingOfTheAgentIsEither_B71_invariant10(t *testing.T) {
	t.Parallel()
	s := newServer(t, how{})
	a := channeltest.Alert(channel.Opened)
	a.Data.Headline = "build-7 wants\r\nBcc: eve@evil.test\r\n\r\n<script>alert(1)</script>"
	_, err := s.Channel(t).Send(t.Context(), a)
	require.NoError(t, err)
	m := s.all()[0]
	require.Equal(t, "banksman@example.com", m.from)
	require.Equal(t, "ada@example.org", m.to)
	require.Equal(t, `"Banksman" <banksman@example.com>`, m.head.Get("From"))
	require.Equal(t, "<ada@example.org>", m.head.Get("To"))
	require.Empty(t, m.head.Get("Bcc"))
	subject, err := new(mime.WordDecoder).DecodeHeader(m.head.Get("Subject"))
	require.NoError(t, err)
	require.Equal(t, "build-7 wants Bcc: eve@evil.test <script>alert(1)</script>", subject)
	require.Equal(t, "auto-generated", m.head.Get("Auto-Submitted"))
	require.Contains(t, m.text, "In the agent's words: <b>bold</b> *stars*")
	require.Contains(t, m.html, "&lt;b&gt;bold&lt;/b&gt; *stars*")
	require.Contains(t, m.html, `<a href="https://banksman.test/#/i/t.o.i">Review</a>`)
	for _, markup := range []string{"<script", "<b>bold", `href="https://evil.test"`} {
		require.NotContains(t, m.html, markup)
	}
}

// A reminder and the end stand in one thread with the first mail, each with an
// id of its own.
func TestMailsAboutOneRequestAreOneThread_B67(t *testing.T) {
	t.Parallel()
	s := newServer(t, how{})
	c := s.Channel(t)
	for _, typ := range []string{channel.Opened, channel.Reminder, channel.Closed} {
		_, err := c.Send(t.Context(), channeltest.Alert(typ))
		require.NoError(t, err)
	}
	other := channeltest.Alert(channel.Opened)
	other.Key = "t.o.other"
	_, err := c.Send(t.Context(), other)
	require.NoError(t, err)
	all := s.all()
	ids := map[string]bool{}
	for _, m := range all {
		ids[m.head.Get("Message-Id")] = true
		require.Regexp(t, `^<thread_[0-9a-f]{32}@example\.com>$`, m.head.Get("In-Reply-To"))
		require.Equal(t, m.head.Get("In-Reply-To"), m.head.Get("References"))
	}
	require.Len(t, ids, 3, "the other request has the id of the first mail, which the test gave it")
	require.Equal(t, all[0].head.Get("References"), all[1].head.Get("References"))
	require.Equal(t, all[0].head.Get("References"), all[2].head.Get("References"))
	require.NotEqual(t, all[0].head.Get("References"), all[3].head.Get("References"))
	require.Equal(t, "Denied by Bob: build-7 wants to use Bash", all[2].head.Get("Subject"))
	require.Equal(t, "<msg_interaction.closed@example.com>", all[2].head.Get("Message-Id"))
}

// The password goes over TLS only, by STARTTLS or from the first byte, to a
// server that somebody vouches for.
func TestPasswordIsSentOverTLSOnly(t *testing.T) {
	t.Parallel()
	send := func(t *testing.T, o Options) error {
		_, err := open(t, o).Send(t.Context(), channeltest.Alert(channel.Opened))
		return err
	}
	for name, h := range map[string]how{"STARTTLS": {}, "TLS": {implicit: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, h)
			require.NoError(t, send(t, s.options()))
			require.Equal(t, []string{user}, s.logins)
			require.True(t, s.all()[0].overTLS)

			o := s.options()
			o.Roots = x509.NewCertPool()
			require.ErrorContains(t, send(t, o), "TLS")
			require.Len(t, s.all(), 1)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		s := newServer(t, how{plain: true})
		c := open(t, s.options())
		c.o.AllowPrivate = false // the guard would refuse the address first
		m, err := c.client(new(net.Conn))
		require.NoError(t, err)
		require.Equal(t, "TLSMandatory", m.TLSPolicy())

		c = open(t, s.options())
		l := &login{user: user, password: password, host: "mail.test"}
		_, _, err = l.Start(serverInfo("mail.test", false, "PLAIN"))
		require.Error(t, err)
		require.NotContains(t, err.Error(), password)
		_, first, err := l.Start(serverInfo("mail.test", true, "PLAIN"))
		require.NoError(t, err)
		require.Contains(t, string(first), password)
		how, first, err := l.Start(serverInfo("mail.test", true, "login"))
		require.NoError(t, err)
		require.Equal(t, "LOGIN", how)
		require.NotContains(t, string(first), password, "before it is asked for")
		_, _, err = l.Start(serverInfo("mail.test", true, "GSSAPI"))
		require.Equal(t, channel.Refused, c.problem(err).Class)
	})
	t.Run("a relay that asks for nothing", func(t *testing.T) {
		t.Parallel()
		s := newServer(t, how{plain: true, noAuth: true})
		o := s.options()
		o.User, o.Password = "", ""
		require.NoError(t, send(t, o))
		require.False(t, s.all()[0].overTLS)
	})
}

func TestWrongPasswordIsToldWithoutIt(t *testing.T) {
	t.Parallel()
	s := newServer(t, how{})
	o := s.options()
	o.Password = "WRONGSECRET"
	_, err := open(t, o).Send(t.Context(), channeltest.Alert(channel.Opened))
	var p *channel.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, channel.Refused, p.Class)
	require.ErrorContains(t, err, "logging in was refused")
	for _, secret := range []string{"WRONGSECRET", chatty} {
		require.NotContains(t, err.Error(), secret)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o := Options{URL: "smtp://" + listener.Addr().String(), AllowPrivate: true, From: "a@example.com"}
	ctx, cancel := context.WithCancel(t.Context())
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			accepted <- c // says nothing
			cancel()
		}
	}()
	_, err = open(t, o).Send(ctx, channeltest.Alert(channel.Opened))
	var p *channel.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, channel.Retry, p.Class)
	require.False(t, p.Unknown)
	require.NoError(t, (<-accepted).Close())
	require.NoError(t, listener.Close())
	_, err = open(t, o).Send(t.Context(), channeltest.Alert(channel.Opened))
	require.ErrorContains(t, err, "connection refused")
	o.AllowPrivate = false
	_, err = open(t, o).Send(t.Context(), channeltest.Alert(channel.Opened))
	require.ErrorContains(t, err, "address is not allowed")
}

func TestNewNamesTheField(t *testing.T) {
	t.Parallel()
	good := Options{URL: "smtp://mail.test", User: "u", Password: "p", From: "a@example.com"}
	for want, change := range map[string]func(*Options){
		"url: missing":                    func(o *Options) { o.URL = "" },
		"url: not an address":             func(o *Options) { o.URL = "https://mail.test" },
		"url: must not contain a user":    func(o *Options) { o.URL = "smtp://u:SECRET@mail.test" },
		"url: must end with the port":     func(o *Options) { o.URL = "smtp://mail.test/SECRET" },
		"url: has no usable port":         func(o *Options) { o.URL = "smtp://mail.test:0" },
		"from: missing":                   func(o *Options) { o.From = "" },
		"from: not an address such as":    func(o *Options) { o.From = "SECRET" },
		"password: user and password bel": func(o *Options) { o.Password = "" },
	} {
		o := good
		change(&o)
		_, err := New(o)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "SECRET")
	}
	require.Equal(t, 587, open(t, good).port)
	good.URL = "smtps://mail.test"
	require.Equal(t, 465, open(t, good).port)
	require.Empty(t, CheckTo("ada@example.com"))
	for _, to := range []string{"", "ada", "Ada <ada@example.com>", "ada@example.com\r\nBcc: eve@evil.test"} {
		require.NotEmpty(t, CheckTo(to), to)
	}
}

func serverInfo(name string, overTLS bool, offers ...string) *gosmtp.ServerInfo {
	return &gosmtp.ServerInfo{Name: name, TLS: overTLS, Auth: offers}
}

// Servers say at the recipient also what they have against the sender: that says nothing
// of the recipient's address.
func TestOnlyTheAddressItselfIsGone(t *testing.T) {
	t.Parallel()
	for code, want := range map[smtp.EnhancedCode]channel.Class{
		{5, 1, 1}: channel.Gone, {5, 1, 3}: channel.Gone, {5, 1, 6}: channel.Gone, {5, 1, 10}: channel.Gone, {5, 2, 1}: channel.Gone,
		{5, 1, 0}: channel.Refused, {5, 1, 7}: channel.Refused, {5, 1, 8}: channel.Refused, {5, 7, 1}: channel.Refused,
	} {
		s := newServer(t, how{})
		s.rcpt = code
		_, err := s.Channel(t).Send(t.Context(), channeltest.Alert(channel.Opened))
		var p *channel.Problem
		require.ErrorAs(t, err, &p, "%v", code)
		require.Equal(t, want, p.Class, "%v", code)
	}
}
