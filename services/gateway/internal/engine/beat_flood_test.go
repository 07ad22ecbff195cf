package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/roster"
)

// An owner that beats in the name of thousands of workers, and then of none: so many of
// them are kept as may be, they alone are missed, and what its own session asked ends alone.
func TestAFloodOfHeartbeatsThatEnds_B56_B37(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed,
		Owners: []natsd.Owner{{Name: "agents", Pool: true}, {Name: "evil", Pool: true}},
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	connect := func(role bus.Role, name string) *nats.Conn {
		creds, err := bus.LoadCredentials(natsd.CredentialsFile(dir, role, bus.DefaultTenant, name))
		require.NoError(t, err)
		option, err := creds.Auth()
		require.NoError(t, err)
		nc, err := nats.Connect(creds.URLs[0], option, nats.ReconnectBufSize(-1))
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		return nc
	}
	require.NoError(t, journal.Provision(ctx, connect(bus.RoleProvisioner, ""), journal.Config{
		Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: "agents"}, {Tenant: bus.DefaultTenant, Pool: "evil"}},
	}))
	nc, agents, evil := connect(bus.RoleGateway, ""), connect(bus.RoleOwner, "agents"), connect(bus.RoleOwner, "evil")
	w := newWorld(t) // for its key and its helpers; nothing is asked of its server
	var log lockedLog
	var clk clock
	e := New(Options{
		Journal: w.journal(nc), Conn: nc, Logger: slog.New(slog.NewTextHandler(&log, nil)), Clock: clk.now, OrphanAfter: time.Minute,
		reviveGrace: time.Millisecond, beatGrace: time.Millisecond,
	})
	run, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(run) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	select {
	case <-e.Ready():
	case <-time.After(patience):
		t.Fatal("the engine never got ready")
	}

	// Both have a session and a worker of the same names, and something that waits.
	requests, raws := map[string]*hitl.Request{}, map[string][]byte{}
	for _, owner := range []string{"agents", "evil"} {
		state, err := hitl.Marshal(hitl.SessionState{V: 1, Tenant: "default", Owner: owner, SessionID: "s1", Worker: "w", Generation: 1, State: hitl.StateAssistantTurn})
		require.NoError(t, err)
		w.store(nc, subject.State(subject.NewSession("default", owner, "s1")), state)
		requests[owner] = request("k1", expiring(0), func(r *hitl.Request) { r.Owner = owner })
		raws[owner] = w.ask(nc, requests[owner])
	}
	pending(t, e, requests["agents"].ID, requests["evil"].ID)
	beat := func(by *nats.Conn, owner, worker, runtime string) {
		raw, err := hitl.Marshal(hitl.Beat{V: 1, Worker: worker, Runtimes: []string{runtime}, Sessions: []string{"s1"}})
		require.NoError(t, err)
		require.NoError(t, by.Publish(subject.Beat("default", owner, worker), raw))
	}
	beats := 0
	// alive lets the bystander's workers beat, and waits until that is heard.
	alive := func() {
		beats++
		for i := range 2 {
			runtime := fmt.Sprintf("r%d-%d", beats, i)
			beat(agents, "agents", []string{"w", "w2"}[i], runtime)
			require.Eventually(t, func() bool { return e.view.Serves("default", "agents", runtime) }, patience, time.Millisecond)
		}
	}
	for i := range 4 * roster.MaxWorkers {
		beat(evil, "evil", fmt.Sprintf("w%d", i), "demo")
	}
	for range 2 {
		beat(evil, "evil", "w", "demo")
	}
	beat(evil, "evil", strings.Repeat("w", 4000), "demo")
	require.NoError(t, evil.Flush())
	alive() // a worker that nobody knew yet is heard behind the flood
	reachable, unreachable := e.view.Workers()
	require.Equal(t, []int{roster.MaxWorkers + 2, 0}, []int{reachable, unreachable})
	require.Len(t, log.lines("too many workers"), 1, "who it is stands in the log, once")
	require.Contains(t, log.lines("too many workers")[0], "owner=evil")

	late := func() map[string]bool {
		list, _, err := e.List(t.Context(), api.List{State: wire.StatePending, Limit: 10})
		require.NoError(t, err)
		out := map[string]bool{}
		for _, ix := range list {
			out[ix.Owner] = ix.Unreachable
		}
		return out
	}
	for range 2 { // beyond the 15 s, and never that long for the bystander
		clk.jump(8 * time.Second)
		alive()
		require.False(t, late()["agents"])
	}
	require.Eventually(t, func() bool {
		reachable, unreachable = e.view.Workers()
		return reachable == 2 && unreachable == roster.MaxWorkers
	}, patience, 10*time.Millisecond)
	require.Equal(t, map[string]bool{"agents": false, "evil": true}, late())
	for range 7 { // beyond the minute
		clk.jump(8 * time.Second)
		alive()
		require.False(t, late()["agents"])
	}
	require.Equal(t, hitl.Orphaned, outcome(t, e, requests["evil"]).Outcome)
	require.Eventually(t, func() bool {
		reachable, unreachable = e.view.Workers()
		return reachable == 2 && unreachable == 0
	}, patience, 10*time.Millisecond, "what is gone takes no room")
	require.Equal(t, map[string]bool{"agents": false}, late())
	rec := e.Decide(t.Context(), answer(requests["agents"], raws["agents"], "ada", allow))
	require.Equal(t, hitl.Accepted, rec.Status, rec.Error)
	beat(evil, "evil", "again", "demo")
	require.NoError(t, evil.Flush())
	require.Eventually(t, func() bool { return e.view.Serves("default", "evil", "demo") }, patience, time.Millisecond, "and there is room again")
}
