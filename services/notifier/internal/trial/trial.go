// Package trial sends messages by which a person sees whether channels and services
// can be reached.
package trial

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/bus/dial"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/push"
	"github.com/banksman/banksman/services/notifier/internal/engine"
)

const (
	// sendLimit bounds one message, openLimit the connecting before the first one that
	// needs the bus.
	sendLimit = 15 * time.Second
	openLimit = 10 * time.Second
	name      = "notify test"
)

// Line leads to the bus, for those messages that need it. It is for one goroutine.
type Line struct {
	Credentials *bus.Credentials // nil: there are none
	Logger      *slog.Logger

	opened bool
	err    error // of opening
	desk   *bus.Client
	conn   *dial.Conn
}

// Open connects, once; the error is the same ever after.
func (l *Line) Open(ctx context.Context) error {
	if !l.opened {
		l.opened = true
		l.err = l.open(ctx)
	}
	return l.err
}

func (l *Line) open(ctx context.Context) (err error) {
	if l.Credentials == nil {
		return errors.New("this needs the notifier's credentials, to reach the bus (--creds, or --data with creds/notifier.json below it)")
	}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	if l.conn, err = dial.Service(ctx, name, l.Credentials, nil, l.Logger); err != nil {
		return err
	}
	l.desk, err = bus.Connect(ctx, l.Credentials, bus.Options{Name: "banksman " + name + ", calling", Logger: l.Logger})
	return err
}

// Close gives the connections up.
func (l *Line) Close() {
	if l.desk != nil {
		l.desk.Close()
	}
	if l.conn != nil {
		l.conn.Shut()
	}
}

// Gateway is what pushes ask for browsers, PushKey their key and Tenant whose they are.
// The first two are for an opened line.
func (l *Line) Gateway() push.Gateway { return l.desk }

// PushKey is the key of pushes.
func (l *Line) PushKey() string { return l.Credentials.PushKey }

// Tenant is that of the credentials, or the one of who has none.
func (l *Line) Tenant() string {
	if l.Credentials == nil {
		return bus.DefaultTenant
	}
	return l.Credentials.Tenant
}

// Request asks on the bus; it is for an opened line.
func (l *Line) Request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	return l.conn.RequestMsgWithContext(ctx, m)
}

// Send sends one message to an address. The link leads to base, where there is one.
func Send(ctx context.Context, to engine.Route, base string) (channel.Receipt, error) {
	now := time.Now().UTC()
	a := channel.Alert{
		ID: "msg_test_" + now.Format("20060102T150405.000000000"), Type: channel.Test, Key: "test", Time: now, To: to.To,
		Data: channel.Data{Title: "A test message", Headline: "Banksman reaches you here", Agent: "banksman", Session: "test", Kind: hitl.KindApproval},
	}
	if to.Recipient != nil {
		a.Data.Recipient = to.Recipient.Name
	}
	if base != "" {
		a.Data.Link = base + "/"
	}
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	return to.Channel.Send(ctx, a)
}
