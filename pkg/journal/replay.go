package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/banksman/banksman/pkg/journal/internal/pace"
	"github.com/banksman/banksman/pkg/journal/internal/pull"
)

// ErrRecreated ends Follow when its stream was made anew or set back: what was
// read so far belongs to another history, and the reader has to start over.
var ErrRecreated = errors.New("journal: stream was made anew")

const (
	replayBatch = 512
	// replayIdle removes a consumer whose reader died.
	replayIdle = 2 * time.Minute
)

// errLost asks for a new consumer from the next message on.
var errLost = errors.New("journal: consumer lost")

// errStop ends a replay at its end.
var errStop = errors.New("stop")

// Read implements Journal.
func (j *JetStream) Read(ctx context.Context, stream string, from uint64, filters []string, fn func(Message) error) error {
	return j.upToNow(ctx, stream, max(from, 1), filters, false, fn)
}

// Last implements Journal.
func (j *JetStream) Last(ctx context.Context, stream string, filters []string, fn func(Message) error) error {
	if len(filters) == 0 || strings.ContainsAny(strings.Join(filters, ""), "*>") {
		return j.upToNow(ctx, stream, 1, filters, true, fn)
	}
	// For a consumer of many subjects the server looks through the whole history.
	found, errs := make([]*stored, len(filters)), make([]error, len(filters))
	room := make(chan struct{}, 32)
	var wg sync.WaitGroup
	for i, subj := range filters {
		room <- struct{}{}
		wg.Go(func() {
			if found[i], errs[i] = j.get(ctx, stream, getRequest{Last: subj}); errors.Is(errs[i], ErrNotFound) {
				errs[i] = nil
			}
			<-room
		})
	}
	wg.Wait()
	found = slices.DeleteFunc(found, func(s *stored) bool { return s == nil })
	slices.SortFunc(found, func(a, b *stored) int { return cmp.Compare(a.Seq, b.Seq) })
	err := errors.Join(errs...)
	for i := 0; i < len(found) && err == nil; i++ {
		err = fn(*found[i].message())
	}
	return err
}

// Follow implements Journal. It ends with ErrRecreated when the stream is not
// the one it began with.
func (j *JetStream) Follow(ctx context.Context, stream string, from uint64, filters []string, fn func(Message) error) error {
	begin, err := j.Position(ctx, stream)
	if err != nil {
		return err
	}
	r := &replay{j: j, stream: stream, next: max(from, 1), filters: filters, fn: fn}
	for {
		err := r.run(ctx)
		if errors.Is(err, errLost) {
			err = j.goesOn(ctx, stream, begin, r.last)
		}
		switch {
		case apiCode(err) == codeStreamNotFound:
			return fmt.Errorf("%w: %s is gone", ErrRecreated, stream)
		case err != nil:
			return fmt.Errorf("follow %s: %w", stream, err)
		}
	}
}

// applied bounds how long a new leader may take until it knows of everything
// that was acknowledged before it became one.
const applied = 10 * time.Second

// goesOn finds out whether a stream of which last was read is still the one that
// began at a position. That it is shorter now counts after a while only.
func (j *JetStream) goesOn(ctx context.Context, stream string, began Position, last uint64) error {
	deadline := time.Now().Add(applied)
	var b pace.Backoff
	for {
		now, err := j.Position(ctx, stream)
		switch {
		case err != nil:
			return err
		case !now.Created.Equal(began.Created):
			return fmt.Errorf("%w: it was made at %s, not %s", ErrRecreated, now.Created, began.Created)
		case now.Last >= last:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w: it ends at %d, and %d was read", ErrRecreated, now.Last, last)
		}
		j.log.Warn("a stream's leader does not know yet what was read", "stream", stream, "last", now.Last, "read", last)
		if !b.Sleep(ctx) {
			return ctx.Err()
		}
	}
}

// upToNow reads what is stored now. The consumer may live on a server that is
// behind the leader, so that its own word on what is left does not suffice:
// the leader is asked for what comes next.
func (j *JetStream) upToNow(ctx context.Context, stream string, from uint64, filters []string, newest bool, fn func(Message) error) error {
	now, err := j.Position(ctx, stream)
	if err != nil {
		return err
	}
	end := now.Last
	if end < from {
		return nil
	}
	r := &replay{j: j, stream: stream, next: from, filters: filters, newest: newest}
	r.fn = func(m Message) error {
		if m.Seq > end {
			return errStop
		}
		if err := fn(m); err != nil {
			return err
		}
		if m.Seq == end {
			return errStop
		}
		return nil
	}
	r.drained = func(ctx context.Context) error {
		left, err := j.leftUntil(ctx, stream, r.next, end, filters)
		if err == nil && !left {
			return errStop
		}
		return err
	}
	if newest {
		// A message that became the newest of its subject before the consumer
		// was made stands for an older one, and must not be left out.
		r.made = func(ctx context.Context) error {
			now, err := j.Position(ctx, stream)
			end = now.Last
			return err
		}
	}
	for {
		err := r.run(ctx)
		switch {
		case errors.Is(err, errStop):
			return nil
		case !errors.Is(err, errLost):
			return err
		}
	}
}

