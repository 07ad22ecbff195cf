package bus

import (
	"errors"
	"fmt"

	"github.com/banksman/banksman/pkg/bus/internal/link"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

var (
	// ErrClosed: the client was closed, or its connection is gone for good (the
	// server revoked the identity). A process ends then and is started again.
	ErrClosed = link.ErrClosed
	// ErrForbidden: the server does not let this identity do that.
	ErrForbidden = link.ErrForbidden
	// ErrUnavailable: nobody answered a call, or nothing could be stored in time.
	// Nothing is known about what became of it.
	ErrUnavailable = link.ErrUnavailable
	// ErrNotWriting: the server answers and reads, but stores nothing.
	ErrNotWriting = fmt.Errorf("%w: the server answers but does not write; its disk may be full, read-only or failing", ErrUnavailable)
	// ErrFull: the server has no room for more requests.
	ErrFull = fmt.Errorf("%w: the server has no room for more requests", ErrUnavailable)
	// ErrNotFound: nothing is stored there.
	ErrNotFound = link.ErrNotFound

	// ErrKeyConflict: the key was used for a request with other content.
	ErrKeyConflict = errors.New("bus: the key belongs to a request with other content")
	// ErrBadDecision: the stored decision is signed but was not made for the
	// request that this asker holds. It must not be acted on.
	ErrBadDecision = errors.New("bus: the decision is for another request")
	// ErrStale: another worker has taken the session over.
	ErrStale = errors.New("bus: another worker has the session")
	// ErrOldDecision: a decision of long ago was stored again. It must not be
	// acted on.
	ErrOldDecision = errors.New("bus: an old decision was put back into the record")
	// ErrTurnedAway: the gateway took the request away without a decision,
	// because this owner sends far too many. The text says which quota is used
	// up. The key may be asked with again later.
	ErrTurnedAway = errors.New("bus: the request was turned away")
	// ErrOverQuota: this owner has told so much of its sessions that a gateway
	// stores nothing more of that for now. Nothing was stored. The text says how
	// much it may be.
	ErrOverQuota = link.ErrOverQuota
	// ErrNoDecision: the time is up and there is no decision. The caller denies.
	ErrNoDecision = errors.New("bus: no decision in time")
	// ErrStopped: the wait ended before there was a decision.
	ErrStopped = errors.New("bus: stopped waiting")

	// ErrShutdown is for the cause of a context: cancelling Ask's context with
	// it leaves a keyed request open for a successor, and withdraws another one
	// in a way that does not use up its key.
	ErrShutdown = errors.New("bus: asker shuts down")
)

// TooLargeError is a request that the server could not store together with its
// decision. Nothing was sent.
type TooLargeError = link.TooLargeError

// WaitError is an Ask that ended without a decision. It matches ErrNoDecision
// or ErrStopped, and whatever ended it: the context's error and its cause.
type WaitError struct {
	Ref     subject.Ref
	Attempt int
	// Open says that the request was left open for a successor; otherwise it
	// is being withdrawn.
	Open bool
	// Stored says that the server acknowledged the request.
	Stored bool
	Err    error
}

func (e *WaitError) Error() string {
	return "interaction " + e.Ref.ID + ": " + e.Err.Error()
}

func (e *WaitError) Unwrap() error { return e.Err }

// ServiceError is the refusal of a service call. Body.Code is stable;
// Body.Error is for people.
type ServiceError struct {
	Verb string
	Body wire.Error
}

func (e *ServiceError) Error() string {
	s := e.Verb + ": " + e.Body.Code
	if e.Body.Error != "" {
		s += ": " + e.Body.Error
	}
	for _, f := range e.Body.Fields {
		s += "; " + f.Field + " " + f.Problem
	}
	return s
}
