// Package natsd generates the configuration of a NATS server that holds
// Banksman's streams, with one account and one key per identity, and runs such
// a server inside the process.
//
// The streams live in account CORE, the gateways in GATEWAY, every owner, caller
// and notifier in an account of its own. They reach each other through exports
// and imports of their own subjects, because a publish permission does not cover
// the reply subject of a message: inside one account, a harmless request with
// the right reply subject makes the server itself store a decision or delete a
// stream. Permissions per user come on top, so that a forbidden step is an error
// at once.
package natsd
