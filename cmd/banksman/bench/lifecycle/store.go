package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	owner      = "agents"
	writers    = 128 // calls under way
	perSession = 10  // interactions of a session
)

// store writes what the product writes: requests as the client encodes them,
// decisions and events through the gateway's own journal. The events are made
// after those that a gateway wrote.
type store struct {
	data    string
	client  *bus.Client
	asker   *nats.Conn // the same owner, for many publishes at once
	gateway *nats.Conn
	j       *journal.JetStream
	model   model
}

// model is one interaction as a gateway wrote it.
type model struct {
	open   wire.Opened
	closed wire.Ended
	dec    hitl.Decision
}

func openStore(ctx context.Context, data string) (s *store, err error) {
	s = &store{data: data}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	oc, err := bus.LoadCredentials(natsd.CredentialsFile(data, bus.RoleOwner, bus.DefaultTenant, owner))
	if err != nil {
		return s, err
	}
	if s.client, err = bus.Connect(ctx, oc, bus.Options{Name: "lifecycle asker"}); err != nil {
		return s, err
	}
	if s.asker, err = dial(oc); err != nil {
		return s, err
	}
	gc, err := bus.LoadCredentials(natsd.CredentialsFile(data, bus.RoleGateway, bus.DefaultTenant, ""))
	if err != nil {
		return s, err
	}
	if s.gateway, err = dial(gc); err != nil {
		return s, err
	}
	_, key, err := gc.Signer()
	if err != nil {
		return s, err
	}
	s.j = journal.New(s.gateway, journal.Options{Signer: journal.NewSigner(key), Keys: gc.PublicDecisionKeys()})
	return s, nil
}

func dial(c *bus.Credentials) (*nats.Conn, error) {
	auth, err := c.Auth()
	if err != nil {
		return nil, err
	}
	return nats.Connect(strings.Join(c.URLs, ","), auth, nats.ReconnectBufSize(-1))
}

func (s *store) close() {
	if s.client != nil {
		s.client.Close()
	}
	for _, nc := range []*nats.Conn{s.asker, s.gateway} {
		if nc != nil {
			nc.Close()
		}
	}
}

// request is an approval of about 1 KB, as an agent asks it, that waits for a
// month.
func request(name string, i int) *hitl.Request {
	key := fmt.Sprintf("%s-%d", name, i)
	input, err := json.Marshal(map[string]string{
		"command": "make deploy " + strings.Repeat("TARGET=staging ", 35), "description": "Deploy the build to staging",
	})
	if err != nil { // strings always encode
		panic(err)
	}
	month := hitl.Duration(30 * 24 * time.Hour)
	return &hitl.Request{
		Key: key, Kind: hitl.KindApproval, SessionID: fmt.Sprintf("%s-session-%d", name, i/perSession), AgentName: "bench",
		ToolCallID: "call-" + key, Title: "Run make deploy", ExpiresIn: &month, AttentionIn: &month,
		Tool: &hitl.Tool{Name: "Bash", Input: input, Cwd: "/home/bench/project"},
	}
}

// ask stores a request and returns where: through a gateway as the asker does, or in
// its place where none runs.
func (s *store) ask(ctx context.Context, by *nats.Conn, r *hitl.Request) (subject.Ref, []byte, uint64, error) {
	ref, raw, err := s.client.Encode(r, 1)
	if err != nil {
		return ref, nil, 0, err
	}
	seq, err := publish(ctx, by, subject.Request(ref), raw, nats.Header{
		"Nats-Expected-Last-Subject-Sequence": {"0"}, hitl.HeaderAttempt: {"1"},
	})
	return ref, raw, seq, err
}

func publish(ctx context.Context, nc *nats.Conn, subj string, data []byte, h nats.Header) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	m, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subj, Header: h, Data: data})
	if err != nil {
		return 0, fmt.Errorf("publish %s: %w", subj, err)
	}
	var ack struct {
		Seq   uint64            `json:"seq"`
		Error *journal.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return 0, err
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	return ack.Seq, nil
}

