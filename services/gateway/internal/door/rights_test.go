package door_test

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/door"
	"github.com/banksman/banksman/services/gateway/internal/door/socket"
)

// given changes a user's roles in the store and ends nothing, as when the sessions could
// not be ended any more.
func (h *house) given(id string, roles ...wire.Grant) {
	h.t.Helper()
	nc, _ := servers.Load(h.auth)
	js, err := jetstream.New(nc.(*nats.Conn))
	require.NoError(h.t, err)
	users, err := js.KeyValue(h.t.Context(), auth.UsersBucket)
	require.NoError(h.t, err)
	e, err := users.Get(h.t.Context(), "user."+id)
	require.NoError(h.t, err)
	var u map[string]json.RawMessage
	require.NoError(h.t, json.Unmarshal(e.Value(), &u))
	u["roles"] = text(roles)
	_, err = users.Update(h.t.Context(), "user."+id, text(u), e.Revision())
	require.NoError(h.t, err)
}

// What was opened with rights goes on with them only as long as they are those of its
// person, also where nobody could end the session when they changed.
func TestWhatIsOpenEndsWithTheRightsItWasOpenedWith(t *testing.T) {
	t.Parallel()
	h := newHouse(t, quick(socket.Limits{Recheck: 10 * time.Millisecond}))
	h.fake.open("s1")
	ix := h.fake.ask(bash("s1", "c1"))
	stays, _, _ := h.as(h.user("eve", grant(wire.RoleApprover, "*"))).tab("")
	ada := h.as(h.user("ada", grant(wire.RoleApprover, "*")))
	tb, _, _ := ada.tab("")
	events, feed := ada.sse("s1", ""), ada.stream("/api/events", "")
	for events.must().typ != ":live" {
		continue
	}
	for feed.must().typ != wire.TypeActiveProcesses {
		continue
	}
	h.given("ada", grant(wire.RoleViewer, "*"))
	require.Equal(t, wire.CloseRestart, tb.code(), "she is signed in and comes back by herself")
	events.drain()
	feed.drain()

	_, _, snapshot := ada.tab("")
	require.Empty(t, snapshot[0].PendingRequests[0].ToolInput, "a viewer sees that it waits")
	stays.answer(ix, "r", map[string]any{"decision": "allow"})
	require.Equal(t, hitl.Accepted, stays.receipt("r").Status, "whose rights are the same is left alone")
}

// heldLine is a connection to the store from which nothing comes in while it is held.
type heldLine struct {
	net.Conn
	mu   sync.Mutex
	came chan struct{} // of capacity 1: something was held back; nil: nothing is
	free chan struct{} // closed when it may come in
}

func (l *heldLine) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	l.Conn = c
	return l, err
}

func (l *heldLine) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.mu.Lock()
	came, free := l.came, l.free
	l.mu.Unlock()
	if came != nil && n > 0 {
		select {
		case came <- struct{}{}:
		default:
		}
		<-free
	}
	return n, err
}

// hold keeps what the store answers until release is called; came says that it answered.
func (l *heldLine) hold() (came <-chan struct{}, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.came, l.free = make(chan struct{}, 1), make(chan struct{})
	return l.came, sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.free)
		l.came = nil
	})
}

// A session that ends between the moment the store has said that it is one and the moment
// something is open with it opens nothing: nobody would end that before the next look.
func TestWhatEndsWhileItIsCheckedOpensNothing(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"socket": "", "stream of a session": "/api/sessions/s1/events", "stream of all": "/api/events"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, line := newStore(t), &heldLine{}
			known, _ := servers.Load(store)
			closed := make(chan struct{})
			nc, err := nats.Connect(known.(*nats.Conn).ConnectedUrl(), nats.SetCustomDialer(line), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
			require.NoError(t, err)
			t.Cleanup(func() {
				nc.Close()
				<-closed
			})
			slow, err := auth.Open(t.Context(), auth.Options{Conn: nc, Logger: slog.New(slog.DiscardHandler), Person: store.Owner()})
			require.NoError(t, err)
			h := newHouseOf(t, store, quick(socket.Limits{Recheck: time.Hour}), func(o *door.Options) { o.Auth = slow })
			h.fake.open("s1")
			sess, err := h.auth.Check(t.Context(), h.token)
			require.NoError(t, err)
			told, _, _ := h.tab("")
			late, _, err := h.dial()
			require.NoError(t, err)

			came, release := line.hold()
			defer release()
			done := make(chan *sse, 1)
			if path == "" {
				late.send(map[string]string{"type": "auth", "token": h.token})
			} else {
				go func() {
					defer close(done)
					done <- h.stream(path, "")
				}()
			}
			<-came
			require.NoError(t, h.auth.Revoke(t.Context(), sess.Hash))
			require.Equal(t, wire.CloseBadAuth, told.code(), "whoever was there already is told")
			h.door.Notice(auth.Notice{Ended: sess.Hash}) // and that is over
			release()
			if path == "" {
				require.Equal(t, wire.CloseBadAuth, late.code())
				return
			}
			s, ok := <-done
			require.True(t, ok)
			require.Equal(t, http.StatusUnauthorized, s.res.StatusCode)
		})
	}
}

// A sign-in is told as one once, to its person and to whoever manages people, with whose
// it is: the use of a passkey in a session is none.
func TestOnlyANewSessionIsToldAsASignIn(t *testing.T) {
	t.Parallel()
	h := newTeamHouse(t)
	d := newDevice(h)
	vera := h.as(h.join(d, h.invited("vera", grant(wire.RoleViewer, "shop"))))
	own, _, _ := vera.tab("")
	admin, _, _ := h.tab("")
	token, _, err := h.auth.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: "vera"})
	require.NoError(t, err)
	for _, tb := range []*tab{own, admin} {
		var told wire.SignedIn
		for told.Via != auth.ViaTest || told.Principal.ID != "vera" { // others signed in before
			require.NoError(t, json.Unmarshal(tb.next(wire.TypeSignedIn), &told))
		}
		require.Equal(t, hitl.Principal{Kind: "person", ID: "vera", Name: "vera"}, told.Principal)
	}
	_, c, options := h.as(token).ceremony("/api/proof/begin", "")
	status, raw := h.as(token).post("/api/proof/finish", end(c, d.use(options), ""))
	require.Equal(t, 200, status, string(raw))
	_, last, err := h.auth.GrantTo(t.Context(), hitl.Principal{Kind: "person", ID: "vera"})
	require.NoError(t, err)
	for _, tb := range []*tab{own, admin} {
		var told wire.SignedIn
		require.NoError(t, json.Unmarshal(tb.next(wire.TypeSignedIn), &told))
		require.True(t, last.CreatedAt.Equal(told.At), "nothing between the two sign-ins was told as one")
	}
}
