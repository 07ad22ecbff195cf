package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/natsd"
)

// Floods of everything else that an owner, a caller or the notifier can send.
// While one goes on, a bystander's request is asked, decided and delivered, and
// its call of the service is answered.
func TestFloodsLeaveTheOthersAlone(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	text := bytes.Repeat([]byte("x"), 4<<10)
	event, err := hitl.Marshal(hitl.Event{V: 1, Type: hitl.EventText, Data: json.RawMessage(fmt.Sprintf(`{"role":"assistant","text":%q}`, text))})
	require.NoError(t, err)
	at := func(format string, body []byte) func(int) *nats.Msg {
		return func(i int) *nats.Msg {
			return &nats.Msg{Subject: strings.ReplaceAll(format, "%d", strconv.Itoa(i)), Data: body}
		}
	}
	calling := func(m func(int) *nats.Msg) func(int) *nats.Msg {
		return func(i int) *nats.Msg {
			out := m(i)
			out.Reply = fmt.Sprintf("_INBOX.x.%d", i)
			return out
		}
	}
	for _, f := range []struct {
		name    string
		role    bus.Role
		who     string
		total   int
		message func(int) *nats.Msg
	}{
		{"withdrawals", bus.RoleOwner, "evil", 1500, at("hitl.cxl.default.evil.id%d", []byte(`{"v":1}`))},
		{"rubbish for requests", bus.RoleOwner, "evil", 1500, at("hitl.req.default.evil.id%d", []byte(`{}`))},
		{"ids outside the grammar", bus.RoleOwner, "evil", 1500, at("hitl.req.default.evil.$%d", []byte(`{}`))},
		{"large requests", bus.RoleOwner, "evil", 30, at("hitl.req.default.evil.large%d", bytes.Repeat(text, 250))},
		{"requests beyond the largest", bus.RoleOwner, "evil", 20, at("hitl.req.default.evil.beyond%d", bytes.Repeat(text, 300))},
		{"one conversation", bus.RoleOwner, "evil", 2000, at("hitl.evt.default.evil.s", event)},
		{"a thousand conversations", bus.RoleOwner, "evil", 2000, at("hitl.evt.default.evil.s%d", event)},
		{"a thousand sessions", bus.RoleOwner, "evil", 1500, at("hitl.ses.default.evil.s%d", []byte(`{"v":1,"session_id":"s","tenant":"default","owner":"evil","worker":"w","generation":1,"runtime":"demo","state":"user_turn","started_at":"2026-01-01T00:00:00Z","state_changed_at":"2026-01-01T00:00:00Z"}`))},
		{"receipts", bus.RoleOwner, "evil", 2000, at("hitl.ack.default.evil.id%d.applied", []byte(`{"v":1,"stage":"applied","decision_id":"d"}`))},
		{"heartbeats", bus.RoleOwner, "evil", 20_000, at("hitl.beat.default.evil.w%d", []byte(`{"v":1,"worker":"w"}`))},
		{"live text", bus.RoleOwner, "evil", 8000, at("hitl.live.default.evil.s%d", event)},
		{"calls of an owner", bus.RoleOwner, "evil", 2000, calling(at("hitl.svc.default.evil.list", nil))},
		{"calls of a caller", bus.RoleCaller, "ci", 2000, calling(at("hitl.svc.default.ci.list", nil))},
		{"calls of the notifier", bus.RoleNotifier, "", 2000, calling(at("hitl.svc.default.notifier.list", nil))},
		{"pulls of work", bus.RoleOwner, "evil", 2000, calling(func(int) *nats.Msg {
			return &nats.Msg{Subject: "$JS.API.CONSUMER.MSG.NEXT.HITL_WORK.default-evil", Data: []byte(`{"batch":100000,"expires":60000000000}`)}
		})},
		{"pulls of events", bus.RoleNotifier, "", 2000, calling(func(int) *nats.Msg {
			return &nats.Msg{Subject: "$JS.API.CONSUMER.MSG.NEXT.HITL_EVENTS.notifier", Data: []byte(`{"batch":100000,"expires":60000000000}`)}
		})},
		{"reads", bus.RoleOwner, "evil", 2000, calling(func(int) *nats.Msg {
			return nats.NewMsg("$JS.API.DIRECT.GET.HITL_DECISIONS.hitl.dec.default.evil.none")
		})},
	} {
		a.attack(t, "flood of "+f.name, func(t *testing.T) {
			began, end := a.floodUntil(f.role, f.who, f.total, f.message)
			select {
			case <-began:
			case <-time.After(patience):
				t.Fatal("the flood did not begin: ", end())
			}
			a.trips++
			key := fmt.Sprintf("meanwhile-%d", a.trips)
			roundTrip(t, a.agents, a.g, key)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			id := hitl.ID(bus.DefaultTenant, "agents", key, 1)
			ix, err := a.agents.Get(ctx, "default.agents."+id)
			require.NoError(t, err)
			require.Equal(t, id, ix.ID)
			require.NoError(t, end(), "the flood ended before the bystander was done")
		})
	}
	a.attack(t, "pulls whose answers nobody reads", func(t *testing.T) {
		stuck := &stuckDialer{}
		c := a.attacker(t, bus.RoleOwner, "evil", nats.SetCustomDialer(stuck), nats.NoReconnect())
		sub, err := c.SubscribeSync(c.NewInbox())
		require.NoError(t, err)
		require.NoError(t, c.Flush())
		stuck.stop()
		defer stuck.release()
		for range 2000 {
			require.NoError(t, c.PublishRequest("$JS.API.DIRECT.GET.HITL_TRANSCRIPTS.hitl.ses.default.evil.s1", sub.Subject, nil))
		}
		a.trips++
		roundTrip(t, a.agents, a.g, fmt.Sprintf("stuck-%d", a.trips))
	})
	a.finish()
}

