// Package herd is many clients in one process, which count what they are told.
package herd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	openLimit = 5 * time.Minute // until everybody is connected
	waitLimit = time.Minute     // until everybody has an event
	// atOnce is how many connect at a time, where it is not everybody.
	atOnce = 64
)

// Job is what the clients are to do.
type Job struct {
	Op     string   `json:"op"` // open, arm, wait, drop, storm, stall, cut or close
	Addr   string   `json:"addr,omitempty"`
	Raw    bool     `json:"raw,omitempty"` // the floor: no handshake, no sign-in
	Tokens []string `json:"tokens,omitempty"`
	Tag    string   `json:"tag,omitempty"`   // of the events to come
	Count  int      `json:"count,omitempty"` // how many each socket gets
	Keys   []string `json:"keys,omitempty"`  // what waits, for storm
	// Session is followed by the socket of stall, which reads on if Reads.
	Session string `json:"session,omitempty"`
	Reads   bool   `json:"reads,omitempty"`
}

// Word is its answer.
type Word struct {
	Error   string  `json:"error,omitempty"`
	Samples []int64 `json:"samples,omitempty"` // ns from the event's own time
	First   int64   `json:"first,omitempty"`   // ns, the first event's own time
	Last    int64   `json:"last,omitempty"`    // ns, when the last one had the last event
	Bytes   int     `json:"bytes,omitempty"`   // of one message
	Writes  int     `json:"writes,omitempty"`  // messages that brought the events
	Missing int     `json:"missing,omitempty"`
	Doubled int     `json:"doubled,omitempty"`
	Took    int64   `json:"took_ns,omitempty"`
	Tries   int     `json:"tries,omitempty"`
	// Recovered counts the sockets that went on from their cursor.
	Recovered int `json:"recovered,omitempty"`
}

// Herd is many clients. Close ends them.
type Herd struct {
	wg      sync.WaitGroup
	addr    string
	raw     bool
	tokens  []string
	sockets []*client
	armed   atomic.Pointer[arm]
	stalled *staller
}

// arm is what is waited for: count events of a tag at each socket.
type arm struct {
	mark  []byte
	count int
	left  atomic.Int64 // sockets that miss some
	done  chan struct{}
}

// Do does one job.
func (l *Herd) Do(ctx context.Context, j Job) (w Word, err error) {
	switch j.Op {
	case "open":
		l.addr, l.raw, l.tokens = j.Addr, j.Raw, j.Tokens
		err = l.open(ctx)
	case "arm":
		l.arm(j.Tag, j.Count)
	case "wait":
		w = l.wait(ctx)
	case "drop":
		l.Close()
	case "storm":
		w, err = l.storm(ctx, j.Keys)
	case "stall":
		l.stalled, err = stall(ctx, j)
	case "cut":
		w, err = l.stalled.cut(ctx)
		l.stalled = nil
	case "close":
		l.Close()
		l.sockets = nil
	default:
		err = fmt.Errorf("unknown op %q", j.Op)
	}
	return w, err
}

// open connects everybody, some at a time.
func (l *Herd) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	l.sockets = make([]*client, len(l.tokens))
	errs := make([]error, len(l.tokens))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, token := range l.tokens {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c := &client{l: l, token: token}
			l.sockets[i] = c
			if _, errs[i] = c.connect(ctx); errs[i] == nil {
				l.wg.Go(c.read)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("socket %d: %w", i, err)
		}
	}
	return nil
}

// Close leaves, and waits for the readers.
func (l *Herd) Close() {
	for _, c := range l.sockets {
		if c != nil && c.conn != nil {
			_ = c.conn.Close()
		}
	}
	l.wg.Wait()
}

func (l *Herd) arm(tag string, count int) {
	a := &arm{mark: []byte(Mark(tag)), count: count, done: make(chan struct{})}
	a.left.Store(int64(len(l.sockets)))
	for _, c := range l.sockets {
		c.mu.Lock()
		c.seen, c.samples, c.writes, c.doubled = c.seen[:0], c.samples[:0], 0, 0
		c.mu.Unlock()
	}
	l.armed.Store(a)
}

func (l *Herd) wait(ctx context.Context) (w Word) {
	a := l.armed.Load()
	select {
	case <-a.done:
	case <-ctx.Done():
	case <-time.After(waitLimit):
	}
	for _, c := range l.sockets {
		c.mu.Lock()
		w.Samples = append(w.Samples, c.samples...)
		for i, at := range c.seen {
			if w.First == 0 || at < w.First {
				w.First = at
			}
			w.Last = max(w.Last, at+c.samples[i])
		}
		w.Missing += a.count - len(c.samples)
		w.Doubled += c.doubled
		w.Writes += c.writes
		w.Bytes = max(w.Bytes, c.bytes)
		c.mu.Unlock()
	}
	return w
}

// storm has everybody come back at the same moment, with the cursor each had, and
// waits until each knows what waits. Who is refused tries again with full jitter,
// as a page does.
func (l *Herd) storm(ctx context.Context, keys []string) (w Word, err error) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	var tries, recovered, missing, doubled atomic.Int64
	errs := make([]error, len(l.sockets))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, c := range l.sockets {
		wg.Go(func() {
			<-start
			for n := 0; ; n++ {
				tries.Add(1)
				back, err := c.comeBack(ctx, keys)
				if err == nil {
					recovered.Add(int64(back.recovered))
					missing.Add(int64(back.missing))
					doubled.Add(int64(back.doubled))
					break
				}
				if errs[i] = err; ctx.Err() != nil {
					return
				}
				time.Sleep(rand.N(min(30*time.Second, time.Second<<min(n, 5))))
			}
			errs[i] = nil
			l.wg.Go(c.read)
		})
	}
	began := time.Now()
	close(start)
	wg.Wait()
	w = Word{
		Took: int64(time.Since(began)), Tries: int(tries.Load()), Recovered: int(recovered.Load()),
		Missing: int(missing.Load()), Doubled: int(doubled.Load()),
	}
	for _, e := range errs {
		if e != nil {
			return w, e
		}
	}
	return w, nil
}

