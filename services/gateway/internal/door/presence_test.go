package door_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/door"
	"github.com/banksman/banksman/services/gateway/internal/presence"
)

// looks are what was passed on.
type looks struct {
	mu   sync.Mutex
	list []string
}

func (l *looks) tell(r subject.Ref) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r.String())
	return nil
}

// take gives back what was passed on since the last time.
func (l *looks) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.list
	l.list = nil
	return out
}

func lookingHouse(t *testing.T) (*house, *looks) {
	t.Helper()
	l := &looks{}
	h := newHouse(t, func(o *door.Options) {
		waiting := o.Engine.(*fake).Waiting
		o.Presence = presence.New(presence.Options{Waiting: waiting, Tell: l.tell, Logger: slog.New(slog.DiscardHandler)})
	})
	return h, l
}

func (h *house) see(keys ...string) (int, string) {
	h.t.Helper()
	raw, err := json.Marshal(wire.Seen{Requests: keys})
	require.NoError(h.t, err)
	status, body, _ := h.call(http.MethodPost, "/api/seen", string(raw))
	return status, string(body)
}

// Whoever may not answer a request cannot keep others from being told of it: not by
// looking at it, nor by saying so of one that they do not see.
func TestOnlyWhoMayAnswerHoldsAnAlertBack(t *testing.T) {
	t.Parallel()
	h, told := lookingHouse(t)
	about := func(r hitl.Request) hitl.Request {
		r.ProjectID = "shop"
		return r
	}
	call := func() string {
		return h.fake.ask(about(bash("s1", ""))).summary.Key
	}
	question := func() string {
		return h.fake.ask(about(question("s1", ""))).summary.Key
	}
	for _, c := range []struct {
		who      string
		roles    []wire.Grant
		call     bool
		question bool
	}{
		{"nobody", []wire.Grant{grant(wire.RoleViewer, "bank")}, false, false},
		{"viewer", []wire.Grant{grant(wire.RoleViewer, "shop")}, false, false},
		{"viewer-all", []wire.Grant{grant(wire.RoleViewer, wire.AllProjects)}, false, false},
		{"other", []wire.Grant{grant(wire.RoleAdmin, "bank")}, false, false},
		{"responder", []wire.Grant{grant(wire.RoleResponder, "shop")}, false, true},
		{"approver", []wire.Grant{grant(wire.RoleApprover, "shop")}, true, false},
		{"admin", []wire.Grant{grant(wire.RoleAdmin, "shop")}, true, true},
		{"bound", []wire.Grant{{Role: wire.RoleAdmin, Projects: []string{"shop"}, Tenants: []string{"default"}}}, true, true},
		{"bound-away", []wire.Grant{{Role: wire.RoleAdmin, Projects: []string{"shop"}, Tenants: []string{"acme"}}}, false, false},
	} {
		a, q := call(), question()
		status, body := h.as(h.user(c.who, c.roles...)).see(a, q, "default.agents.none")
		require.Equal(t, 200, status, body)
		require.JSONEq(t, `{"ok":true}`, body, "and nobody learns which of them are there")
		var want []string
		if c.call {
			want = append(want, a)
		}
		if c.question {
			want = append(want, q)
		}
		require.Equal(t, want, told.take(), c.who)
	}

	// A program is no person at a screen.
	made, err := h.auth.NewToken(t.Context(), wire.NewAPIToken{
		Name: "bot", Roles: []wire.Grant{grant(wire.RoleAdmin, wire.AllProjects)}, ExpiresIn: 3600,
	}, hitl.Principal{Kind: "person", ID: "owner"})
	require.NoError(t, err)
	status, body := h.as(made.Token).see(call())
	require.Equal(t, 403, status, body)
	require.Empty(t, told.take())

	// What is settled is looked at in vain, and what was told a moment ago is not told again.
	one := call()
	for range 3 {
		status, _ = h.see(one)
		require.Equal(t, 200, status)
	}
	require.Equal(t, []string{one}, told.take())
	settled := call()
	rec := h.decide(settled)
	require.Equal(t, 200, rec)
	status, _ = h.see(settled)
	require.Equal(t, 200, status)
	require.Empty(t, told.take())
}

// decide denies one.
func (h *house) decide(key string) int {
	h.t.Helper()
	sum, ok := h.fake.Waiting(key)
	require.True(h.t, ok)
	status, _, _ := h.call(http.MethodPost, "/api/interactions/"+key+"/decision", fmt.Sprintf(`{"digest":%q,"decision":"deny"}`, sum.Digest))
	return status
}

func TestWhatCannotBeALookIsRefusedByEveryDoor(t *testing.T) {
	t.Parallel()
	h, told := lookingHouse(t)
	many := make([]string, wire.MaxSeen+1)
	for i := range many {
		many[i] = fmt.Sprint("default.agents.", i)
	}
	for name, list := range map[string][]string{"none": {}, "too many": many} {
		status, body := h.see(list...)
		require.Equal(t, 400, status, name)
		require.Contains(t, body, `"field":"requests"`, name)
	}
	a := h.fake.ask(bash("s1", "c1"))
	tb, _, _ := h.tab("")
	tb.send(wire.Client{Type: wire.TypeSeen, Requests: many})
	require.Equal(t, hitl.BadInput, tb.receipt("").Status)
	key := a.summary.Key
	tb.send(wire.Client{Type: wire.TypeSeen, Requests: []string{key}})
	tb.send(wire.Client{Type: wire.TypeSeen, Requests: []string{key}, Response: hitl.Response{Ref: "r"}})
	require.Equal(t, hitl.Accepted, tb.receipt("r").Status)
	require.Equal(t, []string{key}, told.take())
}
