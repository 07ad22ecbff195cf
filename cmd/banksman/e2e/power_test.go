package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
)

// step is a system call on a file of the store, with when it began and ended.
type step struct {
	begin, end time.Duration // since the epoch
	call       string
	path, to   string // to: of a rename
	n, at      int64  // bytes written, and where; at -1: behind what is there
	sync       bool   // openat: every write is flushed
	clear      bool   // openat: what was there is gone
}

var (
	lineRx  = regexp.MustCompile(`^(\d+)\.(\d{6}) (\w+)\((.*)\)\s+= (\d+)(?:<([^>]*)>)? <(\d+)\.(\d{6})>$`)
	fdRx    = regexp.MustCompile(`^\d+<([^>]*)>`)
	pathRx  = regexp.MustCompile(`"([^"]*)"`)
	placeRx = regexp.MustCompile(`, (\d+), (\d+)$`)
)

// steps reads what strace wrote of each thread, in the order of time.
func steps(t *testing.T, logs string) []step {
	t.Helper()
	files, err := filepath.Glob(logs + ".*")
	require.NoError(t, err)
	var all []step
	micros := func(s, us string) time.Duration {
		a, _ := strconv.ParseInt(s, 10, 64)
		b, _ := strconv.ParseInt(us, 10, 64)
		return time.Duration(a)*time.Second + time.Duration(b)*time.Microsecond
	}
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			m := lineRx.FindStringSubmatch(lines.Text())
			if m == nil {
				continue // it failed, or never ended
			}
			st := step{begin: micros(m[1], m[2]), call: m[3], at: -1}
			st.end = st.begin + micros(m[7], m[8])
			st.n, _ = strconv.ParseInt(m[5], 10, 64)
			if fd := fdRx.FindStringSubmatch(m[4]); fd != nil {
				st.path = fd[1]
			}
			switch st.call {
			case "openat":
				st.path = m[6]
				st.sync, st.clear = strings.Contains(m[4], "O_SYNC"), strings.Contains(m[4], "O_TRUNC")
			case "renameat", "rename", "renameat2":
				p := pathRx.FindAllStringSubmatch(m[4], 2)
				if len(p) < 2 {
					continue
				}
				st.path, st.to = p[0][1], p[1][1]
			case "pwrite64":
				if p := placeRx.FindStringSubmatch(m[4]); p != nil {
					st.at, _ = strconv.ParseInt(p[2], 10, 64)
				}
			case "ftruncate":
				_, size, _ := strings.Cut(m[4], ", ")
				st.n, _ = strconv.ParseInt(size, 10, 64)
			}
			all = append(all, st)
		}
		require.NoError(t, f.Close())
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Compare(a.begin, b.begin) })
	return all
}

// losePower cuts every file below dir to what was flushed of it: what a power
// loss leaves where nothing else had reached the disk. It returns how many
// bytes that cost.
func losePower(t *testing.T, dir string, all []step) (lost int64) {
	t.Helper()
	type state struct {
		size, flushed int64
		sync, written bool
		writes        []step // not flushed yet
	}
	files := map[string]*state{}
	for _, st := range all {
		if !strings.HasPrefix(st.path, dir) {
			continue
		}
		f := files[st.path]
		if f == nil {
			f = &state{}
			files[st.path] = f
		}
		switch st.call {
		case "openat":
			if st.clear {
				*f = state{written: true}
			}
			f.sync = st.sync
		case "write", "pwrite64":
			if st.at < 0 {
				st.at = f.size
			}
			f.size, f.written = max(f.size, st.at+st.n), true
			if f.sync {
				f.flushed = f.size
			} else {
				f.writes = append(f.writes, st)
			}
		case "ftruncate":
			f.size, f.flushed = st.n, min(f.flushed, st.n)
		case "fsync", "fdatasync":
			// What was still being written when the flush began may be left out.
			f.writes = slices.DeleteFunc(f.writes, func(w step) bool {
				if w.end <= st.begin {
					f.flushed = max(f.flushed, w.at+w.n)
				}
				return w.end <= st.begin
			})
		case "renameat", "rename", "renameat2":
			files[st.to] = f
			delete(files, st.path)
		}
	}
	for path, f := range files {
		info, err := os.Stat(path)
		if err != nil || !f.written || !info.Mode().IsRegular() || info.Size() <= f.flushed {
			continue
		}
		t.Logf("%s: %d of %d bytes flushed", strings.TrimPrefix(path, dir), f.flushed, info.Size())
		lost += info.Size() - f.flushed
		require.NoError(t, os.Truncate(path, f.flushed))
	}
	return lost
}

