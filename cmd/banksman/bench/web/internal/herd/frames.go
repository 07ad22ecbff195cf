package herd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// A client of the least code, so that what is measured is the server: it takes
// no more than a raw reader of messages with a length before them.

const (
	opText  = 0x1
	opClose = 0x8
)

// frames reads messages of a server. What next returns holds until the next call.
type frames struct {
	r   *bufio.Reader
	buf []byte
}

func (f *frames) next() ([]byte, error) {
	var head [10]byte
	for {
		if _, err := io.ReadFull(f.r, head[:2]); err != nil {
			return nil, err
		}
		n := uint64(head[1] & 0x7f)
		switch n {
		case 126:
			if _, err := io.ReadFull(f.r, head[2:4]); err != nil {
				return nil, err
			}
			n = uint64(binary.BigEndian.Uint16(head[2:4]))
		case 127:
			if _, err := io.ReadFull(f.r, head[2:10]); err != nil {
				return nil, err
			}
			n = binary.BigEndian.Uint64(head[2:10])
		}
		if n > 64<<20 {
			return nil, errors.New("a message of more than 64 MiB")
		}
		if uint64(cap(f.buf)) < n {
			f.buf = make([]byte, n)
		}
		f.buf = f.buf[:n]
		if _, err := io.ReadFull(f.r, f.buf); err != nil {
			return nil, err
		}
		switch head[0] & 0x0f {
		case opText:
			return f.buf, nil
		case opClose:
			code := 0
			if n >= 2 {
				code = int(binary.BigEndian.Uint16(f.buf))
			}
			return nil, fmt.Errorf("closed with %d", code)
		}
	}
}

// Header begins an unmasked text message of n bytes.
func Header(n int) []byte {
	switch {
	case n < 126:
		return []byte{0x80 | opText, byte(n)}
	case n < 1<<16:
		return binary.BigEndian.AppendUint16([]byte{0x80 | opText, 126}, uint16(n))
	}
	return binary.BigEndian.AppendUint64([]byte{0x80 | opText, 127}, uint64(n))
}

// send writes a client's frame. Its mask is zero, which masks nothing.
func send(conn net.Conn, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	head := Header(len(raw))
	head[1] |= 0x80
	_, err = conn.Write(append(append(head, 0, 0, 0, 0), raw...))
	return err
}

// dial connects, and upgrades unless raw.
func dial(ctx context.Context, addr string, raw bool, control ...func(network, address string, c syscall.RawConn) error) (net.Conn, *frames, error) {
	var d net.Dialer
	for _, fn := range control {
		d.Control = fn
	}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	f := &frames{r: bufio.NewReaderSize(conn, 2<<10)}
	if raw {
		return conn, f, nil
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, err = fmt.Fprintf(conn, "GET /api/ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", addr)
	for first := true; err == nil; first = false {
		var line []byte
		if line, err = f.r.ReadSlice('\n'); err != nil {
			break
		}
		if first && !bytes.Contains(line, []byte(" 101 ")) {
			err = fmt.Errorf("no upgrade: %s", bytes.TrimSpace(line))
		} else if len(bytes.TrimSpace(line)) == 0 {
			return conn, f, nil
		}
	}
	_ = conn.Close()
	return nil, nil, err
}
