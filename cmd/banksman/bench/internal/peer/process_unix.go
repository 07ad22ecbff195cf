//go:build unix

package peer

import "syscall"

// alone keeps a terminal's Ctrl-C from a server, and runs it as another user if
// one is given.
func alone(as *account) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if as != nil {
		a.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	return a
}
