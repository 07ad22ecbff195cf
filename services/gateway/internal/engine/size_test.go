package engine

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

// smallWorld is newWorld on a server that takes messages of at most maxPayload
// bytes.
func smallWorld(t *testing.T, maxPayload int32) *world {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, JetStreamMaxStore: 64 << 30, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: maxPayload,
	})
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(patience))
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	w := &world{t, srv, key}
	require.NoError(t, journal.Provision(t.Context(), w.connect(), journal.Config{}))
	return w
}

// filled makes a request of exactly size bytes whose tool input holds fill over
// and over.
func filled(t *testing.T, key, fill string, size int, change ...func(*hitl.Request)) (*hitl.Request, []byte) {
	t.Helper()
	with := func(text string) (*hitl.Request, []byte) {
		r := request(key, append(change, func(r *hitl.Request) {
			r.Tool.Input = json.RawMessage(`{"command":"` + text + `"}`)
		})...)
		raw, err := hitl.Marshal(r)
		require.NoError(t, err)
		return r, raw
	}
	_, empty := with("")
	n := (size - len(empty)) / len(fill)
	pad := size - len(empty) - n*len(fill)
	r, raw := with(strings.Repeat(fill, n) + strings.Repeat("p", pad))
	require.Len(t, raw, size)
	_, err := hitl.ParseRequest(raw)
	require.NoError(t, err)
	return r, raw
}

// ended is outcome without reading the request at every look.
func ended(t *testing.T, e *Engine, r *hitl.Request) wire.Interaction {
	t.Helper()
	var ix wire.Interaction
	require.Eventually(t, func() bool {
		list, err := e.Interactions(t.Context(), wire.StateClosed, 0)
		for _, c := range list {
			if c.Key == ref(r).String() {
				ix = c
			}
		}
		return err == nil && ix.Key != ""
	}, 3*patience, 5*time.Millisecond)
	return ix
}

