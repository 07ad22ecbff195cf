package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/journal/relay"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway"
)

// talkDay is a small quota of conversation, and talkRoom a stream that a flood
// without a quota would turn over.
const talkDay, talkRoom = 8 << 20, 64 << 20

// newTalkSite is a site with such a stream.
func newTalkSite(t *testing.T, process bool) *site {
	t.Helper()
	s := newSiteOn(t, natsd.DurabilityRelaxed, process)
	require.NoError(t, journal.Provision(t.Context(), s.connect(bus.RoleProvisioner), journal.Config{
		Pools: []journal.Pool{{Tenant: bus.DefaultTenant, Pool: "agents"}}, MaxBytes: map[string]int64{journal.Transcripts: talkRoom},
	}))
	return s
}

func talkQuota(o *gateway.Options) { o.Quota = &gateway.Quota{DayTalk: talkDay} }

// stored is how many bytes the conversations take in the stream.
func (s *site) stored(nc *nats.Conn) int {
	m, err := nc.Request("$JS.API.STREAM.INFO."+journal.Transcripts, nil, patience)
	require.NoError(s.t, err)
	var info struct {
		State struct {
			Bytes int `json:"bytes"`
		} `json:"state"`
	}
	require.NoError(s.t, json.Unmarshal(m.Data, &info))
	return info.State.Bytes
}

func saying(n int) hitl.Event {
	return hitl.Event{Type: hitl.EventText, Data: json.RawMessage(fmt.Sprintf(`{"role":"assistant","text":%q}`, strings.Repeat("x", n)))}
}

// talker is an owner with a session and claims of its own.
type talker struct {
	*bus.Client
	hold *bus.Hold
}

func (s *site) talker(name, session string, gen int) *talker {
	s.t.Helper()
	c := s.client(name)
	hold, err := c.Claim(s.t.Context(), &hitl.SessionState{SessionID: session, Worker: "w", Generation: gen, Runtime: "demo", State: hitl.StateUserTurn})
	require.NoError(s.t, err)
	return &talker{c, hold}
}

func (k *talker) claim(t *testing.T, id, by string) (bool, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return k.Take(ctx, subject.NewRef(bus.DefaultTenant, k.Credentials().Name, id), "d", by)
}

// Whatever an owner floods the stream of conversations with: what others told
// before stays, claims of approvals included, they go on meanwhile, and of its own
// no more is stored than its quota. It is told so, its own requests are decided, and
// an approval of its own is used once or not at all. Each flood begins with a
// gateway that has just started, and so with a day that is anew: a restart gives
// no more than that.
func TestAFloodOfConversationPushesOutNothingOfOthers_B56_invariant4(t *testing.T) {
	t.Parallel()
	for _, process := range []bool{false, true} {
		t.Run(fmt.Sprintf("as a process: %v", process), func(t *testing.T) {
			t.Parallel()
			floodOfConversation(t, process)
		})
	}
}

