//go:build unix

package proc

import "syscall"

// ownGroup keeps a terminal's Ctrl-C from the parts: their parent ends them.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
