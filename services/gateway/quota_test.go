package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway"
)

// roundTrip asks, decides and gets the decision, and returns how long that
// took.
func roundTrip(t *testing.T, asker *bus.Client, g *running, key string) time.Duration {
	t.Helper()
	began := time.Now()
	got := ask(t, asker, key)
	g.allow(subject.NewRef(bus.DefaultTenant, asker.Credentials().Name, hitl.ID(bus.DefaultTenant, asker.Credentials().Name, key, 1)))
	require.Equal(t, hitl.Allowed, take(t, got).Decision.Outcome)
	return time.Since(began)
}

// allow waits until an approval is open, and allows it.
func (r *running) allow(ref subject.Ref) {
	r.t.Helper()
	var ix wire.Interaction
	require.Eventually(r.t, func() bool {
		status, raw := r.call("GET", "/api/interactions/"+ref.String(), r.token, "")
		return status == 200 && json.Unmarshal(raw, &ix) == nil && ix.State == wire.StatePending
	}, patience, time.Millisecond)
	status, raw := r.call("POST", "/api/interactions/"+ref.String()+"/decision", r.token,
		fmt.Sprintf(`{"decision":"allow","digest":%q}`, ix.Digest))
	require.Equal(r.t, 200, status, string(raw))
}

// flooding publishes total messages without waiting for anything, in the
// background.
func (s *site) flooding(role bus.Role, name string, total int, message func(i int) *nats.Msg) (done chan struct{}) {
	s.t.Helper()
	creds := s.creds(role, name)
	option, err := creds.Auth()
	require.NoError(s.t, err)
	nc, err := nats.Connect(creds.URLs[0], option)
	require.NoError(s.t, err)
	done = make(chan struct{})
	go func() {
		defer close(done)
		defer nc.Close()
		for i := range total {
			if nc.PublishMsg(message(i)) != nil {
				return
			}
		}
		_ = nc.FlushTimeout(patience)
	}()
	s.t.Cleanup(func() { <-done })
	return done
}

// A flood of valid requests: the owner's quota holds, and the others go on
// meanwhile.
func TestFloodOfRequestsLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway(func(o *gateway.Options) { o.Quota = &gateway.Quota{Open: 1000, DayRefusals: 200} })
	agents := s.client("agents")
	roundTrip(t, agents, g, "before")
	const total = 4000
	s.flooding(bus.RoleOwner, "cli", total, func(i int) *nats.Msg {
		r := request(fmt.Sprintf("flood-%d", i))
		r.V, r.Tenant, r.Owner = 1, bus.DefaultTenant, "cli"
		r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
		raw, err := hitl.Marshal(r)
		if err != nil {
			panic(err)
		}
		return &nats.Msg{Subject: subject.Request(subject.NewRef(r.Tenant, r.Owner, r.ID)), Data: raw}
	})
	var slowest time.Duration
	for i := range 5 {
		slowest = max(slowest, roundTrip(t, agents, g, fmt.Sprintf("during-%d", i)))
	}
	t.Log("slowest round trip during the flood:", slowest)
	// What the flood leaves: the quota's worth of open requests, and as many
	// refusals on the record as a day has.
	prov := s.connect(bus.RoleProvisioner)
	require.Eventually(t, func() bool { return s.count(prov, "HITL_REQUESTS", "hitl.req.default.cli.*") == 1000 }, 3*patience, 20*time.Millisecond)
	require.Equal(t, 200, s.count(prov, "HITL_DECISIONS", "hitl.dec.default.cli.*"))
	t.Log("round trip after the flood:", roundTrip(t, agents, g, "after"))
	// The flooding owner's own askers get a clear word, at once.
	cli := s.client("cli")
	_, err := cli.Ask(t.Context(), request("late"))
	require.ErrorIs(t, err, bus.ErrTurnedAway)
	require.ErrorContains(t, err, "quota.open")
}

func (s *site) count(nc *nats.Conn, stream, filter string) int {
	m, err := nc.Request("$JS.API.STREAM.INFO."+stream, fmt.Appendf(nil, `{"subjects_filter":%q}`, filter), patience)
	if errors.Is(err, context.Canceled) {
		return -1
	}
	require.NoError(s.t, err)
	var info struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	require.NoError(s.t, json.Unmarshal(m.Data, &info))
	total := 0
	for _, n := range info.State.Subjects {
		total += int(n)
	}
	return total
}
