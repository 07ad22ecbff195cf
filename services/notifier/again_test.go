package notifier_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// A message with a link by which one decides is the same at each attempt, whichever
// replica makes it, another one for another message, and the ledger knows no token.
func TestALinkIsTheSameAtEachAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nc := b.connect(t, bus.RoleGateway)
	_, err := nc.Subscribe(subject.Service(bus.DefaultTenant, "notifier", wire.VerbTicket), func(m *nats.Msg) {
		var in wire.TicketCall
		_ = json.Unmarshal(m.Data, &in)
		raw, _ := hitl.Marshal(wire.TicketReply{Token: in.Token, URL: "https://banksman.test/l/" + in.Token, Decisions: []string{"deny", "allow"}})
		_ = m.Respond(raw)
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	hook := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	o := hook.people(t, `recipients:
  - {name: ada, user: ada, messages: 0, channels: [{channel: hook, decide: link}]}
routes:
  - {name: all, remind: [], steps: [{to: [ada]}]}
`)
	first := b.notify(t, o)
	ref, other := newRef(1), newRef(2)
	b.open(t, ref, summary(ref, time.Now()))
	one := hook.next(t)
	first.stop() // before it tries again
	second := b.notify(t, o)
	defer func() {
		if t.Failed() {
			t.Log(second.log.String())
		}
	}()
	two := hook.next(t)
	require.Equal(t, one.Raw, two.Raw)
	link := one.Data["link"].(string)
	token, ok := strings.CutPrefix(link, "https://banksman.test/l/"+wire.TicketPrefix)
	require.True(t, ok, link)
	require.Len(t, token, 43)
	b.open(t, other, summary(other, time.Now()))
	require.NotContains(t, hook.next(t).Raw, token)
	require.Empty(t, b.holds(t, token))
}

// holds are the keys of the ledger under which a text stands.
func (b *bench) holds(t *testing.T, text string) (keys []string) {
	t.Helper()
	records, err := b.ledger.Deliveries(t.Context(), newRef(1))
	require.NoError(t, err)
	require.NotEmpty(t, records)
	for _, r := range records {
		raw, err := hitl.Marshal(r.Entry)
		require.NoError(t, err)
		if strings.Contains(string(raw), text) {
			keys = append(keys, r.Key.String())
		}
	}
	return keys
}
