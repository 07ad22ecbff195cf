package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/front"
	"github.com/banksman/banksman/cmd/banksman/bench/web/internal/herd"
	"github.com/banksman/banksman/services/gateway"
)

// The parts that run as processes of their own.
const (
	partGateway = "gateway" // the product
	partFloor   = "floor"   // raw TCP, a goroutine each
	partLoad    = "load"    // the clients
)

// partWord as the first argument makes the binary a part: its name and, of a
// gateway, its data directory follow.
const partWord = "bench-web-part"

func isPart(args []string) bool { return len(args) > 2 && args[1] == partWord }

// hello is the first line a part writes, once it works.
type hello struct {
	Addr  string `json:"addr,omitempty"`
	Token string `json:"token,omitempty"` // of a session that may decide there
	Login string `json:"login,omitempty"` // an address that signs in once
}

// use is what a process takes at rest, or has spent.
type use struct {
	RSS        int64 `json:"rss,omitempty"` // bytes
	Goroutines int   `json:"goroutines,omitempty"`
	CPU        int64 `json:"cpu_ns,omitempty"` // since its start
}

// spent is the processor time of this process so far.
func spent() use {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return use{}
	}
	return use{CPU: r.Utime.Nano() + r.Stime.Nano()}
}

func partMain(ctx context.Context, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	switch p := (&part{in: os.Stdin, out: json.NewEncoder(os.Stdout)}); args[0] {
	case partGateway:
		err = p.gateway(ctx, args[1])
	case partFloor:
		err = p.floor(ctx)
	case partLoad:
		err = p.load(ctx)
	default:
		err = errors.New("unknown part")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

type part struct {
	in  io.Reader
	out *json.Encoder
}

// serve says hello and then does what each line says, until the input ends.
func serve[T any](p *part, h hello, do func(T) any) error {
	if err := p.out.Encode(h); err != nil {
		return err
	}
	lines := bufio.NewScanner(p.in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var job T
		if err := json.Unmarshal(lines.Bytes(), &job); err != nil {
			return err
		}
		if err := p.out.Encode(do(job)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// rest collects garbage, gives memory back, and says what is left.
func rest() use {
	for range 3 {
		runtime.GC()
		debug.FreeOSMemory()
	}
	u := use{Goroutines: runtime.NumGoroutine()}
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return u
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64) // the kernel writes a number
			u.RSS = kb << 10
		}
	}
	return u
}

func (p *part) gateway(ctx context.Context, dir string) error {
	return front.Serve(ctx, dir, gateway.Options{}, func(g *gateway.Gateway, token string) error {
		login, err := g.Login(ctx)
		if err != nil {
			return err
		}
		return serve(p, hello{Addr: g.Addr(), Token: token, Login: login}, func(j serverJob) any { return j.use() })
	})
}

func (p *part) load(ctx context.Context) error {
	l := &herd.Herd{}
	defer l.Close()
	return serve(p, hello{}, func(j herd.Job) any {
		w, err := l.Do(ctx, j)
		if err != nil {
			w.Error = err.Error()
		}
		return w
	})
}

// serverJob has either server say what it uses: at rest, or what it has spent so
// far. With a tag the floor sends.
type serverJob struct {
	Spent bool   `json:"spent,omitempty"`
	Tag   string `json:"tag,omitempty"`
	Count int    `json:"count,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
}

func (j serverJob) use() use {
	if j.Spent {
		return spent()
	}
	return rest()
}

// floor is a TCP server with a goroutine a connection that writes each event to
// one connection after the other.
func (p *part) floor(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var conns []net.Conn
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				var one [1]byte
				_, _ = c.Read(one[:]) // nobody sends: it returns with the connection
			})
		}
	})
	defer func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	}()
	return serve(p, hello{Addr: l.Addr().String()}, func(j serverJob) any {
		if j.Tag == "" {
			return j.use()
		}
		mu.Lock()
		defer mu.Unlock()
		for range j.Count {
			text := event(j.Tag, j.Bytes)
			msg := append(herd.Header(len(text)), text...)
			for _, c := range conns {
				_, _ = c.Write(msg) // who is gone is counted as missing
			}
		}
		return use{}
	})
}

// event is a text of so many bytes that carries its own time.
func event(tag string, size int) string {
	text := herd.Mark(tag) + strconv.FormatInt(time.Now().UnixNano(), 10)
	return text + strings.Repeat("x", max(0, size-len(text)))
}