// leftUntil asks the leader whether a message from next to end matches.
func (j *JetStream) leftUntil(ctx context.Context, stream string, next, end uint64, filters []string) (bool, error) {
	if next > end {
		return false, nil
	}
	if len(filters) == 0 {
		filters = []string{">"}
	}
	for _, f := range filters {
		m, err := j.get(ctx, stream, getRequest{Seq: next, Next: f})
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		if m.Seq <= end {
			return true, nil
		}
	}
	return false, nil
}

// replay reads a stream in order with a consumer of its own, which is made
// anew from the next message on whenever something may have been lost.
type replay struct {
	j       *JetStream
	stream  string
	filters []string
	newest  bool   // only the newest message of each subject
	next    uint64 // the lowest sequence that is still of interest
	last    uint64 // the highest one that fn had
	fn      func(Message) error
	made    func(context.Context) error // after a consumer was made; may be nil
	drained func(context.Context) error // when it has nothing more to give now; may be nil
}

// run reads with one consumer. The error is never nil.
func (r *replay) run(ctx context.Context) error {
	name := "replay-" + nuid.Next()
	config := spec{
		"name": name, "ack_policy": "none", "replay_policy": "instant", "max_deliver": 1,
		"mem_storage": true, "num_replicas": 1, "inactive_threshold": replayIdle,
		"deliver_policy": "by_start_sequence", "opt_start_seq": r.next,
	}
	filters := r.filters
	if r.newest {
		config["deliver_policy"] = "last_per_subject"
		delete(config, "opt_start_seq")
		if len(filters) == 0 {
			filters = []string{">"}
		}
	}
	switch len(filters) {
	case 0:
	case 1:
		config["filter_subject"] = filters[0]
	default:
		config["filter_subjects"] = filters
	}
	p, err := pull.New(r.j.nc, r.stream, name, replayBatch)
	if err != nil {
		return err
	}
	defer p.Close()
	var info consumerInfo
	req := spec{"stream_name": r.stream, "config": config, "action": "create"}
	if err := r.j.create(ctx, r.stream, name, req, &info); err != nil {
		return err
	}
	defer r.j.remove(ctx, r.stream, name)
	if err := call(ctx, r.made); err != nil {
		return err
	}
	if info.NumPending == 0 {
		if err := call(ctx, r.drained); err != nil {
			return err
		}
	}
	return r.follow(ctx, p)
}

func call(ctx context.Context, hook func(context.Context) error) error {
	if hook == nil {
		return nil
	}
	return hook(ctx)
}

func (r *replay) follow(ctx context.Context, p *pull.Puller) error {
	var expect uint64 = 1
	var b pace.Backoff
	for {
		if p.Over() {
			if err := p.Request(); err != nil {
				if p.Dead() {
					return fmt.Errorf("journal: %s: %w", r.stream, nats.ErrConnectionClosed)
				}
				if !b.Sleep(ctx) {
					return ctx.Err()
				}
				return errLost
			}
		}
		m, mt, sig := p.Receive(ctx)
		switch sig {
		case pull.Message:
			if mt.Consumer != expect {
				return errLost
			}
			expect++
			if err := r.take(ctx, stamped(m, mt)); err != nil {
				return err
			}
			if mt.Pending == 0 {
				if err := call(ctx, r.drained); err != nil {
					return err
				}
			}
		case pull.Heartbeat:
			if err := call(ctx, r.drained); err != nil {
				return err
			}
		case pull.Ended:
			if p.Quick() && !b.Sleep(ctx) {
				return ctx.Err()
			}
		case pull.Gone, pull.Silent, pull.Reconnected:
			if !b.Sleep(ctx) {
				return ctx.Err()
			}
			return errLost
		case pull.Closed:
			return fmt.Errorf("journal: %s: %w", r.stream, nats.ErrConnectionClosed)
		case pull.Done:
			return ctx.Err()
		}
	}
}

func (r *replay) take(ctx context.Context, m Message) error {
	if m.Seq < r.next {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.fn(m); err != nil {
		return err
	}
	r.next, r.last = m.Seq+1, m.Seq
	return nil
}

// create makes a consumer for this process alone.
func (j *JetStream) create(ctx context.Context, stream, name string, req, info any) error {
	var b pace.Backoff
	for {
		err := j.once(ctx, "CONSUMER.CREATE."+stream+"."+name, req, info)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !transient(err):
			return err
		case !b.Sleep(ctx):
			return ctx.Err()
		}
	}
}

// remove deletes a consumer; where that fails the server does after replayIdle.
func (j *JetStream) remove(ctx context.Context, stream, name string) {
	if !j.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = j.once(ctx, "CONSUMER.DELETE."+stream+"."+name, nil, nil)
}
