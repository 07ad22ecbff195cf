package slack

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/services/notifier/internal/channel/press"
	"github.com/banksman/banksman/services/notifier/internal/channel/web"
	"github.com/banksman/banksman/services/notifier/internal/metrics"
)

const (
	// openEvery is how often a connection is opened at most: one that Slack takes and
	// ends at once must not be opened without a pause.
	openEvery = time.Second
	// refusedPause is the pause after Slack refused the token. It may be mended there.
	refusedPause = 5 * time.Minute
	// writeBuffer is larger than any answer that Slack takes: it reads single frames.
	writeBuffer = 32 << 10
)

// passing are the errors of Slack that say nothing of the token.
var passing = []string{"internal_error", "fatal_error", "service_unavailable", "request_timeout", "ratelimited", "rate_limited"}

// Socket is the state of the socket by which presses come in, as package metrics calls it;
// empty: there is none.
func (b *Bot) Socket() string {
	if b.buttons.AppToken == "" {
		return ""
	}
	if s := b.state.Load(); s != nil {
		return *s
	}
	return metrics.SocketOpening
}

// socket takes presses over Socket Mode: a WebSocket that this side opens, so that
// nothing has to be reachable from outside. Each envelope comes by one of the connections
// of the app, and comes again where nobody said in time that it has arrived.
//
//	https://docs.slack.dev/apis/events-api/using-socket-mode
//	https://docs.slack.dev/reference/methods/apps.connections.open
func (b *Bot) socket(ctx context.Context, d *press.Desk) error {
	c := b.counter(ctx, d)
	defer c.close()
	select {
	case <-c.known:
	case <-ctx.Done():
		return nil
	}
	l := &line{counter: c}
	for {
		client := socketmode.New(
			slack.New("", slack.OptionAppLevelToken(b.buttons.AppToken), slack.OptionAPIURL(b.url+"/"), slack.OptionHTTPClient(&opener{client: b.client})),
			socketmode.OptionDialer(dialer(b.private)), socketmode.OptionReadLimit(maxPayload),
		)
		on, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { l.hear(on, client) })
		err := client.RunContext(ctx)
		cancel()
		wg.Wait()
		if ctx.Err() != nil {
			return nil
		}
		l.down(err)
		if !run.Pause(ctx, refusedPause) {
			return nil
		}
	}
}

// line is the socket's connections, one after the other. Its fields are those of the one
// goroutine that hears.
type line struct {
	*counter
	said string // the last problem, until it is over
}

func (l *line) set(state string) { l.b.state.Store(&state) }

// hear takes what the library tells of a connection, until ctx ends.
func (l *line) hear(ctx context.Context, client *socketmode.Client) {
	l.set(metrics.SocketOpening)
	for {
		var e socketmode.Event
		select {
		case <-ctx.Done():
			return
		case e = <-client.Events:
		}
		switch e.Type {
		case socketmode.EventTypeHello:
			l.set(metrics.SocketOpen)
			l.said = ""
			l.d.Logger.Info("the socket for presses is open")
		case socketmode.EventTypeConnecting:
			if l.b.Socket() == metrics.SocketOpen {
				l.set(metrics.SocketOpening)
			}
		case socketmode.EventTypeConnectionError:
			if failed, ok := e.Data.(*slack.ConnectionErrorEvent); ok {
				l.down(failed.ErrorObj)
			}
		case socketmode.EventTypeErrorBadMessage:
			l.d.Logger.Warn("a message of Slack cannot be read") // its error may quote it
		case socketmode.EventTypeInteractive:
			l.pressed(ctx, client, e.Request)
		case socketmode.EventTypeEventsAPI, socketmode.EventTypeSlashCommand:
			_ = client.AckCtx(ctx, e.Request.EnvelopeID, nil) // something else of the app
		}
	}
}

// pressed says to Slack that an envelope has arrived, once it is worked on.
func (l *line) pressed(ctx context.Context, client *socketmode.Client, r *socketmode.Request) {
	p, err := readPress(r.Payload)
	if err != nil {
		l.d.Logger.Warn("a message of Slack cannot be read")
		return
	}
	if p != nil && !l.take(ctx, p) {
		l.d.Logger.Warn("a press is left to Slack: too many are worked on", "account", p.Account)
		return
	}
	// What cannot be said, because the line is gone, has Slack send the envelope again.
	_ = client.AckCtx(ctx, r.EnvelopeID, nil)
}

// down says once why no connection comes about.
func (l *line) down(err error) {
	state, text := metrics.SocketOpening, ""
	if said, ok := errors.AsType[slack.SlackErrorResponse](err); ok {
		if text = web.Code(said.Err); !slices.Contains(passing, text) {
			state = metrics.SocketRefused
		}
	} else if status, ok := errors.AsType[slack.StatusCodeError](err); ok {
		text = http.StatusText(status.Code)
	} else {
		text = web.Reason(err)
	}
	l.set(state)
	if text == l.said {
		return
	}
	l.said = text
	if state == metrics.SocketRefused {
		l.d.Logger.Error("Slack opens no socket for presses with this token; no button works until it does", "setting", "app_token", "error", text)
		return
	}
	l.d.Logger.Warn("the socket for presses cannot be opened; trying again", "error", text)
}

// opener calls Slack for the library, now and then, and reads so much of an answer.
type opener struct {
	client *web.Client
	last   time.Time
}

// Do is called by one goroutine.
func (o *opener) Do(r *http.Request) (*http.Response, error) {
	if !run.Pause(r.Context(), time.Until(o.last.Add(openEvery))) {
		return nil, r.Context().Err()
	}
	o.last = time.Now()
	resp, err := o.client.Do(r)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, web.MaxResponse), resp.Body}
	return resp, nil
}

// errPlain: Slack named an address without TLS.
var errPlain = errors.New("an address without TLS")

// dialer goes where the channel may go, over TLS unless that is on private networks, too.
func dialer(private bool) *websocket.Dialer {
	d := &websocket.Dialer{
		NetDialContext:    func(context.Context, string, string) (net.Conn, error) { return nil, errPlain },
		NetDialTLSContext: (&tls.Dialer{NetDialer: web.Dialer(private)}).DialContext,
		HandshakeTimeout:  web.Timeout, WriteBufferSize: writeBuffer,
	}
	if private {
		d.NetDialContext = web.Dialer(private).DialContext
	}
	return d
}
