//go:build linux || darwin

package metrics

import "syscall"

// Room is how many bytes may still be stored on the disk with dir, and its size; 0
// is unknown.
func Room(dir string) (free, size uint64) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0
	}
	block := uint64(s.Bsize)
	return s.Bavail * block, s.Blocks * block
}
