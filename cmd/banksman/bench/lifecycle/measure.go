package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/banksman/banksman/cmd/banksman/internal/creds"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/wire"
)

// say tells what happens.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

type options struct {
	open, settled, rounds int
	bin, data             string
}

// row is one case: so many open, so many settled on top.
type row struct {
	open, settled       int
	disk                int64         // bytes of the store
	stop                time.Duration // of the server, in good order
	server, serverCrash time.Duration // its start after a good stop, and after kill -9
	serverMemory        int64
	starts              []startup
}

// startup is one start of the gateway.
type startup struct {
	ready, load     time.Duration // from exec; inside the process
	cpu             time.Duration // processor time until then
	read            int           // stored messages
	memory, highest int64
	page            time.Duration // a signed-in page: from its handshake to the end of the snapshot
	frames, shown   int
	bytes           int64
	idle            time.Duration // processor time in idleFor
}

const idleFor = 10 * time.Second

func measure(ctx context.Context, o options) (rows []row, err error) {
	l := &lab{options: o}
	defer func() { err = errors.Join(err, l.gateway.stop(syscall.SIGTERM), l.server.stop(syscall.SIGTERM)) }()
	made, err := l.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if !made {
		say("measuring the store in %s as it is", o.data)
		r, err := l.row(ctx, -1)
		return []row{r}, err
	}
	r, err := l.row(ctx, 0)
	if err != nil || o.settled == 0 {
		return append(rows, r), err
	}
	rows = append(rows, r)
	r.print(os.Stderr)
	s, err := openStore(ctx, o.data)
	if err != nil {
		return rows, err
	}
	s.model = l.model
	err = s.settled(ctx, o.settled)
	s.close()
	if err != nil {
		return rows, err
	}
	r, err = l.row(ctx, o.settled)
	return append(rows, r), err
}

// lab is the server and the gateway that run now.
type lab struct {
	options
	server, gateway *process
	addr, token     string
	model           model
}

// prepare starts the server and, where the store is new, makes the open set
// through a real gateway. It reports whether it did.
func (l *lab) prepare(ctx context.Context) (made bool, err error) {
	_, err = os.Stat(natsd.ConfigFile(l.data))
	made = errors.Is(err, os.ErrNotExist)
	if made {
		err := natsd.Write(natsd.Plan{
			Dir: l.data, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed,
			Owners: []natsd.Owner{{Name: owner, Pool: true}},
		})
		if err != nil {
			return made, err
		}
	}
	if err := l.startServer(ctx); err != nil {
		return made, err
	}
	// A store of an earlier version becomes one of this.
	err = creds.Provision(ctx, l.data, nil, journal.Config{
		Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: owner}},
		// As many as shall be here must not push each other out.
		MaxBytes: map[string]int64{journal.Decisions: 16 << 30, journal.Events: 16 << 30, journal.Transcripts: 8 << 30},
	})
	if err != nil || !made {
		return made, err
	}
	s, err := openStore(ctx, l.data)
	if err != nil {
		return made, err
	}
	defer s.close()
	if _, err := l.startGateway(ctx); err != nil {
		return made, err
	}
	if err := s.learn(ctx, l.allow); err != nil {
		return made, err
	}
	l.model = s.model
	began := time.Now()
	if err := s.open(ctx, l.open); err != nil {
		return made, err
	}
	if err := s.caughtUp(ctx); err != nil {
		return made, err
	}
	say("%d requests were stored and taken in within %s", l.open, time.Since(began).Round(100*time.Millisecond))
	return made, l.stopGateway()
}

// row measures the store as it is.
func (l *lab) row(ctx context.Context, settled int) (r row, err error) {
	r = row{open: l.open, settled: settled}
	began := time.Now()
	if err := l.server.stop(syscall.SIGTERM); err != nil {
		return r, err
	}
	r.stop = time.Since(began)
	r.disk = size(filepath.Join(l.data, "nats"))
	if err := l.startServer(ctx); err != nil {
		return r, err
	}
	r.server = l.server.took
	for i := range l.rounds {
		st, err := l.startGateway(ctx)
		if err != nil {
			return r, err
		}
		if err := l.page(ctx, st); err != nil {
			return r, err
		}
		if st.shown != l.open {
			return r, fmt.Errorf("the page was shown %d open interactions of %d", st.shown, l.open)
		}
		if i == 0 {
			before := l.gateway.cpu()
			select {
			case <-ctx.Done():
				return r, ctx.Err()
			case <-time.After(idleFor):
			}
			st.idle = l.gateway.cpu() - before
		}
		st.memory, st.highest = l.gateway.memory()
		r.starts = append(r.starts, *st)
		if err := l.stopGateway(); err != nil {
			return r, err
		}
	}
	r.serverMemory, _ = l.server.memory()
	if err := l.server.stop(syscall.SIGKILL); err != nil {
		return r, err
	}
	if err := l.startServer(ctx); err != nil {
		return r, err
	}
	r.serverCrash = l.server.took
	return r, nil
}

