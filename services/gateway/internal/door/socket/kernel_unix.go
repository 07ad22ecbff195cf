//go:build unix

package socket

import (
	"errors"
	"syscall"
)

// neverWaits: Go's connections are non-blocking here.
const neverWaits = true

// writeNow writes what the kernel takes at once.
func writeNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return 0, err
		}
	}
}

// again reports that the kernel takes nothing more for now.
func again(err error) bool { return errors.Is(err, syscall.EAGAIN) }
