package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/proc"
	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	owner = "agents"
	// patience bounds the wait for what has to come.
	patience = 2 * time.Minute
	secret   = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
)

// lab is an installation with a provider.
type lab struct {
	dir              string
	server, provider *process
	others           []*process
	nc               *nats.Conn
	events           *journal.JetStream
	made             int // interactions
}

// process is a part as its parent sees it.
type process struct {
	*proc.Process
	hello hello
}

func start(ctx context.Context, cfg partConfig) (*process, error) {
	arg, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	p := &process{}
	p.Process, err = proc.Start(ctx, cfg.Part, []string{partWord, string(arg)}, &p.hello)
	return p, err
}

func (p *process) stop() error {
	if p == nil || p.Process == nil {
		return nil
	}
	return p.Stop()
}

// newLab makes a fresh installation below root.
func newLab(ctx context.Context, root string, d natsd.Durability) (l *lab, err error) {
	l = &lab{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.dir, err = os.MkdirTemp(root, "lab-"); err != nil {
		return l, err
	}
	err = natsd.Write(natsd.Plan{Dir: l.dir, Port: natsd.RandomPort, Durability: d, Owners: []natsd.Owner{{Name: owner}}})
	if err != nil {
		return l, err
	}
	if l.server, err = start(ctx, partConfig{Part: partServer, Dir: l.dir}); err != nil {
		return l, err
	}
	prov, err := connect(l.dir, bus.RoleProvisioner)
	if err != nil {
		return l, err
	}
	defer prov.Close()
	if err := journal.Provision(ctx, prov, journal.Config{}); err != nil {
		return l, err
	}
	if l.nc, err = connect(l.dir, bus.RoleGateway); err != nil {
		return l, err
	}
	l.events = journal.New(l.nc, journal.Options{})
	l.provider, err = start(ctx, partConfig{Part: partProvider})
	return l, err
}

func (l *lab) close() error {
	var errs []error
	for _, p := range append(l.others, l.provider) {
		errs = append(errs, p.stop())
	}
	if l.nc != nil {
		l.nc.Close()
	}
	errs = append(errs, l.server.stop())
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}

// config writes a notifier's configuration; the channel hook leads to the provider.
func (l *lab) config(name, more string) (string, error) {
	file := filepath.Join(l.dir, name)
	text := fmt.Sprintf("channels: [{name: hook, type: webhook, url: %q, allow_private: true, secrets: [%s]}]\n%s", l.provider.hello.URL, secret, more)
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// notifiers starts so many replicas with a configuration.
func (l *lab) notifiers(ctx context.Context, n int, more string) (file string, err error) {
	if file, err = l.config("notify.yaml", more); err != nil {
		return file, err
	}
	for range n {
		p, err := start(ctx, partConfig{Part: partNotifier, Dir: l.dir, Config: file})
		if err != nil {
			return file, err
		}
		l.others = append(l.others, p)
	}
	return file, nil
}

// open has a gateway's event of a new interaction stored and returns its key.
func (l *lab) open(ctx context.Context, i int, session string) (string, error) {
	ref := subject.NewRef(bus.DefaultTenant, owner, hitl.ID(bus.DefaultTenant, owner, "bench-"+strconv.Itoa(i), 1))
	now := time.Now().UTC()
	expires, input := now.Add(24*time.Hour), `{"command":"make deploy `+strings.Repeat("TARGET=staging ", 35)+`"}`
	data, err := hitl.Marshal(wire.Opened{V: 1, RequestSeq: 1, Summary: wire.Summary{
		RequestID: ref.ID, Key: ref.String(), RequestType: "tool_approval", Kind: hitl.KindApproval, Presentation: "tool",
		SessionID: session, SessionKey: bus.DefaultTenant + "." + owner + "." + session, Tenant: ref.Tenant, Owner: ref.Owner, ProjectID: "shop",
		AgentName: "build-7", ToolName: "Bash", Headline: "build-7 wants to use Bash", Title: "Run make deploy", ToolInput: input,
		Digest: "d", Risk: "high", CreatedAt: now, ServerTime: now, ExpiresAt: &expires,
	}})
	if err != nil {
		return "", err
	}
	_, err = l.events.WriteEvent(ctx, subject.Event(ref, session, subject.Open), data)
	return ref.String(), err
}

// got is what the provider has, once it had so many.
func (l *lab) got(ctx context.Context, want int, limit time.Duration, take bool) (told, error) {
	var t told
	err := l.provider.Call(ctx, job{Want: want, For: limit, Take: take}, &t)
	return t, err
}

// trips has n interactions told, so many at once, and returns how long each took from
// before its event was published until the provider had the request.
func (l *lab) trips(ctx context.Context, n, inFlight int) ([]time.Duration, error) {
	began := map[string]time.Time{}
	for done := 0; done < n; done += inFlight {
		m := min(inFlight, n-done)
		keys, at := make([]string, m), make([]time.Time, m)
		var g errgroup.Group
		for i := range m {
			g.Go(func() (err error) {
				at[i] = time.Now()
				keys[i], err = l.open(ctx, l.made+i, "s"+strconv.Itoa(l.made+i))
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		l.made += m
		for i, k := range keys {
			began[k] = at[i]
		}
		if t, err := l.got(ctx, done+m, patience, false); err != nil || t.N < done+m {
			return nil, errors.Join(err, fmt.Errorf("%d of %d were told", t.N, done+m))
		}
	}
	t, err := l.got(ctx, n, 0, true)
	if err != nil {
		return nil, err
	}
	var out []time.Duration
	for _, h := range t.Hits {
		out = append(out, h.At.Sub(began[h.Key]))
	}
	return out, nil
}

// killed is what a run with replicas that are killed gave.
type killed struct {
	N, Kills, Requests      int
	Missed, Doubled, Repeat int
	Took                    time.Duration
}

// direct tells a channel of everything, without waiting.
const direct = "recipients: [{name: ada, messages: 0, channels: [{channel: hook}]}]\nroutes: [{name: all, remind: [], steps: [{to: [ada]}]}]\n"

// kill publishes n interactions at a rate while one replica after the other is killed
// and started anew.
func (l *lab) kill(ctx context.Context, n, rate int, every time.Duration, rnd *rand.Rand) (k killed, err error) {
	const replicas = 3
	file, err := l.notifiers(ctx, replicas, direct)
	if err != nil {
		return k, err
	}
	began := time.Now()
	published, done := make(chan struct{}), make(chan error, 1)
	go func() { // ends with published
		for {
			select {
			case <-published:
				done <- nil
				return
			case <-time.After(every/2 + rand.N(every)):
			}
			i := rnd.IntN(replicas)
			l.others[i].Kill()
			k.Kills++
			p, err := start(ctx, partConfig{Part: partNotifier, Dir: l.dir, Config: file})
			if err != nil {
				l.others[i] = nil
				done <- err
				return
			}
			l.others[i] = p
		}
	}()
	keys := map[string]bool{}
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range n {
		<-tick.C
		key, err := l.open(ctx, i, "s"+strconv.Itoa(i%50))
		if err != nil {
			close(published)
			return k, errors.Join(err, <-done)
		}
		keys[key] = true
	}
	close(published)
	if err := <-done; err != nil {
		return k, err
	}
	// What a killed one had under way is sent after its lease of 30 s.
	var t told
	for end := time.Now().Add(patience); ; {
		if t, err = l.got(ctx, n, 5*time.Second, false); err != nil {
			return k, err
		}
		before := t.N
		if t, err = l.got(ctx, before+1, 35*time.Second, false); err != nil {
			return k, err
		}
		if t.N >= n && t.N == before || time.Now().After(end) {
			break
		}
	}
	if t, err = l.got(ctx, 0, 0, true); err != nil {
		return k, err
	}
	k.N, k.Requests, k.Took = n, len(t.Hits), time.Since(began)
	ids := map[string]map[string]bool{} // of an interaction, as a provider that knows ids tells messages apart
	for _, h := range t.Hits {
		if !keys[h.Key] {
			return k, fmt.Errorf("a message about %s, which nobody asked", h.Key)
		}
		if ids[h.Key] == nil {
			ids[h.Key] = map[string]bool{}
		}
		if ids[h.Key][h.ID] {
			k.Repeat++
		}
		ids[h.Key][h.ID] = true
	}
	k.Missed = n - len(ids)
	for _, m := range ids {
		if len(m) > 1 {
			k.Doubled++
		}
	}
	return k, nil
}

// idle is what a notifier with so many addresses costs that does nothing.
type idle struct {
	Addresses, Routes int
	Memory            int64 // resident, bytes
	CPU               time.Duration
}

// rest measures an idle notifier for some time.
func (l *lab) rest(ctx context.Context, addresses, routes int, span time.Duration) (out idle, err error) {
	var b strings.Builder
	b.WriteString("recipients:\n")
	for i := range addresses {
		fmt.Fprintf(&b, "  - {name: r%d, channels: [{channel: hook}]}\n", i)
	}
	b.WriteString("routes:\n")
	for i := range routes {
		fmt.Fprintf(&b, "  - {name: route%d, match: {project: p%d}, steps: [{to: [r%d]}]}\n", i, i, i%addresses)
	}
	if _, err := l.notifiers(ctx, 1, b.String()); err != nil {
		return out, err
	}
	pid := l.others[len(l.others)-1].PID()
	if err := pause(ctx, 3*time.Second); err != nil { // until it has started
		return out, err
	}
	before := cpu(pid)
	if err := pause(ctx, span); err != nil {
		return out, err
	}
	return idle{addresses, routes, resident(pid), cpu(pid) - before}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// resident is the memory of a process, in bytes; 0 where that cannot be read.
func resident(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// cpu is the processor time that a process has used.
func cpu(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // the name may have spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * (time.Second / 100) // Linux's USER_HZ
}

// flood has n interactions of one session opened at once, and returns how many
// messages one person got within a minute of the first one.
func (l *lab) flood(ctx context.Context, n int, span time.Duration) (int, error) {
	more := strings.ReplaceAll(direct, "messages: 0, ", "")
	if _, err := l.notifiers(ctx, 2, more); err != nil {
		return 0, err
	}
	var g errgroup.Group
	g.SetLimit(64)
	for i := range n {
		g.Go(func() error {
			_, err := l.open(ctx, i, "one")
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	t, err := l.got(ctx, 1, patience, false)
	if err != nil || t.N == 0 {
		return 0, errors.Join(err, errors.New("nobody was told"))
	}
	if err := pause(ctx, span); err != nil {
		return 0, err
	}
	if t, err = l.got(ctx, 0, 0, true); err != nil {
		return 0, err
	}
	within := 0
	for _, h := range t.Hits {
		if h.At.Sub(t.Hits[0].At) < span {
			within++
		}
	}
	return within, nil
}
