package socket

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// untaken is how many written bytes the peer's end has not acknowledged; 0 where
// nobody can tell.
func untaken(c syscall.RawConn) int {
	if c == nil {
		return 0
	}
	n := 0
	// Of a connection that is closed n stays 0.
	_ = c.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return n
}