func (l *lab) startServer(ctx context.Context) (err error) {
	l.server, err = start(ctx, "Server is ready", filepath.Join(l.bin, "nats-server"), "-c", natsd.ConfigFile(l.data))
	return err
}

func (l *lab) startGateway(ctx context.Context) (*startup, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	l.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	token := filepath.Join(l.data, "token")
	l.gateway, err = start(ctx, "msg=ready", filepath.Join(l.bin, "banksman-gateway"), "-creds",
		natsd.CredentialsFile(l.data, bus.RoleGateway, bus.DefaultTenant, ""), "-listen", l.addr, "-test-login", token,
		"-quota-open", "0", "-quota-open-mib", "0", "-quota-day-mib", "0") // one owner has all there is
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(token)
	l.token = strings.TrimSpace(string(raw))
	st := &startup{ready: l.gateway.took, cpu: l.gateway.cpu()}
	for field := range strings.FieldsSeq(l.gateway.ready) {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "read":
			st.read, _ = strconv.Atoi(value)
		case "took":
			st.load, _ = time.ParseDuration(value)
		}
	}
	return st, err
}

func (l *lab) stopGateway() error {
	g := l.gateway
	l.gateway = nil
	return g.stop(syscall.SIGTERM)
}

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	n, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, _ := n.Addr().(*net.TCPAddr)
	return addr.Port, n.Close()
}

// allow decides as a person does.
func (l *lab) allow(ctx context.Context, id, digest string) error {
	body, err := hitl.Marshal(map[string]string{"digest": digest, "decision": hitl.VerbAllow})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.addr+"/api/interactions/"+id+"/decision", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("decide: %s: %s", res.Status, text)
	}
	return err
}

// page reads the snapshot as a browser does.
func (l *lab) page(ctx context.Context, st *startup) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	conn, _, err := websocket.Dial(ctx, "ws://"+l.addr+"/api/ws", nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(64 << 20)
	hello, err := hitl.Marshal(wire.Client{Type: wire.TypeAuth, Token: l.token})
	if err == nil {
		err = conn.Write(ctx, websocket.MessageText, hello)
	}
	for err == nil {
		var raw []byte
		if _, raw, err = conn.Read(ctx); err != nil {
			return err
		}
		st.bytes += int64(len(raw))
		frames := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &frames); err != nil {
				return err
			}
		}
		for _, f := range frames {
			var p wire.ActiveProcesses
			if err := json.Unmarshal(f, &p); err != nil {
				return err
			}
			if p.Type != wire.TypeActiveProcesses {
				continue
			}
			st.frames++
			for i := range p.Sessions {
				st.shown += p.Sessions[i].PendingCount
			}
			if !p.More {
				st.page = time.Since(began)
				return nil
			}
		}
	}
	return err
}

// size is what the files below dir take, in bytes.
func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

func median[T int | int64 | time.Duration](all []startup, of func(startup) T) T {
	var list []T
	for _, s := range all {
		list = append(list, of(s))
	}
	slices.Sort(list)
	return list[len(list)/2]
}

func (r *row) print(w io.Writer) {
	if len(r.starts) == 0 {
		return
	}
	dur := func(of func(startup) time.Duration) time.Duration {
		return median(r.starts, of).Round(time.Millisecond)
	}
	mb := func(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }
	settled := strconv.Itoa(r.settled)
	if r.settled < 0 {
		settled = "an unknown number"
	}
	fmt.Fprintf(w, "\n%d open, %s settled on top, load average %s\n", r.open, settled, load())
	fmt.Fprintf(w, "  store %s; server: stop %s, start %s, start after kill -9 %s, memory %s\n", mb(r.disk),
		r.stop.Round(time.Millisecond), r.server.Round(time.Millisecond), r.serverCrash.Round(time.Millisecond), mb(r.serverMemory))
	fmt.Fprintf(w, "  gateway: ready %s after exec (load %s, processor %s), %d messages read\n",
		dur(func(s startup) time.Duration { return s.ready }), dur(func(s startup) time.Duration { return s.load }),
		dur(func(s startup) time.Duration { return s.cpu }),
		median(r.starts, func(s startup) int { return s.read }))
	fmt.Fprintf(w, "  gateway: memory %s after a page, highest %s; %s of processor time in %s at rest\n",
		mb(median(r.starts, func(s startup) int64 { return s.memory })),
		mb(median(r.starts, func(s startup) int64 { return s.highest })), r.starts[0].idle, idleFor)
	fmt.Fprintf(w, "  page: snapshot complete after %s, %d frames, %s\n",
		dur(func(s startup) time.Duration { return s.page }), median(r.starts, func(s startup) int { return s.frames }),
		mb(median(r.starts, func(s startup) int64 { return s.bytes })))
}

// load is the load average of the last minute as the system words it.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}
