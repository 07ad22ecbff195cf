package pull

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DecodeHeader reads a stored header block. Whoever stored it chose every
// byte, so lines that make no sense are skipped, and nothing in it is taken
// for the server's word.
func DecodeHeader(raw []byte) map[string][]string {
	if len(raw) == 0 {
		return nil
	}
	h := map[string][]string{}
	for i, line := range strings.Split(string(raw), "\r\n") {
		if i == 0 { // NATS/1.0
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			continue
		}
		h[name] = append(h[name], strings.TrimSpace(value))
	}
	return h
}

const ackPrefix = "$JS.ACK."

// Meta is what the server says of a delivered message, in its reply subject.
type Meta struct {
	Deliveries uint64 // 1 for the first
	Seq        uint64 // in the stream
	Consumer   uint64 // in the consumer, without gap
	Time       time.Time
	Pending    uint64 // messages that follow, by the consumer's knowledge
}

// ParseMeta reads both forms of an ack subject: nine tokens, or at least eleven
// with domain and account before the stream.
func ParseMeta(reply string) (Meta, error) {
	rest, ok := strings.CutPrefix(reply, ackPrefix)
	if !ok {
		return Meta{}, fmt.Errorf("journal: %q is not an ack subject", reply)
	}
	t := strings.Split(rest, ".")
	switch {
	case len(t) == 7:
	case len(t) >= 9:
		t = t[2:]
	default:
		return Meta{}, fmt.Errorf("journal: ack subject %q has %d tokens", reply, len(t)+2)
	}
	// stream, consumer, deliveries, stream sequence, consumer sequence, time, pending
	var n [5]uint64
	for i := range n {
		v, err := strconv.ParseUint(t[i+2], 10, 64)
		if err != nil {
			return Meta{}, fmt.Errorf("journal: ack subject %q: %w", reply, err)
		}
		n[i] = v
	}
	return Meta{
		Deliveries: n[0], Seq: n[1], Consumer: n[2],
		Time: time.Unix(0, int64(n[3])).UTC(), Pending: n[4],
	}, nil
}
