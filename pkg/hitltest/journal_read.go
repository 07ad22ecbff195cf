package hitltest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/banksman/banksman/pkg/journal"
)

// Intake implements journal.Journal.
func (j *MemoryJournal) Intake(ctx context.Context, workers int, fn func(context.Context, journal.Delivery)) error {
	return j.consume(ctx, j.intake, workers, fn)
}

// Sweep implements journal.Journal.
func (j *MemoryJournal) Sweep(ctx context.Context, workers int, fn func(context.Context, journal.Delivery)) error {
	return j.consume(ctx, j.sweeper, workers, fn)
}

// Collect implements journal.Journal.
func (j *MemoryJournal) Collect(ctx context.Context, workers int, fn func(context.Context, journal.Delivery)) error {
	return j.consume(ctx, j.mailbox, workers, fn)
}

func (j *MemoryJournal) consume(ctx context.Context, d *memoryDurable, workers int, fn func(context.Context, journal.Delivery)) error {
	var wg sync.WaitGroup
	for range max(workers, 1) {
		wg.Go(func() {
			for {
				m, ok := j.take(ctx, d)
				if !ok {
					return
				}
				fn(ctx, m)
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// take waits for the next message that is due.
func (j *MemoryJournal) take(ctx context.Context, d *memoryDurable) (journal.Delivery, bool) {
	for ctx.Err() == nil {
		j.mu.Lock()
		m, count, due := d.due(time.Now())
		changed := j.changed
		j.mu.Unlock()
		if m != nil {
			return j.delivery(d, *m, count), true
		}
		timer := time.NewTimer(due)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return journal.Delivery{}, false
}

// due returns the message to deliver now, or how long until one may be due.
func (d *memoryDurable) due(now time.Time) (m *journal.Message, count int, wait time.Duration) {
	wait = time.Hour
	for _, seq := range slices.Sorted(maps.Keys(d.open)) {
		o := d.open[seq]
		if left := o.due.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		i := d.stream.from(seq)
		if i == len(d.stream.msgs) || d.stream.msgs[i].Seq != seq {
			delete(d.open, seq)
			continue
		}
		o.count++
		o.due = now.Add(journal.HoldLimit)
		return &d.stream.msgs[i], o.count, 0
	}
	i := d.stream.from(d.next)
	if i == len(d.stream.msgs) {
		return nil, 0, wait
	}
	m = &d.stream.msgs[i]
	d.next = m.Seq + 1
	d.open[m.Seq] = &memoryDelivery{count: 1, due: now.Add(journal.HoldLimit)}
	return m, 1, 0
}

func (j *MemoryJournal) delivery(d *memoryDurable, m journal.Message, count int) journal.Delivery {
	settle := func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(d.open, m.Seq)
		if i := d.stream.from(m.Seq); d.queue && i < len(d.stream.msgs) && d.stream.msgs[i].Seq == m.Seq {
			d.stream.msgs = slices.Delete(d.stream.msgs, i, i+1)
		}
		return nil
	}
	return journal.Delivery{
		Message: m, Redelivered: count > 1, Ack: settle, Term: settle,
		Nak: func(delay time.Duration) error {
			j.mu.Lock()
			defer j.mu.Unlock()
			if o := d.open[m.Seq]; o != nil {
				o.due = time.Now().Add(delay)
				j.wake()
			}
			return nil
		},
	}
}

// Floors implements journal.Journal.
func (j *MemoryJournal) Floors(ctx context.Context) (intake, sweeper uint64, err error) {
	err = j.begin(ctx, "Floors", "")
	defer j.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	return j.intake.floor(), j.sweeper.floor(), nil
}

func (d *memoryDurable) floor() uint64 {
	floor := d.next - 1
	for seq := range d.open {
		floor = min(floor, seq-1)
	}
	return floor
}

// Position implements journal.Journal.
func (j *MemoryJournal) Position(ctx context.Context, stream string) (journal.Position, error) {
	err := j.begin(ctx, "Position", stream)
	defer j.mu.Unlock()
	if err != nil {
		return journal.Position{}, err
	}
	s, err := j.stream(stream)
	if err != nil {
		return journal.Position{}, err
	}
	p := journal.Position{First: s.last + 1, Last: s.last, Created: s.created, Now: time.Now().UTC()}
	if len(s.msgs) > 0 {
		p.First = s.msgs[0].Seq
	}
	return p, nil
}

func (j *MemoryJournal) stream(name string) (*memoryStream, error) {
	s := j.streams[name]
	if s == nil {
		return nil, fmt.Errorf("hitltest: no stream %q", name)
	}
	return s, nil
}

// Read implements journal.Journal.
func (j *MemoryJournal) Read(ctx context.Context, stream string, from uint64, filters []string, fn func(journal.Message) error) error {
	msgs, _, err := j.snapshot(ctx, "Read", stream, from, filters)
	if err != nil {
		return err
	}
	return each(ctx, msgs, fn)
}

// Last implements journal.Journal.
func (j *MemoryJournal) Last(ctx context.Context, stream string, filters []string, fn func(journal.Message) error) error {
	msgs, _, err := j.snapshot(ctx, "Last", stream, 0, filters)
	if err != nil {
		return err
	}
	newest := map[string]uint64{}
	for _, m := range msgs {
		newest[m.Subject] = m.Seq
	}
	msgs = slices.DeleteFunc(msgs, func(m journal.Message) bool { return newest[m.Subject] != m.Seq })
	return each(ctx, msgs, fn)
}

// Follow implements journal.Journal.
func (j *MemoryJournal) Follow(ctx context.Context, stream string, from uint64, filters []string, fn func(journal.Message) error) error {
	for {
		msgs, changed, err := j.snapshot(ctx, "Follow", stream, from, filters)
		if err != nil {
			return err
		}
		if err := each(ctx, msgs, fn); err != nil {
			return err
		}
		if len(msgs) > 0 {
			from = msgs[len(msgs)-1].Seq + 1
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (j *MemoryJournal) snapshot(ctx context.Context, op, stream string, from uint64, filters []string) ([]journal.Message, <-chan struct{}, error) {
	err := j.begin(ctx, op, stream)
	defer j.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	s, err := j.stream(stream)
	if err != nil {
		return nil, nil, err
	}
	var msgs []journal.Message
	for _, m := range s.msgs[s.from(from):] {
		if len(filters) == 0 || slices.ContainsFunc(filters, func(f string) bool { return matches(f, m.Subject) }) {
			msgs = append(msgs, m)
		}
	}
	return msgs, j.changed, nil
}

func each(ctx context.Context, msgs []journal.Message, fn func(journal.Message) error) error {
	for _, m := range msgs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(m); err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether a subject fits a filter with wildcards.
func matches(filter, subj string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subj, ".")
	for i, tok := range f {
		switch {
		case tok == ">":
			return len(s) > i
		case i >= len(s), tok != "*" && tok != s[i]:
			return false
		}
	}
	return len(f) == len(s)
}
