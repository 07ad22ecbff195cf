package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

func strangerSeed(t *testing.T) string {
	t.Helper()
	kp, err := nkeys.CreateUser()
	require.NoError(t, err)
	seed, err := kp.Seed()
	require.NoError(t, err)
	return string(seed)
}

// serve answers a caller's calls of a verb with one body.
func (n *node) serve(t *testing.T, caller, verb string, reply *nats.Msg) <-chan []byte {
	t.Helper()
	got := make(chan []byte, 1)
	sub, err := n.gateway.Subscribe("hitl.svc.default."+caller+"."+verb, func(m *nats.Msg) {
		got <- m.Data
		_ = m.RespondMsg(&nats.Msg{Header: reply.Header, Data: reply.Data})
	})
	require.NoError(t, err)
	require.NoError(t, n.gateway.Flush())
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return got
}

func body(s string) *nats.Msg { return &nats.Msg{Data: []byte(s)} }

func TestServiceCalls(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, _ := n.client(t, bus.RoleOwner, "cli")

	got := n.serve(t, "cli", wire.VerbDecide, body(`{"status":"already_decided","error":"Ada was first","decision":{"v":1,"outcome":"denied"}}`))
	r, err := c.Decide(t.Context(), wire.DecideCall{ID: "i1", Token: "t", Response: hitl.Response{Decision: "allow", Digest: "d"}})
	require.NoError(t, err)
	require.Equal(t, hitl.AlreadyDecided, r.Status)
	require.Equal(t, hitl.Denied, r.Decision.Outcome)
	require.JSONEq(t, `{"id":"i1","token":"t","decision":"allow","digest":"d"}`, string(<-got))

	n.serve(t, "cli", wire.VerbCancel, body(`{"error":{"code":"not_found","error":"no such interaction"}}`))
	r, err = c.Cancel(t.Context(), "i1")
	require.NoError(t, err, "the word of a receipt is a receipt, however it comes")
	require.Equal(t, hitl.NotFound, r.Status)

	n.serve(t, "cli", wire.VerbList, body(`{"interactions":[{"id":"i1","state":"pending","title":"T"}]}`))
	list, err := c.List(t.Context(), wire.ListCall{State: "pending"})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "i1", list[0].ID)

	n.serve(t, "cli", wire.VerbGet, body(`{"error":{"code":"overloaded","error":"try again","fields":[{"field":"id","problem":"is odd"}]}}`))
	_, err = c.Get(t.Context(), "i1")
	var refused *bus.ServiceError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "overloaded", refused.Body.Code)
	require.Contains(t, err.Error(), "id is odd")

	n.serve(t, "cli", wire.VerbLogin, &nats.Msg{Header: nats.Header{
		"Nats-Service-Error": {"boom"}, "Nats-Service-Error-Code": {"500"},
	}})
	_, err = c.Login(t.Context(), wire.LoginCall{CLI: true})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "500", refused.Body.Code)
}

func TestServiceCallsThatGetNoAnswer(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c, _ := n.client(t, bus.RoleCaller, "ci")
	_, err := c.List(t.Context(), wire.ListCall{})
	require.ErrorIs(t, err, bus.ErrUnavailable)

	mute, err := n.gateway.SubscribeSync("hitl.svc.*.*.*")
	require.NoError(t, err)
	require.NoError(t, n.gateway.Flush())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.List(ctx, wire.ListCall{})
	require.ErrorIs(t, err, bus.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = mute.NextMsg(patience)
	require.NoError(t, err)
	why, stop := context.WithCancelCause(t.Context())
	stop(errors.New("changed my mind"))
	_, err = c.List(why, wire.ListCall{})
	require.ErrorContains(t, err, "changed my mind")

	worker, _ := n.client(t, bus.RoleOwner, "quiet")
	_, err = worker.List(t.Context(), wire.ListCall{})
	require.ErrorIs(t, err, bus.ErrForbidden, "this owner is no caller")
}
