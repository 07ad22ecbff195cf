package link

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed: the link was closed, or its connection is gone for good (the
	// server revoked the identity).
	ErrClosed = errors.New("bus: closed")
	// ErrForbidden: the server does not let this identity do that.
	ErrForbidden = errors.New("bus: forbidden")
	// ErrUnavailable: nobody answered, or nothing could be stored in time.
	// Nothing is known about what became of it.
	ErrUnavailable = errors.New("bus: unavailable")
	// ErrNotFound: nothing is stored there.
	ErrNotFound = errors.New("bus: not found")
	// ErrOverQuota: a gateway does not let more of this into the stream for now.
	ErrOverQuota = errors.New("bus: over the quota of conversation")
)

// TooLargeError is a request that the server could not store together with its
// decision. Nothing was sent.
type TooLargeError struct{ Size, Limit int } // bytes

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the request is %d bytes, the limit is %d", e.Size, e.Limit)
}
