package engine

import (
	"context"
	"time"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// mailed reports whether something may be left in the mailbox.
func (p *plot) mailed() bool { return p.leaves+p.backs > 0 }

// leaving is what an asker does that finds no gateway, or thinks so.
func (s *stage) leaving(add func(string, func())) {
	box, at := s.streams[journal.Mailbox], subject.Request(s.plot.ref)
	if s.leaves > 0 && box.find(subject.Left(at)) == nil {
		add("leave", func() {
			s.leaves--
			box.put(subject.Left(at), s.plot.raw)
		})
	}
	back := subject.Withdraw(s.plot.ref)
	if s.backs > 0 && (box.last > 0 || s.streams[journal.Requests].last > 0) && box.find(subject.Left(back)) == nil {
		add("leave a withdrawal", func() {
			s.backs--
			box.put(subject.Left(back), []byte(`{"v":1}`))
		})
	}
}

// stored reports whether the request is anywhere.
func (s *stage) stored() bool {
	at := subject.Request(s.plot.ref)
	return s.streams[journal.Requests].find(at) != nil || s.streams[journal.Mailbox].find(subject.Left(at)) != nil
}

func (d *desk) Left(_ context.Context, at string) (*journal.Message, error) {
	if !d.plot.mailed() {
		return nil, journal.ErrNotFound
	}
	return d.get(journal.Mailbox, subject.Left(at))
}

// Forward passes a message on as a relay does: the stream has one a subject.
func (d *desk) Forward(_ context.Context, at string, _ map[string][]string, data []byte, _ time.Time) error {
	p, err := subject.Parse(at)
	if err != nil {
		return err
	}
	return d.op("forwards "+p.Tail, false, nil, func() error {
		s := d.streams[journal.Requests]
		if d.plot.fault == "passes on nothing" {
			return nil
		}
		if sub := subject.LeftFor(p); s.find(sub) == nil {
			s.put(sub, data)
			s.msgs[len(s.msgs)-1].Header = map[string][]string{wire.HeaderLeftAt: {stageTime.Format(time.RFC3339Nano)}}
		}
		return nil
	})
}
