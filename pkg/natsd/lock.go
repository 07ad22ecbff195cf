package natsd

import (
	"errors"
	"os"
)

// errLocked: another process holds the lock.
var errLocked = errors.New("locked by another process")

// fileLock is an exclusive lock on a file. The kernel releases it when the
// process ends, however it ends; the file itself stays.
type fileLock struct{ f *os.File }

func (l *fileLock) release() { _ = l.f.Close() }
