package bus

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/banksman/banksman/pkg/bus/credential"
	"github.com/banksman/banksman/pkg/bus/internal/link"
	"github.com/banksman/banksman/pkg/trace"
)

// Streams that an owner reads from.
const (
	streamRequests    = "HITL_REQUESTS"
	streamMailbox     = "HITL_MAILBOX"
	streamDecisions   = "HITL_DECISIONS"
	streamTranscripts = "HITL_TRANSCRIPTS"
	streamWork        = "HITL_WORK"
)

// Options wire a Client.
type Options struct {
	Name   string       // shown in the server's connection list; default role, tenant and name
	Worker string       // travels with each request; default none
	Logger *slog.Logger // nil discards
	// Tracer gets a span of each Ask; nil: none. A trace that the caller's context is in
	// is passed on in either case.
	Tracer oteltrace.TracerProvider
	// Nats are more options of the connection, for example an in-process
	// server or TLS. Reconnecting and the handlers stay the client's own.
	Nats []nats.Option
}

// Client is a connection to the bus. Its methods are safe for concurrent use.
type Client struct {
	cred   *Credentials
	keys   *credential.Keyring
	worker string
	log    *slog.Logger
	link   *link.Link
	tracer *trace.Tracer
}

// Connect makes the connection and waits until it stands or ctx ends; a server
// that is not there yet is waited for. The caller owns the Client and closes it.
func Connect(ctx context.Context, cred *Credentials, o Options) (*Client, error) {
	if err := cred.Validate(); err != nil {
		return nil, err
	}
	auth, err := cred.Auth()
	if err != nil {
		return nil, err
	}
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	l, err := link.Connect(ctx, link.Options{
		URLs: cred.URLs, Name: cmp.Or(o.Name, cred.String()), Auth: auth, Logger: logger, More: o.Nats,
	})
	if err != nil {
		return nil, err
	}
	return &Client{cred: cred, keys: credential.NewKeyring(cred, logger), worker: o.Worker, log: logger, link: l, tracer: trace.New(o.Tracer)}, nil
}

// Credentials is the identity the client has.
func (c *Client) Credentials() *Credentials { return c.cred }

// IsConnected reports whether the connection stands now.
func (c *Client) IsConnected() bool { return c.link.Conn().IsConnected() }

// Connected returns a channel that is closed when the connection is made again.
func (c *Client) Connected() <-chan struct{} { return c.link.Connected() }

// Done is closed when the client can do nothing any more: after Close, or when
// the connection is gone for good. Err then says why.
func (c *Client) Done() <-chan struct{} { return c.link.Done() }

// Err is nil as long as the client works.
func (c *Client) Err() error { return c.link.Err() }

// Close ends every call with ErrClosed, waits for withdrawals under way and
// drains the connection, all of it bounded. More calls wait for the first.
func (c *Client) Close() { c.link.Close() }
