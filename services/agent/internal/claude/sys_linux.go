package claude

import "syscall"

// processAttr puts the child into a process group of its own, out of reach of
// the terminal's signals. dieWithParent has the kernel kill it with its parent.
func processAttr(dieWithParent bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if dieWithParent {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}

const prSetChildSubreaper = 36

// adoptOrphans makes descendants that lose their parent children of this
// process, so that it can end them.
func adoptOrphans() {
	// An old kernel refuses; then only the process group is killed.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}
