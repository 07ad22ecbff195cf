// Package bus is the client of everybody who is not a gateway: programs and
// workers that ask, and callers of the service API. It speaks to the streams
// with the rights of one identity ([Credentials]) and needs no more than those:
// raw publishes, raw Direct Gets, one pull of a work queue; it makes no streams
// and no consumers.
//
// What it promises:
//
//   - [Client.Ask] blocks until there is a decision that a gateway signed for
//     exactly the bytes this asker holds, and returns nothing else as one. When
//     it cannot get one it says so with an error, and the caller must not act.
//   - Asking again with the same key is the same interaction: after a restart,
//     from two goroutines, or after a write whose answer was lost.
//   - Servers may restart and connections may break at any moment; calls go on
//     where they were, until their context ends.
//   - A forbidden step is [ErrForbidden] at once, never a timeout.
package bus