// floodUntil publishes without waiting for anything, at least total messages
// and until end is called; beyond total it waits for the server after each. began
// is closed when the server has read the first tenth. end says if the flood broke
// off.
func (s *site) floodUntil(role bus.Role, name string, total int, message func(i int) *nats.Msg) (began <-chan struct{}, end func() error) {
	s.t.Helper()
	creds := s.creds(role, name)
	option, err := creds.Auth()
	require.NoError(s.t, err)
	nc, err := nats.Connect(creds.URLs[0], option, nats.NoReconnect())
	require.NoError(s.t, err)
	first, stop, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- func() error {
			defer nc.Close()
			for i := 0; ; i++ {
				select {
				case <-stop:
					if i >= total {
						return nil
					}
				default:
				}
				if err := nc.PublishMsg(message(i)); err != nil {
					return err
				}
				if i != total/10 && i < total {
					continue
				}
				if err := nc.FlushTimeout(patience); err != nil {
					return err
				}
				if i == total/10 {
					close(first)
				}
			}
		}()
	}()
	end = sync.OnceValue(func() error {
		close(stop)
		return <-done
	})
	s.t.Cleanup(func() { _ = end() })
	return first, end
}

// stuckDialer makes a connection that stops reading when told to.
type stuckDialer struct {
	mu   sync.Mutex
	hold chan struct{} // closed by release; nil: reads go on
}

func (d *stuckDialer) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = make(chan struct{})
}

func (d *stuckDialer) release() { close(d.hold) }

func (d *stuckDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, patience)
	return &stuckConn{c, d}, err
}

type stuckConn struct {
	net.Conn
	d *stuckDialer
}

func (c *stuckConn) Read(p []byte) (int, error) {
	c.d.mu.Lock()
	hold := c.d.hold
	c.d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return c.Conn.Read(p)
}

// One owner cannot take all connections of the server.
func TestAnOwnersConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	creds := a.creds(bus.RoleOwner, "evil")
	option, err := creds.Auth()
	require.NoError(t, err)
	var open []*nats.Conn
	defer func() {
		for _, nc := range open {
			nc.Close()
		}
	}()
	for range natsd.MaxConnections {
		nc, err := nats.Connect(creds.URLs[0], option, nats.NoReconnect(), nats.Timeout(patience))
		require.NoError(t, err)
		open = append(open, nc)
	}
	_, err = nats.Connect(creds.URLs[0], option, nats.NoReconnect(), nats.Timeout(patience))
	require.ErrorIs(t, err, nats.ErrMaxAccountConnectionsExceeded)
	roundTrip(t, a.agents, a.g, "meanwhile")
	a.settle()
}
