// Package hitltest is what tests of the other packages stand on: a journal in
// memory and the conformance suite that every journal passes. It is for tests
// and development commands only.
package hitltest
