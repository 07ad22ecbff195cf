package relay

import (
	"sync/atomic"
	"time"
)

const (
	// maxBehind is how many requests may be stored that no gateway has taken in,
	// before owners wait for their turn: whoever has it waits behind no more.
	maxBehind = 512
	// backlogAge is how long what was seen of that counts. Nothing comes any more
	// when all is taken in.
	backlogAge = 200 * time.Millisecond
)

// Backlog is how far the gateways were behind when one of them looked last. Its
// methods are safe for concurrent use.
type Backlog struct {
	messages atomic.Uint64
	at       atomic.Int64 // Unix time, ns
}

// Saw notes how many messages come after one that was taken in.
func (b *Backlog) Saw(behind uint64) {
	b.messages.Store(behind)
	b.at.Store(time.Now().UnixNano())
}

// Behind is for Options.
func (b *Backlog) Behind() bool {
	return b.messages.Load() > maxBehind && time.Now().UnixNano()-b.at.Load() < int64(backlogAge)
}
