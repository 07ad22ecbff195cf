package socket

import (
	"bufio"
	"net"
	"net/http"
)

// Buffers of a socket, in bytes. The server's own are 4 KiB each and would be
// held as long as the socket. What clients say fits the first mostly; through the
// second go goodbyes and answers to pings only, of 127 bytes at most.
const (
	readBuffer  = 512
	writeBuffer = 128
)

// smallBuffers hands a hijacked connection over with small buffers.
type smallBuffers struct {
	http.ResponseWriter
	raw net.Conn // once hijacked
}

func (w *smallBuffers) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *smallBuffers) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	// The 101 answer is in the old writer; what the client sent already is in
	// the old reader and must come first.
	if err := rw.Writer.Flush(); err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	w.raw = conn
	c := &earlyConn{Conn: conn, early: append([]byte(nil), early...)}
	return c, bufio.NewReadWriter(bufio.NewReaderSize(c, readBuffer), bufio.NewWriterSize(conn, writeBuffer)), nil
}

// earlyConn gives back what was read too early. One goroutine reads.
type earlyConn struct {
	net.Conn
	early []byte
}

func (c *earlyConn) Read(p []byte) (int, error) {
	if len(c.early) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.early)
	if c.early = c.early[n:]; len(c.early) == 0 {
		c.early = nil
	}
	return n, nil
}