// client is one socket. The reader alone uses conn; mu guards the rest.
type client struct {
	l      *Herd
	token  string
	conn   net.Conn
	in     *frames
	mu     sync.Mutex
	cursor string
	bytes  int
	// Since the last arm: the events' own times, and what came of them.
	seen            []int64
	samples         []int64
	writes, doubled int
}

// connect signs in and reads until the snapshot, or what was missed, is complete
// as far as hello tells. It reports whether the cursor was good.
func (c *client) connect(ctx context.Context) (recovered bool, err error) {
	conn, in, err := dial(ctx, c.l.addr, c.l.raw)
	if err != nil {
		return false, err
	}
	c.conn, c.in = conn, in
	if c.l.raw {
		return false, nil
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	c.mu.Lock()
	auth := map[string]string{"type": "auth", "token": c.token, "cursor": c.cursor}
	c.mu.Unlock()
	if err := send(conn, auth); err != nil {
		return false, err
	}
	for {
		raw, err := in.next()
		if err != nil {
			return false, err
		}
		c.take(raw, time.Now().UnixNano())
		if bytes.Contains(raw, []byte(`"recovered":true`)) {
			return true, nil
		}
		if bytes.Contains(raw, []byte(`"more":false`)) {
			return false, nil
		}
	}
}

// back is what one socket found when it came back.
type back struct{ recovered, missing, doubled int }

// comeBack connects and reads until everything that waits is known.
func (c *client) comeBack(ctx context.Context, keys []string) (b back, err error) {
	conn, in, err := dial(ctx, c.l.addr, false)
	if err != nil {
		return b, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	c.mu.Lock()
	auth := map[string]string{"type": "auth", "token": c.token, "cursor": c.cursor}
	c.mu.Unlock()
	if err := send(conn, auth); err != nil {
		return b, err
	}
	known, frames := map[string]bool{}, map[string]bool{}
	newest := ""
	for len(known) < len(keys) {
		raw, err := in.next()
		if err != nil {
			return b, err
		}
		list := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &list); err != nil {
				return b, err
			}
		}
		for _, one := range list {
			var f struct {
				Type      string       `json:"type"`
				Cursor    string       `json:"cursor"`
				Session   string       `json:"session_key"`
				Recovered bool         `json:"recovered"`
				Pending   []pendingKey `json:"pending_requests"`
				Sessions  []struct {
					Pending []pendingKey `json:"pending_requests"`
				} `json:"sessions"`
			}
			if err := json.Unmarshal(one, &f); err != nil {
				return b, err
			}
			if f.Cursor != "" {
				newest = f.Cursor
			}
			switch f.Type {
			case "hello":
				if f.Recovered {
					b.recovered = 1
				}
			case "process_state":
				if at := f.Session + " " + f.Cursor; frames[at] {
					b.doubled++
				} else {
					frames[at] = true
				}
			}
			for _, s := range f.Sessions {
				f.Pending = append(f.Pending, s.Pending...)
			}
			for _, p := range f.Pending {
				known[p.Key] = true
			}
		}
	}
	for _, k := range keys {
		if !known[k] {
			b.missing++
		}
	}
	c.mu.Lock()
	c.cursor = newest
	c.mu.Unlock()
	c.conn, c.in = conn, in
	return b, nil
}

type pendingKey struct {
	Key string `json:"key"`
}

// read takes what comes until the connection ends.
func (c *client) read() {
	for {
		raw, err := c.in.next()
		if err != nil {
			return
		}
		c.take(raw, time.Now().UnixNano())
	}
}

var (
	cursorMark = []byte(`"cursor":"`)
	pingMark   = []byte(`{"type":"ping"`)
)

// take notes what a message brings; several events may come in one.
func (c *client) take(raw []byte, now int64) {
	if bytes.Contains(raw, pingMark) {
		_ = send(c.conn, map[string]string{"type": "pong"}) // what fails, the next read tells
	}
	a := c.l.armed.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := bytes.LastIndex(raw, cursorMark); i >= 0 {
		rest := raw[i+len(cursorMark):]
		if end := bytes.IndexByte(rest, '"'); end > 0 && string(rest[:end]) != c.cursor {
			c.cursor = string(rest[:end])
		}
	}
	if a == nil {
		return
	}
	found := false
	for rest := raw; ; {
		i := bytes.Index(rest, a.mark)
		if i < 0 || len(rest) < i+len(a.mark)+19 {
			break
		}
		rest = rest[i+len(a.mark):]
		at, err := strconv.ParseInt(string(rest[:19]), 10, 64)
		if err != nil {
			continue
		}
		found = true
		if contains(c.seen, at) {
			c.doubled++
			continue
		}
		c.seen, c.samples = append(c.seen, at), append(c.samples, now-at)
		if len(c.samples) == a.count && a.left.Add(-1) == 0 {
			close(a.done)
		}
	}
	if found {
		c.writes++
		c.bytes = len(raw)
	}
}

func contains(list []int64, v int64) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// Mark stands before an event's own time, 19 digits of ns.
func Mark(tag string) string { return "@@" + tag + ":" }
