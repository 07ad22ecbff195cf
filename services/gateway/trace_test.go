package gateway_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/trace"
	"github.com/banksman/banksman/pkg/wire"
)

const asked = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// traced asks in a trace and gives the answer.
func traced(s *site, key string) (opened chan bus.Opened, got chan *bus.Answer) {
	opened, got = make(chan bus.Opened, 1), make(chan *bus.Answer, 1)
	done := make(chan struct{})
	c := s.client("agents")
	ctx := trace.Parse(asked, "").In(s.t.Context())
	go func() {
		defer close(done)
		a, err := c.Ask(ctx, request(key), bus.Keep(), bus.OnOpen(func(o bus.Opened) { opened <- o }))
		if err != nil {
			a = nil
		}
		got <- a
	}()
	s.t.Cleanup(func() { <-done })
	return opened, got
}

// traces are the trace headers of an interaction's open and closed events.
func (s *site) traces() (out [][]string) {
	s.t.Helper()
	j := journal.New(s.connect(bus.RoleGateway), journal.Options{})
	require.NoError(s.t, j.Read(context.Background(), journal.Events, 1, []string{"hitl.ixe.>"}, func(m journal.Message) error {
		out = append(out, m.Header[wire.HeaderTraceParent])
		return nil
	}))
	return out
}

// A gateway that exports nothing passes the trace on all the same: whoever asks and
// whoever runs the tool are joined by it. It comes from what is stored, so that it holds
// when the request was left for a gateway that came later, and when the one that took it
// in is gone.
func TestTheTraceIsPassedOnByAGatewayWithoutOne_B48(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		early, second bool
	}{{name: "asked"}, {name: "left", early: true}, {name: "restarted", second: true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			var g *running
			if !c.early {
				g = s.gateway()
			}
			opened, got := traced(s, c.name)
			o := <-opened
			if c.second {
				require.Eventually(t, func() bool { return len(s.traces()) == 1 }, patience, patience/1000)
				require.NoError(t, g.stop())
			}
			if c.early || c.second {
				g = s.gateway()
			}
			g.allow(o.Ref)
			a := take(t, got)
			require.Equal(t, hitl.Allowed, a.Decision.Outcome)
			require.Equal(t, trace.Parse(asked, ""), a.Trace)
			require.Eventually(t, func() bool { return len(s.traces()) == 2 }, patience, patience/1000)
			require.Equal(t, [][]string{{asked}, {asked}}, s.traces(), "the notifier joins by the same")
		})
	}
}

func TestWithoutATraceNoHeaderIsWritten(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	g := s.gateway()
	got := ask(t, s.client("agents"), "plain")
	g.allow(subject.NewRef(bus.DefaultTenant, "agents", hitl.ID(bus.DefaultTenant, "agents", "plain", 1)))
	require.True(t, take(t, got).Trace.IsZero())
	require.Eventually(t, func() bool { return len(s.traces()) == 2 }, patience, patience/1000)
	require.Equal(t, [][]string{nil, nil}, s.traces())
}
