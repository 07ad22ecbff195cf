// Package journal is what a gateway writes and reads: the streams, their
// configuration, and the rules by which a record counts.
//
// [Journal] is the interface; the JetStream implementation is the real one, the
// memory implementation in package hitltest serves fast tests. Both pass the
// same conformance suite.
//
// Streams that askers write to are read with a pull reader of this package's
// own, because headers that an asker stored can otherwise be taken for the
// server's own words.
package journal
