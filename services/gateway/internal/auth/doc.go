// Package auth knows people: the links they sign in with, the sessions they
// then have, and the requests of terminals to act for them.
//
// Everything is kept in one key-value bucket that all gateways share, so a
// restart signs nobody out and any gateway can check any token. A token is 32
// random bytes; the bucket holds its SHA-256 only, so that a copy of the bucket
// signs nobody in. What may be used once is taken by compare-and-swap: of any
// number of racing uses, on any number of gateways, one wins.
package auth
