package run

import (
	"runtime/debug"
	"sync"
)

// growing is how many times what is in use the heap may get meanwhile, in percent.
const growing = 400

var grow struct {
	sync.Mutex
	users, before int
}

// Growing lets the heap grow further between collections until the result is called:
// for reading much that stays, where collecting it on the way is work for nothing.
// GOMEMLIMIT still bounds it.
func Growing() (done func()) {
	grow.Lock()
	defer grow.Unlock()
	if grow.users++; grow.users == 1 {
		if grow.before = debug.SetGCPercent(growing); grow.before < 0 || grow.before > growing {
			debug.SetGCPercent(grow.before) // somebody knows better
		}
	}
	return sync.OnceFunc(func() {
		grow.Lock()
		defer grow.Unlock()
		if grow.users--; grow.users == 0 {
			debug.SetGCPercent(grow.before)
		}
	})
}
