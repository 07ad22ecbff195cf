//go:build !unix || solaris || aix

package natsd

import (
	"errors"
	"os"
)

// lockFile refuses: without a lock that the system releases, two servers could
// write to one store.
func lockFile(path string, _ bool) (*fileLock, error) {
	return nil, &os.PathError{Op: "lock", Path: path, Err: errors.ErrUnsupported}
}
