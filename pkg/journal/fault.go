package journal

import (
	"errors"
	"fmt"
	"strings"
)

// Why a write was not stored, as far as a client can tell. The server says
// nothing at all when its disk fails.
var (
	// ErrFull: the stream, or the server's storage, has reached its limit.
	ErrFull = errors.New("the stream is full")
	// ErrDisk: the server reads and does not write.
	ErrDisk = errors.New("the server answers but does not write: its disk may be full, read-only or failing")
	// ErrOffline: the server does not answer, or has switched its streams off.
	ErrOffline = errors.New("the server cannot be reached, or has switched its streams off")
)

// cause tells why a publish failed with err, after which a read of the same
// stream ended with readErr.
func cause(err, readErr error) error {
	switch {
	case full(err):
		return ErrFull
	case apiCode(err) != 0 || !errors.Is(readErr, ErrNotFound) && apiCode(readErr) != 0:
		return nil // the server has said something else
	case errors.Is(readErr, ErrNotFound):
		return ErrDisk
	}
	return ErrOffline
}

// full reports whether the server refused a message because of a limit that
// is not the message's own.
func full(err error) bool {
	var e *APIError
	if !errors.As(err, &e) {
		return false
	}
	switch e.ErrCode {
	case codeNoResources, codeNoStorage:
		return true
	case codeStoreFailed:
		// The code also stands for the limit of one message per subject.
		return strings.Contains(e.Description, "maximum bytes")
	}
	return false
}

// because adds a cause, where one is known, to what ended a write.
func because(err, why error) error {
	if why == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, why)
}
