package herd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// stallLimit bounds the wait for the gateway to cut who does not read.
const stallLimit = time.Minute

// staller follows a busy session and then reads no more, unless it is the one to
// compare with.
type staller struct {
	conn  net.Conn
	since time.Time
	done  chan struct{} // of the one that reads
}

func stall(ctx context.Context, j Job) (*staller, error) {
	conn, in, err := dial(ctx, j.Addr, false, func(_, _ string, c syscall.RawConn) error {
		return errors.Join(c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 8<<10) // a larger one only takes longer
		}))
	})
	if err != nil {
		return nil, err
	}
	s := &staller{conn: conn, done: make(chan struct{})}
	fail := func(err error) (*staller, error) {
		_ = conn.Close()
		return nil, err
	}
	if err := send(conn, map[string]string{"type": "auth", "token": j.Tokens[0]}); err != nil {
		return fail(err)
	}
	if err := send(conn, map[string]string{"type": "subscribe", "session_id": j.Session, "ref": "follow"}); err != nil {
		return fail(err)
	}
	for {
		raw, err := in.next()
		if err != nil {
			return fail(err)
		}
		if bytes.Contains(raw, []byte(`"ref":"follow"`)) {
			break
		}
	}
	s.since = time.Now()
	if !j.Reads {
		close(s.done)
		return s, nil
	}
	go func() {
		defer close(s.done)
		for {
			if _, err := in.next(); err != nil {
				return
			}
		}
	}()
	return s, nil
}

// cut waits until the gateway has closed its end, which the kernel tells, and says
// how long after the stall that was. It closes the socket.
func (s *staller) cut(ctx context.Context) (w Word, err error) {
	defer func() {
		err = errors.Join(err, s.conn.Close())
		<-s.done
	}()
	select {
	case <-s.done:
	default:
		return w, nil // it reads, and nobody cuts it
	}
	for end := time.Now().Add(stallLimit); time.Now().Before(end); {
		open, err := established(s.conn)
		if err != nil {
			return w, err
		}
		if !open {
			w.Took = int64(time.Since(s.since))
			return w, nil
		}
		select {
		case <-ctx.Done():
			return w, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return w, fmt.Errorf("who stalled was not cut within %v", stallLimit)
}

// established reports whether the other end of a loopback connection is still
// open there.
func established(conn net.Conn) (bool, error) {
	raw, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return false, err
	}
	there := fmt.Sprintf(":%04X", conn.RemoteAddr().(*net.TCPAddr).Port)
	here := fmt.Sprintf(":%04X", conn.LocalAddr().(*net.TCPAddr).Port)
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], there) && strings.HasSuffix(f[2], here) {
			return f[3] == "01", nil
		}
	}
	return false, nil
}
