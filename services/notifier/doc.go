// Package notifier is the service that tells people outside the browser: it
// follows what opens and closes, and alerts channels of what waits.
//
// Every delivery is written down in a ledger before its event is acknowledged
// and claimed there before it goes out, so replicas share the work, a killed
// notifier's work is taken over, and what is recorded as sent is never sent
// again. A delivery whose sender was killed while sending goes out a second time
// under the same message id; a receiver that keeps the ids sees it once.
//
// Nothing is sent about an interaction that has its outcome, except to a
// channel that was told before: that one is told how it ended, once.
//
// The notifier has a bus account of its own, in which nothing can be decided.
package notifier
