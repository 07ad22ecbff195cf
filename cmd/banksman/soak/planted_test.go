package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/proof"
	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/run"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// desk is a small decider on a real server. It looks whether there is a decision
// and then stores one: with the expectation that there is still none, or, where
// the bug is planted, without it and on a stream without limits.
type desk struct {
	t       *testing.T
	nc      *nats.Conn
	records *journal.JetStream
	signer  journal.Signer
	planted bool
}

func newDesk(t *testing.T, planted bool) *desk {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, JetStreamMaxStore: 64 << 30, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 8 << 20,
	})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(30*time.Second))
	nc, err := nats.Connect(srv.ClientURL())
	require.NoError(t, err)
	t.Cleanup(func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if planted {
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: journal.Decisions, Subjects: []string{"hitl.dec.>"}, AllowDirect: true, MaxBytes: 64 << 20,
		})
		require.NoError(t, err)
	}
	err = journal.Provision(t.Context(), nc, journal.Config{})
	if planted { // no service would start on it
		require.ErrorIs(t, err, journal.ErrDrift)
	} else {
		require.NoError(t, err)
	}
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	d := &desk{t: t, nc: nc, signer: journal.NewSigner(key), planted: planted}
	d.records = journal.New(nc, journal.Options{Signer: d.signer})
	return d
}

func (d *desk) principal(person int) hitl.Principal {
	return hitl.Principal{Kind: "person", ID: fmt.Sprintf("person%d", person)}
}

func (d *desk) encode(owner int, r *hitl.Request) (subject.Ref, []byte, error) {
	q := *r
	q.V, q.Tenant, q.Owner = 1, bus.DefaultTenant, rig.OwnerName(owner)
	q.ID = hitl.ID(q.Tenant, q.Owner, q.Key, 1)
	raw, err := hitl.Marshal(q)
	return subject.NewRef(q.Tenant, q.Owner, q.ID), raw, err
}

// ask stores the request and waits; what nobody decides stays open here.
func (d *desk) ask(ctx context.Context, owner, _ int, r *hitl.Request, opened func(), _ ...bus.AskOption) (*bus.Answer, error) {
	ref, raw, err := d.encode(owner, r)
	if err != nil {
		return nil, err
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if _, err := d.nc.RequestWithContext(whole, subject.Request(ref), raw); err != nil {
		return nil, err
	}
	if _, err := d.records.WriteEvent(whole, subject.Event(ref, "s", subject.Open), []byte(`{}`)); err != nil {
		return nil, err
	}
	opened()
	if r.Expiry() > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Expiry())
		defer cancel()
	}
	for {
		w, err := d.records.Decision(ctx, ref)
		if err == nil {
			return &bus.Answer{Decision: w.Decision, Ref: ref}, nil
		}
		if !errors.Is(err, journal.ErrNotFound) || !run.Pause(ctx, 5*time.Millisecond) {
			return nil, d.stopped(ctx, ref, err)
		}
	}
}

func (d *desk) stopped(ctx context.Context, ref subject.Ref, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = bus.ErrNoDecision
	}
	return &bus.WaitError{Ref: ref, Err: err}
}

