// Package proof records what the clients of a run saw and proves from it that
// every interaction was decided once: it searches an order of the operations
// that a model explains, and holds everything that was told against the record.
package proof
