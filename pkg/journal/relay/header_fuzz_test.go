package relay

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// Whatever an owner puts into its headers, only those that are passed on are stored,
// and none that asks the server about another owner.
func FuzzHeader(f *testing.F) {
	for _, v := range []string{"", "1", "x", strings.Repeat("9", 21), "hitl.evt.t.o.s", "hitl.evt.t.other.s", "hitl.evt.other.o.s", "hitl.>", "a.b", "\xff\r\n"} {
		for _, name := range []string{expect, expectAmong, wire.HeaderHold, hitl.HeaderAttempt, hitl.HeaderWorker, HeaderVia, "Nats-Rollup", "Nats-Msg-Id", wire.HeaderLeftAt} {
			f.Add(name, v)
		}
	}
	r := &Relay{o: Options{Name: "gw"}}
	at := subject.Parsed{Kind: "evt", Tenant: "t", Owner: "o"}
	f.Fuzz(func(t *testing.T, name, v string) {
		out, err := r.header(nats.Header{name: {v}}, at)
		if err != nil {
			require.Nil(t, out)
			return
		}
		require.Equal(t, "gw", out.Get(HeaderVia), "it says whose relay it went through")
		for have, list := range out {
			require.Len(t, list, 1)
			switch have {
			case HeaderVia, expect, expectAmong, wire.HeaderHold, hitl.HeaderAttempt, hitl.HeaderWorker:
			default:
				require.Contains(t, strings.ToLower(have), "trace", "no other is passed on")
			}
		}
		if among := out.Get(expectAmong); among != "" {
			parts := strings.Split(among, ".")
			require.Equal(t, []string{"t", "o"}, parts[2:4])
		}
	})
}
