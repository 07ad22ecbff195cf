// Package secretfile reads secrets that lie in files of their own.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ErrMode: the file holds secrets and others may read it.
var ErrMode = errors.New("file mode is too open")

// maxFile bounds a file, in bytes.
const maxFile = 64 << 10

// Read reads a file that nobody else may read, without the white space around
// what is in it.
func Read(dir, file string) (string, error) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file", file)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return "", fmt.Errorf("%w: %s is %04o, want 0600 (chmod 600 it)", ErrMode, file, perm)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(raw))
	switch {
	case len(raw) > maxFile:
		return "", fmt.Errorf("%s is larger than %d bytes", file, maxFile)
	case text == "":
		return "", fmt.Errorf("%s is empty", file)
	}
	return text, nil
}