func floodOfConversation(t *testing.T, process bool) {
	t.Helper()
	s := newTalkSite(t, process)
	prov := s.connect(bus.RoleProvisioner)
	g := s.gateway(talkQuota)
	agents := s.talker("agents", "old", 1)
	const before = 50
	for i := range before {
		require.NoError(t, agents.hold.Event(t.Context(), saying(500)))
		won, err := agents.claim(t, fmt.Sprintf("old%d", i), "me")
		require.NoError(t, err)
		require.True(t, won)
	}
	const claimed = "hitl.ack.default.agents.*." + subject.Taken
	at := func(format string, body []byte) func(int) *nats.Msg {
		return func(i int) *nats.Msg { return &nats.Msg{Subject: fmt.Sprintf(format, i), Data: body} }
	}
	event := func(n int) []byte {
		ev := saying(n)
		ev.V = 1
		raw, err := hitl.Marshal(ev)
		require.NoError(t, err)
		return raw
	}
	state := []byte(`{"v":1,"session_id":"s","tenant":"default","owner":"cli","worker":"w","generation":1,"runtime":"demo","state":"user_turn"}`)
	for i, f := range []struct {
		name    string
		total   int
		message func(int) *nats.Msg
		claims  bool // the flooder's own claims are beyond its quota, too
	}{
		{"one conversation of large messages", 400, func(int) *nats.Msg { return &nats.Msg{Subject: "hitl.evt.default.cli.s", Data: event(200 << 10)} }, false},
		{"conversations of small messages", 20_000, at("hitl.evt.default.cli.s%d", event(1)), false},
		{"messages without anything", 20_000, at("hitl.evt.default.cli.s%d", nil), false},
		{"states", 20_000, at("hitl.ses.default.cli.s%d", state), true},
		{"large states", 400, at("hitl.ses.default.cli.s%d", bytes.Repeat([]byte("x"), 200<<10)), true},
		{"receipts", 20_000, at("hitl.ack.default.cli.id%d.applied", []byte(`{"v":1,"stage":"applied","decision_id":"d"}`)), true},
		{"claims", 20_000, at("hitl.ack.default.cli.id%d.taken", []byte(`{"v":1,"stage":"taken","decision_id":"d"}`)), true},
	} {
		t.Run("B-56 "+f.name, func(t *testing.T) {
			if i > 0 {
				require.NoError(t, g.stop())
				g = s.gateway(talkQuota)
			}
			cli := s.talker("cli", "own", i+1)
			won, err := cli.claim(t, fmt.Sprintf("mine%d", i), "me")
			require.NoError(t, err)
			require.True(t, won)
			bytesBefore, countBefore := s.stored(prov), s.count(prov, journal.Transcripts, "hitl.*.default.cli.>")
			began, end := s.floodUntil(bus.RoleOwner, "cli", f.total, f.message)
			<-began
			// The flooder is told, in words that its worker can log.
			require.Eventually(t, func() bool {
				err = cli.hold.Event(t.Context(), saying(300<<10))
				return err != nil
			}, patience, 10*time.Millisecond)
			require.ErrorIs(t, err, bus.ErrOverQuota)
			require.ErrorContains(t, err, "quota.conversation: this owner has used up its")
			// Others go on, and so do the flooder's own requests.
			roundTrip(t, agents.Client, g, fmt.Sprintf("meanwhile-%d", i))
			roundTrip(t, cli.Client, g, fmt.Sprintf("own-%d", i))
			require.NoError(t, agents.hold.Event(t.Context(), saying(500)))
			won, err = agents.claim(t, fmt.Sprintf("new%d", i), "me")
			require.NoError(t, err)
			require.True(t, won)
			// Its claims: one of before counts still, and a new one is stored or is none.
			won, err = cli.claim(t, fmt.Sprintf("mine%d", i), "another copy")
			require.False(t, won)
			if !f.claims {
				require.NoError(t, err)
				won, err = cli.claim(t, fmt.Sprintf("late%d", i), "me")
				require.NoError(t, err, "room is kept for what work needs")
				require.True(t, won)
			} else {
				require.Eventually(t, func() bool {
					won, err = cli.claim(t, fmt.Sprintf("late%d", i), "me")
					return err != nil || !won
				}, patience, 10*time.Millisecond)
				require.ErrorIs(t, err, bus.ErrOverQuota)
			}
			require.NoError(t, end())
			require.LessOrEqual(t, s.stored(prov)-bytesBefore, talkDay+64<<10)
			require.LessOrEqual(t, s.count(prov, journal.Transcripts, "hitl.*.default.cli.>")-countBefore, talkDay/relay.Overhead+100)
			require.Equal(t, before+1+i, s.count(prov, journal.Transcripts, claimed))
			require.Equal(t, before+1+i, s.count(prov, journal.Transcripts, "hitl.evt.default.agents.old"))
			require.Equal(t, 1, s.count(prov, journal.Transcripts, "hitl.ses.default.agents.old"))
		})
	}
	for i := range before {
		won, err := agents.claim(t, fmt.Sprintf("old%d", i), "another copy")
		require.NoError(t, err)
		require.False(t, won, "a claim of before the floods counts no more")
	}
}

// Two gateways have one quota between them, not two.
func TestGatewaysShareTheQuotaOfConversation(t *testing.T) {
	t.Parallel()
	s := newTalkSite(t, false)
	s.gateway(talkQuota)
	s.gateway(talkQuota)
	prov := s.connect(bus.RoleProvisioner)
	cli := s.talker("cli", "own", 1)
	var err error
	for range 4 * talkDay / (100 << 10) {
		if err = cli.hold.Event(t.Context(), saying(100<<10)); err != nil {
			break
		}
	}
	// One of them may know a moment later of what the other let pass.
	require.Eventually(t, func() bool {
		for range 20 {
			if cli.hold.Event(t.Context(), saying(100<<10)) == nil {
				return false
			}
		}
		return true
	}, patience, time.Millisecond)
	require.ErrorIs(t, err, bus.ErrOverQuota)
	require.LessOrEqual(t, s.stored(prov), talkDay)
	via := map[string]bool{}
	for seq := 1; seq < 40; seq++ {
		m, err := prov.Request("$JS.API.DIRECT.GET."+journal.Transcripts, fmt.Appendf(nil, `{"seq":%d}`, seq), patience)
		require.NoError(t, err)
		via[m.Header.Get(relay.HeaderVia)] = true
	}
	require.Len(t, via, 2, "both had a part")
}

// 0 is no limit, of conversations either.
func TestWithoutALimitNothingOfConversationsIsRefused(t *testing.T) {
	t.Parallel()
	s := newTalkSite(t, false)
	s.gateway(func(o *gateway.Options) { o.Quota = &gateway.Quota{} })
	cli := s.talker("cli", "own", 1)
	for range 15 {
		require.NoError(t, cli.hold.Event(t.Context(), saying(1000<<10)))
	}
}
