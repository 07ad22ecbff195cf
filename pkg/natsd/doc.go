// Package natsd generates the configuration of a NATS server that holds
// Banksman's streams, with one key per identity, and runs such a server inside
// the process.
//
// The streams and gateways live in account CORE; every owner, caller and
// notifier, and the provisioner, in an account of its own. They reach CORE
// through exports and imports of their own subjects, because a publish
// permission does not cover the reply subject of a message: inside one account,
// a harmless request with the right reply subject makes the server itself store
// a decision, or delete a stream. For the same reason CORE offers the management
// of streams below a secret subject only, which the provisioner's account
// imports. Permissions per user come on top, so that a forbidden step is an
// error at once.
package natsd