// each calls fn for 0 to n-1, many at once.
func each(ctx context.Context, n int, progress string, fn func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	began := time.Now()
	for range writers {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := fn(ctx, i); err != nil {
					return fmt.Errorf("%s %d: %w", progress, i, err)
				}
				if (i+1)%100_000 == 0 {
					say("%s: %d of %d after %s", progress, i+1, n, time.Since(began).Round(time.Second))
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// learn has the running gateway settle one interaction and takes what it wrote.
func (s *store) learn(ctx context.Context, settle func(ctx context.Context, id, digest string) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r := request("model", 0)
	ref, raw, _, err := s.ask(ctx, s.asker, r)
	if err != nil {
		return err
	}
	body := func(phase string, v any) error {
		subj := subject.Event(ref, subject.Token(r.SessionID), phase)
		return s.wait(ctx, journal.Events, subj, v)
	}
	if err := body(subject.Open, &s.model.open); err != nil {
		return err
	}
	if err := settle(ctx, ref.String(), hitl.Digest(raw)); err != nil {
		return err
	}
	if err := body(subject.Closed, &s.model.closed); err != nil {
		return err
	}
	return s.wait(ctx, journal.Decisions, subject.Decision(ref), &s.model.dec)
}

// wait reads the message of a subject as soon as there is one.
func (s *store) wait(ctx context.Context, stream, subj string, v any) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := errors.New("found")
	err := s.j.Follow(ctx, stream, 1, []string{subj}, func(m journal.Message) error {
		return errors.Join(json.Unmarshal(m.Data, v), found)
	})
	if errors.Is(err, found) {
		return nil
	}
	return err
}

// open stores requests for the gateway to take in.
func (s *store) open(ctx context.Context, n int) error {
	return each(ctx, n, "open", func(ctx context.Context, i int) error {
		_, _, _, err := s.ask(ctx, s.asker, request("open", i))
		return err
	})
}

// settled stores whole interactions: request, open, decision, closed, both
// receipts; the request is deleted at last. No gateway runs meanwhile, so the
// consumers of intake and sweeper are moved on here.
func (s *store) settled(ctx context.Context, n int) error {
	run, stop := context.WithCancel(ctx)
	g, run := errgroup.WithContext(run)
	done := func(_ context.Context, d journal.Delivery) { _ = d.Ack() } // else it comes again
	g.Go(func() error { return s.j.Intake(run, 8, done) })
	g.Go(func() error { return s.j.Sweep(run, 8, done) })
	err := each(ctx, n, "settled", s.settle)
	if err == nil {
		err = s.caughtUp(ctx)
	}
	stop()
	if e := g.Wait(); !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	return err
}

func (s *store) settle(ctx context.Context, i int) error {
	r := request("settled", i)
	ref, raw, seq, err := s.ask(ctx, s.gateway, r)
	if err != nil {
		return err
	}
	now, session, digest := time.Now().UTC(), subject.Token(r.SessionID), hitl.Digest(raw)
	change := func(sum *wire.Summary) {
		sum.RequestID, sum.Key, sum.Digest, sum.ToolCallID = ref.ID, ref.String(), digest, r.ToolCallID
		sum.SessionID, sum.SessionKey = r.SessionID, subject.NewSession(ref.Tenant, ref.Owner, r.SessionID).String()
		sum.CreatedAt, sum.ServerTime = now, now
	}
	open := s.model.open
	change(&open.Summary)
	open.RequestSeq, open.RequestB64 = seq, base64.StdEncoding.EncodeToString(raw)
	if err := s.event(ctx, ref, session, subject.Open, open); err != nil {
		return err
	}
	dec := s.model.dec
	dec.DecisionID, dec.InteractionID, dec.Digest = uuid.NewString(), ref.ID, digest
	dec.DecidedAt, dec.RequestedAt, dec.RequestSeq, dec.RequestB64 = now, now, seq, open.RequestB64
	if _, _, err := s.j.Decide(ctx, ref, &dec); err != nil {
		return err
	}
	closed := s.model.closed
	change(&closed.Summary)
	closed.Decision = dec.WithoutRequest()
	if err := s.event(ctx, ref, session, subject.Closed, closed); err != nil {
		return err
	}
	for _, stage := range []string{hitl.Delivered, hitl.Applied} {
		data, err := hitl.Marshal(hitl.Ack{V: 1, Stage: stage, DecisionID: dec.DecisionID, At: now})
		if err != nil {
			return err
		}
		if _, err := publish(ctx, s.gateway, subject.Ack(ref, stage), data, nil); err != nil {
			return err
		}
	}
	return s.j.DeleteRequest(ctx, seq)
}

func (s *store) event(ctx context.Context, ref subject.Ref, session, phase string, body any) error {
	data, err := hitl.Marshal(body)
	if err != nil {
		return err
	}
	_, err = s.j.WriteEvent(ctx, subject.Event(ref, session, phase), data)
	return err
}

// caughtUp waits until intake and sweeper have acknowledged everything.
func (s *store) caughtUp(ctx context.Context) error {
	for {
		requests, err := s.j.Position(ctx, journal.Requests)
		if err != nil {
			return err
		}
		decisions, err := s.j.Position(ctx, journal.Decisions)
		if err != nil {
			return err
		}
		intake, sweeper, err := s.j.Floors(ctx)
		if err != nil {
			return err
		}
		if intake >= requests.Last && sweeper >= decisions.Last {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