// A server that loses its power keeps what it acknowledged under the default
// durability. Under the relaxed one it does not: the same check finds that.
func TestPowerLoss_B48_invariant3(t *testing.T) {
	t.Parallel()
	for durability, keeps := range map[string]bool{"always": true, "relaxed": false} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			port := strconv.Itoa(freePort(t))
			r := h.run("creds", "--port", port, "--durability", durability)
			require.Zero(t, r.code, r.stderr)
			logs := filepath.Join(t.TempDir(), "calls")
			conf := filepath.Join(h.data, "nats", "server.conf")
			strace, err := exec.LookPath("strace")
			require.NoError(t, err, "strace is missing: make setup installs it")
			nats := start(t, h.env, strace, "-ff", "--seccomp-bpf", "-y", "-ttt", "-T", "-s", "0", "-o", logs,
				"-e", "trace=openat,write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2",
				filepath.Join(bin, "nats-server"), "-c", conf)
			nats.line(`Server is ready`)
			require.Eventually(t, func() bool {
				r = h.run("creds", "--provision")
				return r.code == 0
			}, patience, 100*time.Millisecond, "%s", r.stderr)
			gw, token := h.gateway(t)

			const asked, decided = 8, 4
			var askers []*process
			for i := range asked {
				askers = append(askers, h.ask("--tool", "Bash", "--input", fmt.Sprintf(`{"command":"make %d"}`, i), "--key", fmt.Sprint(i)))
			}
			open := gw.waiting(token, asked) // each stored, and acknowledged to its asker
			for _, a := range askers {
				a.line(`Waiting for a decision`)
			}
			acknowledged := map[string]string{}
			for i := range decided {
				code, body := gw.decide(token, &open[i], hitl.VerbDeny)
				require.Equal(t, 200, code, body)
				acknowledged[open[i].Key] = "closed"
			}
			for i := decided; i < asked; i++ {
				acknowledged[open[i].Key] = "pending"
			}
			for _, a := range askers {
				a.kill()
			}
			nats.kill()
			gw.kill()

			lost := losePower(t, filepath.Join(h.data, "nats", "store"), steps(t, logs))
			t.Logf("%d bytes had not been flushed", lost)
			h.startServer(t)
			require.Eventually(t, func() bool {
				r = h.run("creds", "--provision")
				return r.code == 0
			}, patience, 100*time.Millisecond, "%s", r.stderr)
			gw, token = h.gateway(t)
			// What became of what was acknowledged; nothing else may become of it.
			again, gone, undecided := 0, 0, 0
			for key, state := range acknowledged {
				code, body := gw.call("GET", "/api/interactions/"+key, token, nil)
				var ix struct {
					State   string
					Outcome hitl.Outcome
				}
				if code == 404 {
					gone++
					continue
				}
				require.Equal(t, 200, code, body)
				require.NoError(t, json.Unmarshal([]byte(body), &ix))
				switch {
				case ix.State == state && (state == "pending" || ix.Outcome == hitl.Denied):
					again++
				case state == "closed" && ix.State == "pending":
					undecided++
				default:
					require.Fail(t, "neither kept nor lost", "%s was %s: %s", key, state, body)
				}
			}
			t.Logf("%d are there, %d are gone, %d lost their decision", again, gone, undecided)
			if keeps {
				require.Equal(t, asked, again, "acknowledged and not there any more")
			} else {
				require.Positive(t, lost, "everything was flushed")
				require.Positive(t, gone+undecided, "nothing was flushed and nothing is missing: the check finds no loss")
			}
		})
	}
}
