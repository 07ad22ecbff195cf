//go:build unix

package rig

import (
	"os"
	"syscall"
)

// ownGroup keeps a terminal's Ctrl-C from the parts: their parent ends them.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// pauseProcess stops a process where it stands, or lets it go on.
func pauseProcess(p *os.Process, pause bool) error {
	if pause {
		return p.Signal(syscall.SIGSTOP)
	}
	return p.Signal(syscall.SIGCONT)
}