// fills spares the time of every text where each is a megabyte: encodings grow
// the same at any size.
func fills(maxPayload int32, all ...string) []string {
	if maxPayload > 1<<20 {
		return all[:2]
	}
	return all
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

// Whatever fits into a request also fits into its decision, by every outcome,
// on servers of every size.
func TestTheLargestRequestsEndByEveryOutcome_invariant11(t *testing.T) {
	t.Parallel()
	for _, maxPayload := range []int32{8 << 20, 1 << 20, 256 << 10} {
		t.Run(fmt.Sprintf("a server that takes %d KiB", maxPayload>>10), func(t *testing.T) {
			t.Parallel()
			w := smallWorld(t, maxPayload)
			e, _ := w.gateway()
			nc := w.connect()
			limit := min(hitl.MaxRequest, (int(maxPayload)-64<<10)/3)
			var all []*hitl.Request
			for i, fill := range fills(maxPayload, "<", "\u2028", `\"`, "\u007f", `\u0000`, `\ud800`) {
				r, raw := filled(t, fmt.Sprint("k", i), fill, limit, expiring(100*time.Millisecond))
				w.store(nc, subject.Request(ref(r)), raw)
				all = append(all, r)
			}
			for _, r := range all {
				require.Equal(t, hitl.Expired, ended(t, e, r).Outcome)
			}
			r, raw := filled(t, "withdrawn", "<", limit)
			w.store(nc, subject.Request(ref(r)), raw)
			w.store(nc, subject.Withdraw(ref(r)), []byte(`{"v":1,"reason":"`+strings.Repeat("r", 10_000)+`"}`))
			got := ended(t, e, r)
			require.Equal(t, hitl.Cancelled, got.Outcome)
			require.Equal(t, hitl.Digest(raw), got.Digest)
			r, _ = filled(t, "lost", "<", limit)
			w.store(nc, subject.Request(ref(r)), must(hitl.Marshal(r)))
			pending(t, e, r.ID)
			w.store(nc, subject.State(subject.NewSession("default", "agents", "s1")), sessionState(map[string]any{"state": "dead"}))
			require.Equal(t, hitl.Orphaned, ended(t, e, r).Outcome)
		})
	}
}

// A server may take requests that it could not take back as a decision: those
// are refused, and nothing of them stays.
func TestWhatCouldNeverBeDecidedIsRefused_invariant11(t *testing.T) {
	t.Parallel()
	const maxPayload = 1 << 20
	w := smallWorld(t, maxPayload)
	e, _ := w.gateway()
	nc := w.connect()
	for _, size := range []int{(maxPayload-64<<10)/3 + 1, maxPayload - 4<<10} {
		r, raw := filled(t, fmt.Sprint("k", size), "<", size)
		w.store(nc, subject.Request(ref(r)), raw)
		got := ended(t, e, r)
		require.Equal(t, hitl.InvalidIX, got.Outcome)
		require.Equal(t, "request", got.Decision.Fields[0].Field)
		require.Contains(t, got.Decision.Fields[0].Problem, fmt.Sprint((maxPayload-64<<10)/3))
		require.Equal(t, hitl.Digest(raw), got.Digest)
	}
	require.NoError(t, e.Healthy())
	// Bytes that are no request at all, as large as the server takes them.
	for i, raw := range [][]byte{
		bytes.Repeat([]byte{0xff}, maxPayload-4<<10), []byte(`{"v":1,"options":[` + strings.Repeat("{},", 300_000) + `{}]}`),
		[]byte(`{"` + strings.Repeat("\u2028", 300_000) + `":1,"a":1,"A":2}`), bytes.Repeat([]byte("["), maxPayload-4<<10),
	} {
		r := request(fmt.Sprint("bad", i))
		w.store(nc, subject.Request(ref(r)), raw)
		require.Equal(t, hitl.InvalidIX, ended(t, e, r).Outcome)
	}
	require.NoError(t, e.Healthy())
}

// The largest answers fit as well; one that does not is refused by name, and
// leaves the request to a smaller one.
func TestTheLargestAnswers_invariant6_invariant11_B08(t *testing.T) {
	t.Parallel()
	for _, maxPayload := range []int32{8 << 20, 1 << 20, 256 << 10} {
		t.Run(fmt.Sprintf("a server that takes %d KiB", maxPayload>>10), func(t *testing.T) {
			t.Parallel()
			w := smallWorld(t, maxPayload)
			e, _ := w.gateway()
			nc := w.connect()
			limit := min(hitl.MaxRequest, (int(maxPayload)-64<<10)/3)
			room := min(hitl.MaxContent, limit) - 1<<10 // what every server has room for
			for i, fill := range fills(maxPayload, "<", "\u2028", `"`, "\x00") {
				r, raw := filled(t, fmt.Sprint("k", i), "<", limit)
				w.store(nc, subject.Request(ref(r)), raw)
				pending(t, e, r.ID)
				say := func(size int) func(*api.Attempt) {
					quoted, err := hitl.Marshal(fill)
					require.NoError(t, err)
					text := strings.Repeat(fill, size/(len(quoted)-2))
					return func(a *api.Attempt) { a.Decision, a.Message = "deny", text }
				}
				rec := e.Decide(t.Context(), answer(r, raw, "ada", say(hitl.MaxContent+1<<10)))
				require.Equal(t, hitl.BadInput, rec.Status, rec.Error)
				require.Equal(t, "response", rec.Fields[0].Field)
				if int(maxPayload) < 4<<20 {
					rec = e.Decide(t.Context(), answer(r, raw, "ada", say(hitl.MaxContent-1<<10)))
					require.Equal(t, hitl.BadInput, rec.Status, "%q: %s", fill, rec.Error)
					require.Equal(t, "response", rec.Fields[0].Field)
				}
				require.NoError(t, e.Healthy(), "a person's long text is no fault of the store")
				rec = e.Decide(t.Context(), answer(r, raw, "ada", say(room)))
				require.Equal(t, hitl.Accepted, rec.Status, "%q: %s", fill, rec.Error)
				require.Equal(t, hitl.Denied, ended(t, e, r).Outcome)
			}
		})
	}
}
