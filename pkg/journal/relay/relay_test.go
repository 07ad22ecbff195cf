package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// place is a server with the product's accounts and streams, and two owners.
type place struct {
	t    *testing.T
	dir  string
	prov *nats.Conn
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir()}
	require.NoError(t, natsd.Write(natsd.Plan{
		Dir: p.dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed,
		Owners: []natsd.Owner{{Name: "ada"}, {Name: "bob"}},
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(p.dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	p.prov = p.connect(bus.RoleProvisioner, "")
	require.NoError(t, journal.Provision(ctx, p.prov, journal.Config{}))
	return p
}

func (p *place) connect(role bus.Role, name string, more ...nats.Option) *nats.Conn {
	p.t.Helper()
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(p.dir, role, bus.DefaultTenant, name))
	require.NoError(p.t, err)
	auth, err := creds.Auth()
	require.NoError(p.t, err)
	closed := make(chan struct{})
	nc, err := nats.Connect(creds.URLs[0], append(more, auth, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))...)
	require.NoError(p.t, err)
	p.t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

func (p *place) relay(name string, admit func(subject.Parsed, int) error) (end func()) {
	p.t.Helper()
	nc := p.connect(bus.RoleGateway, "")
	r, err := relay.Start(relay.Options{Conn: nc, Admit: admit, Name: name})
	require.NoError(p.t, err)
	require.NoError(p.t, nc.Flush())
	end = sync.OnceFunc(r.Close)
	p.t.Cleanup(end)
	return end
}

// tell is one thing that an owner says, and the answer's error code; 0: stored.
func tell(t *testing.T, nc *nats.Conn, m *nats.Msg) (code int, text string) {
	t.Helper()
	reply, err := nc.RequestMsg(m, patience)
	require.NoError(t, err)
	var ack struct {
		Seq   uint64
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		}
	}
	require.NoError(t, json.Unmarshal(reply.Data, &ack), "%s", reply.Data)
	if ack.Error != nil {
		return ack.Error.Code, ack.Error.Description
	}
	require.NotZero(t, ack.Seq)
	return 0, ""
}

// all is what the stream has, in its order.
func (p *place) all() []*nats.Msg {
	p.t.Helper()
	return p.allOf(journal.Transcripts)
}

func (p *place) allOf(stream string) []*nats.Msg {
	p.t.Helper()
	js, err := p.prov.JetStream()
	require.NoError(p.t, err)
	info, err := js.StreamInfo(stream)
	require.NoError(p.t, err)
	var out []*nats.Msg
	for seq := info.State.FirstSeq; info.State.Msgs > 0 && seq <= info.State.LastSeq; seq++ {
		m, err := js.GetMsg(stream, seq)
		require.NoError(p.t, err)
		out = append(out, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	return out
}

func said(text string, header ...string) *nats.Msg {
	m := &nats.Msg{Subject: "hitl.evt.default.ada.s", Data: []byte(text), Header: nats.Header{}}
	for i := 0; i < len(header); i += 2 {
		m.Header[header[i]] = []string{header[i+1]}
	}
	return m
}

// What an owner publishes without waiting is stored in its order and once, also
// while several gateways share the work one after the other.
func TestWhatIsSaidIsStoredOnceAndInOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ada := p.connect(bus.RoleOwner, "ada")
	const each = 200
	for round := range 3 {
		end := p.relay("", nil)
		for i := range each {
			require.NoError(t, ada.PublishMsg(said(fmt.Sprint(round*each+i))))
		}
		code, _ := tell(t, ada, said(fmt.Sprintf("end of %d", round)))
		require.Zero(t, code)
		end() // nothing that it has taken is lost
	}
	n := 0
	for _, m := range p.all() {
		require.Equal(t, "hitl.evt.default.ada.s", m.Subject)
		if !strings.HasPrefix(string(m.Data), "end of") {
			require.Equal(t, fmt.Sprint(n), string(m.Data))
			n++
		}
	}
	require.Equal(t, 3*each, n)
}

// Two gateways share what is said, and none of it is stored twice.
func TestGatewaysShareWhatIsSaid(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.relay("one", nil)
	p.relay("two", nil)
	ada, bob := p.connect(bus.RoleOwner, "ada"), p.connect(bus.RoleOwner, "bob")
	for i := range 200 {
		code, _ := tell(t, ada, said(fmt.Sprint(i)))
		require.Zero(t, code)
		code, _ = tell(t, bob, &nats.Msg{Subject: "hitl.ses.default.bob.s", Data: []byte("x")})
		require.Zero(t, code)
	}
	via := map[string]int{}
	for _, m := range p.all() {
		via[m.Header.Get(relay.HeaderVia)]++
	}
	require.Equal(t, 400, via["one"]+via["two"])
	require.NotZero(t, via["one"])
	require.NotZero(t, via["two"])
}

func TestWhatIsNotAdmittedIsNotStored(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var mu sync.Mutex
	var seen []string
	p.relay("", func(at subject.Parsed, size int) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprint(at.Kind, " ", at.Tenant, " ", at.Owner, " ", size-relay.Overhead))
		if at.Owner == "ada" {
			return errors.New("quota: no more")
		}
		return nil
	})
	ada, bob := p.connect(bus.RoleOwner, "ada"), p.connect(bus.RoleOwner, "bob")
	for _, sub := range []string{"hitl.evt.default.ada.s", "hitl.ses.default.ada.s", "hitl.ack.default.ada.id.taken"} {
		code, text := tell(t, ada, &nats.Msg{Subject: sub, Data: []byte("12345")})
		require.Equal(t, wire.CodeQuota, code)
		require.Equal(t, "quota: no more", text)
	}
	code, _ := tell(t, bob, &nats.Msg{Subject: "hitl.ack.default.bob.id.taken", Data: []byte("claim")})
	require.Zero(t, code)
	stored := p.all()
	require.Len(t, stored, 1)
	require.Equal(t, "hitl.ack.default.bob.id.taken", stored[0].Subject)
	require.Equal(t, []string{"evt default ada 5", "ses default ada 5", "ack default ada 5", "ack default bob 5"}, seen)
}

