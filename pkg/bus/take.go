package bus

import (
	"context"
	"errors"
	"time"

	"github.com/banksman/banksman/pkg/bus/internal/link"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// Take claims the one use of an interaction's approval, among all processes of
// this owner: of several calls the one whose claim is stored first is told true,
// and so is a repetition with the same by. It tries until ctx ends.
func (c *Client) Take(ctx context.Context, ref subject.Ref, decisionID, by string) (won bool, err error) {
	if !c.link.Begin() {
		return false, ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)
	subj := subject.Ack(ref, subject.Taken)
	data, err := hitl.Marshal(hitl.Ack{V: 1, Stage: subject.Taken, DecisionID: decisionID, At: time.Now().UTC(), Detail: by})
	if err != nil {
		return false, err
	}
	var b link.Backoff
	for {
		_, err := c.link.Store(ctx, link.Expecting(subj, data, 0))
		var conflict *link.ConflictError
		if !errors.As(err, &conflict) {
			return err == nil, err
		}
		there, err := c.link.Read(ctx, streamTranscripts, subj)
		if err == nil { // perhaps an earlier try of this call
			return claimed(there.Data, decisionID, by), nil
		}
		if !errors.Is(err, ErrNotFound) {
			return false, err
		}
		if wait := c.link.Pause(ctx, b.Next(conflict)); wait != nil { // the store is full
			return false, errors.Join(wait, conflict)
		}
	}
}

// claimed reports whether a stored claim is the one of a caller.
func claimed(raw []byte, decisionID, by string) bool {
	var a hitl.Ack
	return hitl.Decode(raw, "claim", &a) == nil && a.V == 1 && a.Stage == subject.Taken && a.Detail == by && a.DecisionID == decisionID
}

// Taken reports whether the server has a claim of an interaction's approval.
func (c *Client) Taken(ctx context.Context, ref subject.Ref) (bool, error) {
	_, err := c.read(ctx, streamTranscripts, subject.Ack(ref, subject.Taken))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Stored is a request as the server has it among the open ones; ErrNotFound if it
// is not there.
func (c *Client) Stored(ctx context.Context, ref subject.Ref) (*hitl.Request, error) {
	raw, err := c.read(ctx, streamRequests, subject.Request(ref))
	if err != nil {
		return nil, err
	}
	return hitl.ParseRequest(raw)
}

func (c *Client) read(ctx context.Context, stream, subj string) ([]byte, error) {
	if !c.link.Begin() {
		return nil, ErrClosed
	}
	defer c.link.End()
	ctx, cancel := c.link.Bound(ctx)
	defer cancel(nil)
	m, err := c.link.Read(ctx, stream, subj)
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}
