//go:build unix && !linux

package claude

import "syscall"

// processAttr puts the child into a process group of its own. Only Linux can
// kill a child with its parent; elsewhere this takes a guard.
func processAttr(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adoptOrphans exists on Linux only.
func adoptOrphans() {}