func (d *desk) decide(ctx context.Context, p decidePlan, in hitl.Response) (hitl.Receipt, error) {
	ref, _ := subject.ParseRef(in.RequestID)
	receipt := func(w *hitl.Decision, digest string, c *hitl.Content) hitl.Receipt {
		mine := hitl.Decision{Digest: digest, Principal: d.principal(p.Person), Content: *c}
		if mine.SameAnswer(w) {
			return hitl.Receipt{Status: hitl.Duplicate, Decision: w}
		}
		if w.Outcome == hitl.Expired {
			return hitl.Receipt{Status: hitl.TooLate, Decision: w}
		}
		return hitl.Receipt{Status: hitl.AlreadyDecided, Decision: w}
	}
	m, err := d.records.Request(ctx, ref)
	if errors.Is(err, journal.ErrNotFound) {
		return hitl.Receipt{Status: hitl.NotFound}, nil
	}
	if err != nil {
		return hitl.Receipt{}, err
	}
	r, err := hitl.ParseRequest(m.Data)
	if err != nil {
		return hitl.Receipt{}, err
	}
	c, err := hitl.Evaluate(r, &in)
	if err != nil {
		return hitl.Receipt{}, err
	}
	w, err := d.records.Decision(ctx, ref)
	if err == nil {
		return receipt(w.Decision, in.Digest, c), nil
	}
	if !errors.Is(err, journal.ErrNotFound) {
		return hitl.Receipt{}, err
	}
	if in.Digest != hitl.Digest(m.Data) {
		return hitl.Receipt{Status: hitl.DigestMismatch}, nil
	}
	own := &hitl.Decision{
		V: 1, DecisionID: uuid.NewString(), InteractionID: r.ID, Digest: in.Digest, Content: *c, Principal: d.principal(p.Person),
		DecidedAt: time.Now().UTC(), RequestSeq: m.Seq, RequestedAt: m.Time, RequestB64: base64.StdEncoding.EncodeToString(m.Data),
	}
	accepted := hitl.Accepted
	if x := r.Expiry(); x > 0 && !own.DecidedAt.Before(m.Time.Add(x)) {
		own.Content, own.Principal = hitl.Content{Outcome: hitl.Expired}, hitl.Principal{Kind: "system", ID: "desk"}
		accepted = hitl.TooLate
	}
	if d.planted {
		if err := d.overwrite(ctx, ref, own); err != nil {
			return hitl.Receipt{}, err
		}
	} else {
		w, won, err := d.records.Decide(ctx, ref, own)
		if err != nil {
			return hitl.Receipt{}, err
		}
		if !won {
			return receipt(w.Decision, in.Digest, c), nil
		}
	}
	body, err := hitl.Marshal(wire.Ended{V: 1, Closed: wire.Closed{Decision: own}})
	if err != nil {
		return hitl.Receipt{}, err
	}
	_, err = d.records.WriteEvent(ctx, subject.Event(ref, "s", subject.Closed), body)
	return hitl.Receipt{Status: accepted, Decision: own}, err
}

// overwrite is the bug: it stores whatever there is by now.
func (d *desk) overwrite(ctx context.Context, ref subject.Ref, own *hitl.Decision) error {
	body, err := hitl.Marshal(own)
	if err != nil {
		return err
	}
	subj := subject.Decision(ref)
	_, err = d.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subj, Data: body, Header: nats.Header{
		hitl.HeaderSigner: {d.signer.KeyID}, hitl.HeaderSignature: {hitl.Sign(d.signer.Key, subj, body)},
	}})
	return err
}

func (d *desk) get(ctx context.Context, _, _ int, key string) (*wire.Interaction, error) {
	ref, _ := subject.ParseRef(key)
	w, err := d.records.Decision(ctx, ref)
	if err == nil {
		return &wire.Interaction{State: wire.StateClosed, Decision: w.Decision}, nil
	}
	if !errors.Is(err, journal.ErrNotFound) {
		return nil, err
	}
	_, err = d.records.Request(ctx, ref)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, errAbsent
	}
	return &wire.Interaction{State: wire.StatePending}, err
}

// The clients, the recorder and the checker that soak the product find a
// decider that stores without the expectation. The same decider with it passes.
// This proves the checker: the desk is no part of the product, and that the
// product expects the place to be empty is proved where it stores.
func TestCheckerFindsADeciderWithoutTheExpectation_invariant1(t *testing.T) {
	t.Parallel()
	soak := func(t *testing.T, planted bool) (*proof.Judgement, []error) {
		d := newDesk(t, planted)
		w := &workload{seed: 1, site: d, h: proof.NewHistory(), counts: newCounters()}
		w.run(t.Context(), 150, 50, func(int) {})
		require.Empty(t, w.errs)
		keys := map[string]ed25519.PublicKey{d.signer.KeyID: d.signer.Key.Public().(ed25519.PublicKey)}
		record, errs, err := audit(t.Context(), d.records, keys)
		require.NoError(t, err)
		return proof.Judge(w.h, record, func(from, to int64) time.Duration { return time.Duration(to - from) }), errs
	}
	t.Run("invariant 1: with the expectation", func(t *testing.T) {
		t.Parallel()
		j, errs := soak(t, false)
		require.Empty(t, errs)
		require.Empty(t, j.Errs)
		require.Nil(t, j.Worst)
		require.Greater(t, j.Ops, 500)
	})
	t.Run("invariant 1: without it", func(t *testing.T) {
		t.Parallel()
		j, errs := soak(t, true)
		require.NotEmpty(t, errs)
		require.ErrorContains(t, errors.Join(errs...), "has two decisions")
		require.NotNil(t, j.Worst)
		require.Positive(t, j.Broken)
		file, err := j.Worst.Save(t.TempDir())
		require.NoError(t, err)
		require.FileExists(t, file)
	})
}
