package engine

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/card"
)

// demoRuntime is the scripted runtime; it needs no prompt.
const demoRuntime = "demo"

// Start implements api.Engine.
func (e *Engine) Start(ctx context.Context, s *hitl.Start) (string, error) {
	s.V = 1
	if s.SessionID == "" {
		s.SessionID = uuid.NewString()
	}
	if strings.TrimSpace(s.Runtime) == "" {
		return "", hitl.Invalid("runtime", "is missing")
	}
	if strings.TrimSpace(s.Prompt) == "" && len(s.Attachments) == 0 {
		if s.Runtime != demoRuntime {
			return "", hitl.Invalid("prompt", "is missing")
		}
		s.Prompt = "Show me what you ask people"
	}
	if !e.view.Serves(subject.Token(s.Tenant), subject.Token(s.Pool), s.Runtime) {
		return "", api.ErrNoWorker
	}
	if err := e.opts.Journal.Enqueue(ctx, s); err != nil {
		return "", err
	}
	return subject.NewSession(s.Tenant, s.Pool, s.SessionID).String(), nil
}

// Command implements api.Engine.
func (e *Engine) Command(ctx context.Context, id string, c hitl.Command) (hitl.CommandReply, error) {
	key, err := e.view.Session(id)
	if err != nil {
		return hitl.CommandReply{}, err
	}
	c.V = 1
	if c.CommandID == "" {
		c.CommandID = uuid.NewString()
	}
	m, err := e.opts.Conn.RequestWithContext(ctx, subject.Command(key), card.Encode(c))
	if errors.Is(err, nats.ErrNoResponders) {
		return hitl.CommandReply{}, api.ErrNoWorker
	}
	if err != nil {
		return hitl.CommandReply{}, err
	}
	return card.ReadReply(m.Data)
}

// ResolveSession implements api.Engine.
func (e *Engine) ResolveSession(id string) (string, error) {
	ctx, cancel := context.WithTimeout(e.bgCtx, decideLimit)
	defer cancel()
	key, err := e.session(ctx, id)
	return key.String(), err
}

// session finds a session by its key or its plain id; one that was forgotten
// by its key only, in the record.
func (e *Engine) session(ctx context.Context, id string) (subject.Session, error) {
	key, err := e.view.Session(id)
	ref, ok := subject.ParseRef(id)
	if !errors.Is(err, api.ErrNotFound) || !ok {
		return key, err
	}
	key = subject.Session(ref)
	for stream, filters := range map[string][]string{
		journal.Transcripts: {subject.State(key), subject.Transcript(key)},
		journal.Events:      {subject.Event(subject.Ref{Tenant: key.Tenant, Owner: key.Owner, ID: "*"}, key.ID, subject.Closed)},
	} {
		err := e.opts.Journal.Last(ctx, stream, filters, func(journal.Message) error { return errFound })
		if errors.Is(err, errFound) {
			return key, nil
		}
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return subject.Session{}, err
		}
	}
	return subject.Session{}, api.ErrNotFound
}

// errFound ends a read that has seen enough.
var errFound = errors.New("found")
