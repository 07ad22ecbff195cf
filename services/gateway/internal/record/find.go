package record

import (
	"context"
	"errors"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/card"
	"github.com/banksman/banksman/services/gateway/internal/policy"
)

// Find finds a plain id in the streams. An id is made of tenant and owner: what another
// owner stored under it is no request, and hides none. Its errors are the journal's.
func Find(ctx context.Context, j journal.Journal, p *policy.Policy, id string) (subject.Ref, error) {
	if !subject.ValidToken(id) {
		return subject.Ref{}, journal.ErrNotFound
	}
	anybody := subject.Ref{Tenant: "*", Owner: "*", ID: id}
	ref, left, err := findRequest(ctx, j, p, anybody)
	if !errors.Is(err, journal.ErrNotFound) {
		return ref, err
	}
	// It may have been decided and swept since.
	ref, err = findDecision(ctx, j, anybody)
	if errors.Is(err, journal.ErrNotFound) && left {
		err = journal.ErrLeft
	}
	return ref, err
}

// findRequest also says whether something waits in the mailbox under that id.
func findRequest(ctx context.Context, j journal.Journal, p *policy.Policy, anybody subject.Ref) (ref subject.Ref, left bool, err error) {
	valid := func(m journal.Message) bool {
		at, err := subject.Parse(m.Subject)
		if err == nil {
			ref = at.Ref()
			_, _, err = Examine(p, ref, m)
		}
		return err == nil
	}
	m, err := j.Request(ctx, anybody)
	switch {
	case errors.Is(err, journal.ErrLeft):
		return ref, true, journal.ErrNotFound
	case err != nil:
		return ref, false, err
	case valid(*m):
		return ref, false, nil
	}
	return ref, false, among(ctx, j, journal.Requests, subject.Request(anybody), func(m journal.Message) (bool, error) { return valid(m), nil })
}

func findDecision(ctx context.Context, j journal.Journal, anybody subject.Ref) (ref subject.Ref, err error) {
	of := func(w *journal.StoredDecision) bool {
		raw, err := w.Request()
		if err != nil || raw == nil {
			return false // only its digest was kept
		}
		r, err := hitl.ParseRequest(raw)
		if err != nil {
			return false
		}
		ref = subject.NewRef(r.Tenant, r.Owner, r.ID)
		return true
	}
	w, err := j.Decision(ctx, anybody)
	if err == nil && of(w) {
		return ref, nil
	}
	if err != nil && !errors.Is(err, journal.ErrUnsigned) {
		return ref, err
	}
	return ref, among(ctx, j, journal.Decisions, subject.Decision(anybody), func(m journal.Message) (bool, error) {
		at, err := subject.Parse(m.Subject)
		if err != nil {
			return false, nil
		}
		w, err := j.Decision(ctx, at.Ref())
		if errors.Is(err, journal.ErrUnsigned) || errors.Is(err, journal.ErrNotFound) {
			return false, nil
		}
		return err == nil && of(w), err
	})
}

// among looks through the last messages of a filter until one is the one that is meant.
func among(ctx context.Context, j journal.Journal, stream, filter string, meant func(journal.Message) (bool, error)) error {
	found := errors.New("found")
	err := j.Last(ctx, stream, []string{filter}, func(m journal.Message) error {
		ok, err := meant(m)
		if ok {
			return found
		}
		return err
	})
	switch {
	case errors.Is(err, found):
		return nil
	case err != nil:
		return err
	}
	return journal.ErrNotFound
}

// Withdrawal reads a withdrawal that the stream of requests has; nil if it has none.
func Withdrawal(ctx context.Context, j journal.Journal, ref subject.Ref) (*journal.Message, error) {
	return last(ctx, j, journal.Requests, subject.Withdraw(ref))
}

// DropWithdrawal removes what waits in the stream for a request that was left at a
// subject, and does not come out of the mailbox any more.
func DropWithdrawal(ctx context.Context, j journal.Journal, left string) error {
	p, err := subject.Parse(left)
	if err != nil {
		return nil // nobody's
	}
	m, err := Withdrawal(ctx, j, p.Ref())
	if m == nil || err != nil {
		return err
	}
	return j.DeleteRequest(ctx, m.Seq)
}

func last(ctx context.Context, j journal.Journal, stream, at string) (found *journal.Message, err error) {
	err = j.Last(ctx, stream, []string{at}, func(m journal.Message) error {
		found = &m
		return nil
	})
	if errors.Is(err, journal.ErrNotFound) {
		err = nil
	}
	return found, err
}

// Withdrawn is the outcome of a withdrawal.
func Withdrawn(m journal.Message) hitl.Content {
	var w hitl.Withdrawal
	if err := hitl.Decode(m.Data, "withdrawal", &w); err != nil {
		w = hitl.Withdrawal{} // the wish is clear from the subject
	}
	c := hitl.Content{Outcome: hitl.Cancelled, Message: card.Line(w.Reason)}
	if w.Shutdown {
		c.Comment = hitl.ShutdownComment
	}
	return c
}
