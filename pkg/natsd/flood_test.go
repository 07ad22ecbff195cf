package natsd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitltest"
	"github.com/banksman/banksman/pkg/natsd"
)

// safeNode is a server that flushes each message to the disk, in a process of its own
// or in this one.
func safeNode(t *testing.T, process bool) *node {
	t.Helper()
	plan := testPlan(t.TempDir())
	plan.Durability = natsd.DurabilityAlways
	require.NoError(t, natsd.Write(plan))
	n := &node{dir: plan.Dir}
	if process {
		hitltest.Again(t, childConfig+"="+natsd.ConfigFile(plan.Dir))
	} else {
		n.srv = start(t, plan.Dir)
	}
	provision(t, n.connect(t, bus.RoleProvisioner, "", "").js(t), 1)
	return n
}

// Where no gateway gives each owner its turn, however much one has sent, another one's
// request is stored behind no more
// than the server takes in, which is the product's setting and not the server's.
// Who sends more reads that nothing was stored.
func TestAFloodOfRequestsIsBounded(t *testing.T) {
	t.Parallel()
	for _, process := range []bool{false, true} {
		t.Run(fmt.Sprintf("as a process: %v", process), func(t *testing.T) {
			t.Parallel()
			n := safeNode(t, process)
			gw := n.connect(t, bus.RoleGateway, "", "")
			evil, free := n.connect(t, bus.RoleOwner, "t", "pool"), n.connect(t, bus.RoleOwner, "t", "cli")
			answers, err := evil.SubscribeSync(evil.NewInbox())
			require.NoError(t, err)
			const total = 12 * natsd.MaxBuffered
			body := make([]byte, 300)
			for i := range total {
				require.NoError(t, evil.PublishMsg(&nats.Msg{Subject: fmt.Sprintf("hitl.box.t.pool.x%d.req", i), Reply: answers.Subject, Data: body}))
			}
			require.NoError(t, evil.FlushTimeout(patience)) // the server has read all of it
			last := func() uint64 {
				var info struct {
					State struct {
						Last uint64 `json:"last_seq"`
					}
				}
				require.NoError(t, json.Unmarshal(gw.ask(t, "$JS.API.STREAM.INFO.HITL_MAILBOX", "").Data, &info))
				return info.State.Last
			}
			before := last()
			seq, code := uint64(0), 10167
			for code == 10167 { // nothing more arrives: there will be room
				m, err := free.Request("hitl.box.t.cli.mine.req", []byte("request"), 5*patience)
				require.NoError(t, err)
				seq, code = put(t, m.Data)
			}
			require.Zero(t, code)
			require.LessOrEqual(t, seq-before, uint64(2*natsd.MaxBuffered+1), "stored between what the server had stored and the bystander's")
			kept, refused := 0, 0
			for range total {
				m, err := answers.NextMsg(patience)
				require.NoError(t, err)
				if _, code := put(t, m.Data); code == 10167 {
					refused++
				} else {
					kept++
				}
			}
			require.Positive(t, refused)
			require.EqualValues(t, kept+1, last(), "what was refused does not come later")
		})
	}
}

// put reads the server's answer to a publish.
func put(t *testing.T, answer []byte) (seq uint64, code int) {
	t.Helper()
	var ack struct {
		Seq   uint64
		Error struct {
			Code int `json:"err_code"`
		}
	}
	require.NoError(t, json.Unmarshal(answer, &ack))
	require.NotEqual(t, ack.Seq == 0, ack.Error.Code == 0, string(answer))
	return ack.Seq, ack.Error.Code
}

// Beside a flood that never pauses, of requests and of what is left for the gateways at
// once, another owner's request is stored at its first try, each time: who is let in is
// no matter of luck.
func TestAnEndlessFloodTurnsNobodyAway_B56(t *testing.T) {
	t.Parallel()
	for _, process := range []bool{false, true} {
		t.Run(fmt.Sprintf("as a process: %v", process), func(t *testing.T) {
			t.Parallel()
			n := safeNode(t, process)
			passOn(t, n.connect(t, bus.RoleGateway, "", ""))
			var flood sync.WaitGroup
			stop, began := make(chan struct{}), make(chan struct{}, 2)
			for _, form := range []string{"hitl.req.t.pool.x%d", "hitl.box.t.pool.x%d.req"} {
				evil := n.connect(t, bus.RoleOwner, "t", "pool")
				refused := sync.OnceFunc(func() { began <- struct{}{} })
				sub, err := evil.Subscribe(evil.NewInbox(), func(m *nats.Msg) {
					if strings.Contains(string(m.Data), `"err_code":10167`) {
						refused()
					}
				})
				require.NoError(t, err)
				flood.Go(func() {
					body := make([]byte, 300)
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
							_ = evil.PublishMsg(&nats.Msg{Subject: fmt.Sprintf(form, i), Reply: sub.Subject, Data: body})
						}
					}
				})
			}
			defer flood.Wait()
			defer close(stop)
			<-began
			<-began
			free := n.connect(t, bus.RoleOwner, "t", "cli")
			for i := range 5 {
				m, err := free.Request(fmt.Sprintf("hitl.req.t.cli.x%d", i), []byte("request"), 5*patience)
				require.NoError(t, err)
				_, code := put(t, m.Data)
				require.Zero(t, code, string(m.Data))
			}
		})
	}
}
