package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
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
	deaf    bool // it hears no heartbeat, and gives up each worker a second after it asked
	patient bool // it gives up none

	judges sync.WaitGroup // who wait whether a worker is given up
	mu     sync.Mutex
	lives  map[string]chan struct{} // by worker that was killed: closed when it is back
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
	d := &desk{t: t, nc: nc, signer: journal.NewSigner(key), planted: planted, lives: map[string]chan struct{}{}}
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

// life is a worker of the desk, which lives in this process.
type life struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when it has ended
	told   bool          // of a decision; to be read when it has ended
	silent func()        // called once when it was killed before that
}

func (l *life) Done() <-chan struct{} { return l.ended }

func (l *life) Kill() {
	l.cancel()
	<-l.ended
	if !l.told {
		l.silent()
	}
}

func (d *desk) start(job rig.Job, heard func(rig.Word)) (worker, error) {
	var owner int
	if _, err := fmt.Sscanf(job.Owner, rig.OwnerName(0)[:6]+"%d", &owner); err != nil {
		return nil, err
	}
	d.mu.Lock()
	if back := d.lives[job.Worker]; back != nil {
		close(back)
	}
	d.mu.Unlock()
	ref, raw, err := d.encode(owner, job.Request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(d.t.Context())
	l := &life{cancel: cancel, ended: make(chan struct{})}
	l.silent = func() {
		if d.deaf || d.patient {
			return
		}
		back := make(chan struct{})
		d.mu.Lock()
		d.lives[job.Worker] = back
		d.mu.Unlock()
		d.judges.Go(func() { d.orphan(ref, raw, rig.OrphanAfter, back) })
	}
	words := make(chan rig.Word) // closed when it is killed, or told of a decision
	go func() {
		defer close(l.ended)
		for w := range words {
			heard(w)
		}
	}()
	var living sync.WaitGroup
	done := make(chan struct{}) // closed when it waits no more
	living.Go(func() {
		defer close(done)
		a, err := d.ask(ctx, owner, 0, job.Request, func() {
			words <- rig.Word{At: proof.Now(), Opened: true}
			if d.deaf && job.Generation == 1 {
				d.judges.Go(func() { d.orphan(ref, raw, time.Second, nil) })
			}
		})
		if err == nil {
			l.told = true
			words <- rig.Word{At: proof.Now(), Decision: a.Decision, Ref: a.Ref.String()}
		}
	})
	living.Go(func() {
		tick := time.NewTicker(rig.BeatEvery)
		defer tick.Stop()
		for {
			words <- rig.Word{At: proof.Now(), Beat: true}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	go func() {
		living.Wait()
		close(words)
	}()
	return l, nil
}

// orphan ends what a worker asked after a time, unless it is back by then or the test
// ends.
func (d *desk) orphan(ref subject.Ref, raw []byte, after time.Duration, back <-chan struct{}) {
	ctx := d.t.Context()
	select {
	case <-back:
		return
	case <-ctx.Done():
		return
	case <-time.After(after):
	}
	m, err := d.records.Request(ctx, ref)
	if err != nil {
		return // it never came to be asked
	}
	own := &hitl.Decision{
		V: 1, DecisionID: uuid.NewString(), InteractionID: ref.ID, Digest: hitl.Digest(raw),
		Content: hitl.Content{Outcome: hitl.Orphaned}, Principal: hitl.Principal{Kind: "system", ID: "desk"},
		DecidedAt: time.Now().UTC(), RequestSeq: m.Seq, RequestedAt: m.Time, RequestB64: base64.StdEncoding.EncodeToString(m.Data),
	}
	if _, won, err := d.records.Decide(ctx, ref, own); err != nil || !won {
		return // somebody was faster
	}
	body, err := hitl.Marshal(wire.Ended{V: 1, Closed: wire.Closed{Decision: own}})
	if err == nil {
		_, err = d.records.WriteEvent(ctx, subject.Event(ref, "s", subject.Closed), body)
	}
	if err != nil {
		d.t.Errorf("close an orphan: %v", err)
	}
}

// soak goes through 150 interactions and judges them.
func (d *desk) soak() (*proof.Judgement, []error) {
	d.t.Helper()
	w := &workload{seed: 1, site: d, h: proof.NewHistory(), counts: newCounters()}
	w.run(d.t.Context(), 150, 50, func(int) {})
	d.judges.Wait()
	require.Empty(d.t, w.errs)
	keys := map[string]ed25519.PublicKey{d.signer.KeyID: d.signer.Key.Public().(ed25519.PublicKey)}
	record, errs, err := audit(d.t.Context(), d.records, keys)
	require.NoError(d.t, err)
	calm := func(from, to int64) time.Duration { return time.Duration(to - from) }
	return proof.Judge(w.h, record, proof.Site{Up: calm, Calm: calm, OrphanAfter: rig.OrphanAfter}), errs
}

// The clients, the recorder and the checker that soak the product find a
// decider that stores without the expectation. The same decider with it passes.
// This proves the checker: the desk is no part of the product, and that the
// product expects the place to be empty is proved where it stores.
func TestCheckerFindsADeciderWithoutTheExpectation_invariant1(t *testing.T) {
	t.Parallel()
	t.Run("invariant 1: with the expectation", func(t *testing.T) {
		t.Parallel()
		j, errs := newDesk(t, false).soak()
		require.Empty(t, errs)
		require.Empty(t, j.Errs)
		require.Nil(t, j.Worst)
		require.Greater(t, j.Ops, 500)
		require.Positive(t, j.Outcomes[hitl.Orphaned])
	})
	t.Run("invariant 1: without it", func(t *testing.T) {
		t.Parallel()
		j, errs := newDesk(t, true).soak()
		require.NotEmpty(t, errs)
		require.ErrorContains(t, errors.Join(errs...), "has two decisions")
		require.NotNil(t, j.Worst)
		require.Positive(t, j.Broken)
		file, err := j.Worst.Save(t.TempDir())
		require.NoError(t, err)
		require.FileExists(t, file)
	})
}

// They find one that gives up workers that beat, and one that gives up none.
func TestCheckerFindsWhoGivesUpWorkersWrongly_B37(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deaf bool // or patient
		says string
	}{
		"B-37: those that beat": {true, "before its worker could have been silent for 8s"},
		"B-37: none":            {false, "its worker was killed and stays away, and it was not given up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, false)
			d.deaf, d.patient = c.deaf, !c.deaf
			j, errs := d.soak()
			require.Empty(t, errs, "the record holds together")
			require.ErrorContains(t, errors.Join(j.Errs...), c.says)
		})
	}
}
