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
// A configuration is a YAML file, of which JSON is a part, mode 0600 where it
// holds secrets, the same for all replicas. Channels alone are told of everything;
// with recipients and routes it says who is told of what, when, and how often.
// docs/notifications.md describes it.
//
// A webhook gets CloudEvents of the types banksman.interaction.opened, .reminder
// and .closed, banksman.digest and banksman.test, signed as Standard Webhooks
// describes. The subject is the interaction's key and the same in all that are
// about it; the data are title, headline, agent, session, project, risk, kind,
// tool (its name), expires_at, link and recipient, at the end outcome, decided_by
// and at, and of a digest how many it stands for. Texts are plain display text.
//
// Other channels say the same in words (internal/channel/words). Where a platform
// can change a message, the end takes the place of what was sent.
//
// The notifier has a bus account of its own, in which nothing can be decided.
package notifier