// A gateway publishes in the account of the streams, where headers can do more
// than in an owner's: only those that the product uses are stored.
func TestHeadersThatMeanSomethingToTheServerAreNotPassedOn_B56(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.relay("", nil)
	ada := p.connect(bus.RoleOwner, "ada")
	code, _ := tell(t, ada, said("x",
		"Nats-Msg-Id", "id", "Nats-Rollup", "all", "Nats-TTL", "1s", "Status", "404",
		"Nats-Expected-Stream", "HITL_DECISIONS", relay.HeaderVia, "forged", wire.HeaderHold, "hold"))
	require.Zero(t, code)
	stored := p.all()
	require.Len(t, stored, 1)
	require.Equal(t, nats.Header{wire.HeaderHold: {"hold"}}, stored[0].Header)
	// Expectations hold, and do not tell of others.
	code, _ = tell(t, ada, said("late", "Nats-Expected-Last-Subject-Sequence", "0"))
	require.Equal(t, 10071, code)
	among := "Nats-Expected-Last-Subject-Sequence-Subject"
	code, _ = tell(t, ada, said("next", "Nats-Expected-Last-Subject-Sequence", "1", among, "hitl.*.default.ada.s"))
	require.Zero(t, code)
	for _, other := range []string{"hitl.*.default.bob.s", "hitl.*.*.*.s", "hitl.>", "hitl.ses.other.ada.s"} {
		code, _ = tell(t, ada, said("spy", "Nats-Expected-Last-Subject-Sequence", "1", among, other))
		require.Equal(t, wire.CodeRefused, code, other)
	}
	code, _ = tell(t, ada, said("long", wire.HeaderHold, strings.Repeat("x", 400)))
	require.Equal(t, wire.CodeRefused, code)
	code, _ = tell(t, ada, &nats.Msg{Subject: "hitl.evt.default.ada." + strings.Repeat("a", 65)})
	require.Equal(t, wire.CodeRefused, code)
	require.Len(t, p.all(), 2)
}

// Without a gateway nothing is stored, and who says something is told at once.
func TestWithoutAGatewayNothingIsStored(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ada := p.connect(bus.RoleOwner, "ada")
	_, err := ada.RequestMsg(said("x"), patience)
	require.ErrorIs(t, err, nats.ErrNoResponders)
	require.Empty(t, p.all())
}

// held is a connection that takes nothing in while it is told so.
type held struct {
	net.Conn
	mu   sync.Mutex
	gate chan struct{} // nil: open
}

func (h *held) Dial(network, address string) (c net.Conn, err error) {
	h.Conn, err = net.DialTimeout(network, address, patience)
	return h, err
}

func (h *held) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.mu.Lock()
	gate := h.gate
	h.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return n, err
}

func (h *held) set(gate chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gate = gate
}

// Of one owner only so much waits for the disk: what is more is told to try again.
func TestWhatIsUnderWayIsBoundedByOwner(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	link, admit, entered := &held{}, make(chan struct{}), make(chan struct{})
	enter := sync.OnceFunc(func() { close(entered) })
	nc := p.connect(bus.RoleGateway, "", nats.SetCustomDialer(link))
	r, err := relay.Start(relay.Options{Conn: nc, Admit: func(subject.Parsed, int) error {
		enter()
		<-admit
		return nil
	}})
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, nc.Flush())
	ada, bob := p.connect(bus.RoleOwner, "ada"), p.connect(bus.RoleOwner, "bob")
	sub, err := ada.SubscribeSync(ada.NewInbox())
	require.NoError(t, err)
	// Behind a first one they are all here, and then no acknowledgement comes.
	require.NoError(t, bob.Publish("hitl.evt.default.bob.s", []byte("first")))
	require.NoError(t, bob.Flush())
	<-entered
	before, body := nc.Stats().InMsgs, make([]byte, 1<<20)
	const total, fit = 20, 7
	for range total {
		require.NoError(t, ada.PublishMsg(&nats.Msg{Subject: "hitl.evt.default.ada.s", Reply: sub.Subject, Data: body}))
	}
	other, err := bob.SubscribeSync(bob.NewInbox())
	require.NoError(t, err)
	require.NoError(t, ada.Flush())
	require.NoError(t, bob.PublishRequest("hitl.evt.default.bob.s", other.Subject, []byte("x")))
	require.Eventually(t, func() bool { return nc.Stats().InMsgs >= before+total+1 }, patience, time.Millisecond)
	gate := make(chan struct{})
	link.set(gate)
	close(admit)
	for range total - fit {
		m, err := sub.NextMsg(patience)
		require.NoError(t, err)
		require.Contains(t, string(m.Data), `"err_code":10167`)
	}
	link.set(nil)
	close(gate)
	for range fit {
		m, err := sub.NextMsg(patience)
		require.NoError(t, err)
		require.Contains(t, string(m.Data), `"seq":`)
	}
	m, err := other.NextMsg(patience)
	require.NoError(t, err)
	require.Contains(t, string(m.Data), `"seq":`, "another owner has its own room")
	require.Len(t, p.all(), fit+2)
	code, _ := tell(t, ada, said("again"))
	require.Zero(t, code, "what has been acknowledged does not count any more")
}
