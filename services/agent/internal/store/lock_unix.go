//go:build unix

package store

import (
	"os"
	"syscall"
)

func tryLock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if err == syscall.EWOULDBLOCK {
			return ErrInUse
		}
		return err
	}
	return nil
}
