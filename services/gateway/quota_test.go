package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
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
	}, 3*patience, time.Millisecond) // behind a flood on a busy machine, too
	status, raw := r.call("POST", "/api/interactions/"+ref.String()+"/decision", r.token,
		fmt.Sprintf(`{"decision":"allow","digest":%q}`, ix.Digest))
	require.Equal(r.t, 200, status, string(raw))
}

// A flood of valid requests: the others ask, decide and are answered meanwhile, the owner's quota holds, and the
// log says who it is.
func TestFloodOfRequestsLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	for _, process := range []bool{false, true} {
		t.Run(fmt.Sprintf("as a process: %v", process), func(t *testing.T) {
			s := newSiteOn(t, natsd.DurabilityRelaxed, process)
			var log lines
			g := s.gateway(func(o *gateway.Options) {
				o.Quota = &gateway.Quota{Open: 500, DayRefusals: 200}
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			agents := s.client("agents")
			roundTrip(t, agents, g, "before")
			began, end := s.floodUntil(bus.RoleOwner, "cli", 4*natsd.MaxBuffered, func(i int) *nats.Msg {
				r := request(fmt.Sprintf("flood-%d", i))
				r.V, r.Tenant, r.Owner = 1, bus.DefaultTenant, "cli"
				r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
				raw, err := hitl.Marshal(r)
				if err != nil {
					panic(err)
				}
				return &nats.Msg{Subject: subject.Request(subject.NewRef(r.Tenant, r.Owner, r.ID)), Data: raw}
			})
			<-began
			for i := range 5 {
				roundTrip(t, agents, g, fmt.Sprintf("during-%d", i))
			}
			require.Eventually(t, func() bool {
				return log.has("level=WARN", "one owner sends very many requests", "banksman creds revoke", "owner=cli")
			}, 3*patience, 10*time.Millisecond)
			require.NoError(t, end(), "the flood ended before the others were done")
			// What the flood leaves: the quota's worth of open requests, and as many
			// refusals on the record as a day has.
			prov := s.connect(bus.RoleProvisioner)
			require.Eventually(t, func() bool { return s.count(prov, "HITL_REQUESTS", "hitl.req.default.cli.*") == 500 }, 3*patience, 20*time.Millisecond)
			require.Equal(t, 200, s.count(prov, "HITL_DECISIONS", "hitl.dec.default.cli.*"))
			roundTrip(t, agents, g, "after")
			require.False(t, log.has("owner=agents"))
			// The flooding owner's own askers get a clear word, at once.
			_, err := s.client("cli").Ask(t.Context(), request("late"))
			require.ErrorIs(t, err, bus.ErrTurnedAway)
			require.ErrorContains(t, err, "quota.open")
		})
	}
}

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

// has reports whether a line has all parts.
func (l *lines) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(line string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) })
	})
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
