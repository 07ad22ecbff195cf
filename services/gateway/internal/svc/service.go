package svc

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/pushes"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
)

const (
	queueGroup  = "gateways"
	allCalls    = "hitl.svc.*.*.*"
	replyPrefix = "_R_." // what the server puts in place of a reply across accounts

	perCaller = 4                // calls of one caller under way
	waiting   = 256              // calls of one caller that wait
	callLimit = 25 * time.Second // the server forgets a call after 40 s
	closeWait = 2 * time.Second  // for the calls under way when Run ends
)

// Options wire a Service. All but LoginCallers and Tenant are required.
type Options struct {
	Conn   *nats.Conn // not closed here
	Engine api.Engine
	Asker  api.Asker
	Auth   *auth.Store
	// Tickets are what those decide by who were told by a notifier.
	Tickets *ticket.Book
	// Pushes are the browsers of people.
	Pushes *pushes.Store
	Logger *slog.Logger
	// BaseURL is where login links point.
	BaseURL *url.URL
	// LoginCallers of Tenant may ask for login links and begin terminal logins:
	// links sign in the owner of the installation, who is over all tenants. Default
	// cli, the terminal of this machine, of the default tenant.
	LoginCallers []string
	Tenant       string
}

// Service answers calls while it runs.
type Service struct {
	Options
	log *slog.Logger

	ctx     context.Context // of the calls
	wg      sync.WaitGroup
	mu      sync.Mutex
	callers map[caller]*line
	closing bool
}

// caller is who calls. The accounts of the server bound how many there are.
type caller struct{ tenant, name string }

// line is what one caller has waiting.
type line struct {
	queue   []*nats.Msg
	workers int
}

// New makes a Service; Run serves.
func New(o Options) *Service {
	if o.LoginCallers == nil {
		o.LoginCallers = []string{"cli"}
	}
	if o.Tenant == "" {
		o.Tenant = bus.DefaultTenant
	}
	return &Service{Options: o, log: o.Logger.With("component", "svc"), callers: map[caller]*line{}}
}

// Run serves until ctx ends and the calls under way are answered.
func (s *Service) Run(ctx context.Context) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.ctx = calls
	sub, err := s.Conn.QueueSubscribe(allCalls, queueGroup, s.take)
	if err != nil {
		return fmt.Errorf("serve %s: %w", allCalls, err)
	}
	gone := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(gone) })
	<-ctx.Done()
	late := time.AfterFunc(closeWait, cancel)
	defer late.Stop()
	// What the server gave to us it gives to nobody else: it is answered, too.
	if sub.Drain() == nil {
		select {
		case <-gone:
		case <-calls.Done():
		}
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// take puts a call into its caller's line. It never waits.
func (s *Service) take(m *nats.Msg) {
	if !strings.HasPrefix(m.Reply, replyPrefix) {
		return // nobody could be told, and nobody may choose where we publish
	}
	t := strings.Split(m.Subject, ".")
	if len(t) != 5 {
		return
	}
	c := caller{t[2], t[3]}
	s.mu.Lock()
	l := s.callers[c]
	if l == nil {
		l = &line{}
		s.callers[c] = l
	}
	closing, full := s.closing, len(l.queue) >= waiting
	start := false
	if !closing && !full {
		l.queue = append(l.queue, m)
		if start = l.workers < perCaller; start {
			l.workers++
			s.wg.Add(1)
		}
	}
	s.mu.Unlock()
	switch {
	case start:
		go s.work(c, l)
	case full && !closing:
		s.fail(m, wire.Error{Code: string(hitl.Unavailable), Error: "too many calls of this caller are waiting; try again"})
	}
}

// work answers the calls of one caller while there are any.
func (s *Service) work(c caller, l *line) {
	defer s.wg.Done()
	for {
		s.mu.Lock()
		if len(l.queue) == 0 {
			l.queue = nil
			if l.workers--; l.workers == 0 {
				delete(s.callers, c)
			}
			s.mu.Unlock()
			return
		}
		m := l.queue[0]
		l.queue = l.queue[1:]
		s.mu.Unlock()
		if strings.HasSuffix(m.Subject, "."+wire.VerbAsk) {
			// It waits for a person; the asker's desk bounds how many do.
			s.wg.Go(func() { s.answer(c, m) })
			continue
		}
		s.answer(c, m)
	}
}

func (s *Service) answer(c caller, m *nats.Msg) {
	ctx, cancel := context.WithTimeout(s.ctx, callLimit)
	defer cancel()
	verb := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	out, refused := s.call(trace.Read(m.Header).In(ctx), c, verb, m.Data)
	if refused != nil {
		s.fail(m, *refused)
		return
	}
	raw, err := hitl.Marshal(out)
	if err != nil {
		s.log.Error("reply not encoded", "verb", verb, "error", err)
		refused = &wire.Error{Code: "internal", Error: "the reply cannot be encoded"}
	} else if len(raw) > s.room() {
		refused = &wire.Error{
			Code: "too_large", Error: fmt.Sprintf("the reply is %d bytes, the server takes %d", len(raw), s.room()),
		}
	}
	if refused != nil {
		s.fail(m, *refused)
		return
	}
	s.publish(m, raw)
}

// room is the largest reply, in bytes.
func (s *Service) room() int { return int(s.Conn.MaxPayload()) - 4<<10 }

func (s *Service) fail(m *nats.Msg, e wire.Error) {
	raw, err := hitl.Marshal(wire.ErrorReply{Error: e})
	if err != nil {
		return // texts always encode
	}
	s.publish(m, raw)
}

func (s *Service) publish(m *nats.Msg, raw []byte) {
	if err := s.Conn.Publish(m.Reply, raw); err != nil {
		s.log.Warn("reply not sent", "subject", m.Subject, "error", err)
	}
}
