package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/role"
)

// TestWhoDecides holds every role against every kind, here, elsewhere and where
// there is no project, on what is open and on what is decided.
func TestWhoDecides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	nc := w.connect()
	kinds := map[string]struct {
		make  func(string) *hitl.Request
		yes   func(*api.Attempt)
		needs string
	}{
		hitl.KindApproval: {func(key string) *hitl.Request { return request(key) }, allow, wire.RoleApprover},
		hitl.KindQuestion: {question, func(a *api.Attempt) { a.Answers = json.RawMessage(`{"0":"SQLite"}`) }, wire.RoleResponder},
		hitl.KindForm:     {func(key string) *hitl.Request { return form(key) }, func(a *api.Attempt) { a.Content = json.RawMessage(`{"env":"test"}`) }, wire.RoleResponder},
	}
	n := 0
	for kind, k := range kinds {
		for _, project := range []string{"shop", ""} {
			var all []role.Set
			for _, name := range []string{wire.RoleViewer, wire.RoleResponder, wire.RoleApprover, wire.RoleAdmin} {
				for _, in := range []string{"shop", "bank", wire.AllProjects} {
					all = append(all, role.Set{{Role: name, Projects: []string{in}}})
				}
			}
			for _, set := range append(all, nil) {
				n++
				r := k.make(fmt.Sprintf("permit-%d", n))
				r.ProjectID = project
				raw := w.ask(nc, r)
				pending(t, e, r.ID)
				name, in := "nobody", ""
				if set != nil {
					name, in = set[0].Role, set[0].Projects[0]
				}
				want := hitl.Accepted
				switch {
				case in != wire.AllProjects && (project == "" || in != project):
					want = hitl.NotFound
				case name != k.needs && name != wire.RoleAdmin:
					want = hitl.Forbidden
				}
				t.Run(fmt.Sprintf("%s of %q on a %s in %q", name, in, kind, project), func(t *testing.T) {
					attempt := answer(r, raw, "ada", k.yes)
					attempt.Rights, attempt.From = set, "192.0.2.7"
					rec := e.Decide(t.Context(), attempt)
					require.Equal(t, want, rec.Status, rec.Error)
					if want == hitl.Accepted {
						require.Equal(t, name, rec.Decision.Policy.Role)
						require.Equal(t, "192.0.2.7", rec.Decision.From)
						require.Len(t, rec.Decision.Shown, 64)
					} else {
						require.Nil(t, rec.Decision)
						require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "owner", k.yes)).Status, "it still waited")
						// Who could not decide it learns nothing of the answer.
						rec := e.Decide(t.Context(), attempt)
						require.Equal(t, want, rec.Status)
						require.Nil(t, rec.Decision)
					}
				})
				pending(t, e)
			}
		}
	}
}

func TestWhoAsksDoesNotDecide_invariant2(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	r := request("k")
	raw := w.ask(w.connect(), r)
	pending(t, e, r.ID)
	for name, change := range map[string]func(*api.Attempt){
		"a service of the owner's name": func(a *api.Attempt) { a.Principal = hitl.Principal{Kind: "service", ID: "agents"} },
		"a token that is for the owner": func(a *api.Attempt) {
			a.Principal, a.AskedFor = hitl.Principal{Kind: "service", ID: "token-1"}, "agents"
		},
		"an asker":                            func(a *api.Attempt) { a.Principal = hitl.Principal{Kind: "asker", ID: "x"} },
		"a person without any right":          func(a *api.Attempt) { a.Rights = nil },
		"a person who is admin of nothing":    func(a *api.Attempt) { a.Rights = role.Set{{Role: wire.RoleAdmin}} },
		"somebody with a role that is no one": func(a *api.Attempt) { a.Rights = role.Set{{Role: "root", Projects: []string{"*"}}} },
	} {
		t.Run(name, func(t *testing.T) {
			attempt := answer(r, raw, "ada", allow)
			change(&attempt)
			rec := e.Decide(t.Context(), attempt)
			require.Contains(t, []hitl.Status{hitl.Forbidden, hitl.NotFound}, rec.Status)
			require.Nil(t, rec.Decision)
		})
	}
	pending(t, e, r.ID)
}

// An approval for the session that takes over a mode in which less is asked needs what
// setting that mode needs; for this call only it does not.
func TestAModeThatIsSuggestedNeedsPresence_B56(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, _ := w.gateway()
	suggests := func(suggestions string) func(*hitl.Request) {
		return func(r *hitl.Request) { r.Suggestions = json.RawMessage(suggestions) }
	}
	session := func(a *api.Attempt) { a.Decision, a.Scope = "allow", "session" }
	const mode, rules = `[{"type":"setMode","mode":"acceptEdits","destination":"session"}]`, `[{"type":"addRules","destination":"session"}]`
	old := func(a *api.Attempt) {
		a.Presence = func(context.Context) (bool, time.Time, error) { return true, time.Time{}, nil }
	}
	fresh := func(a *api.Attempt) {
		a.Presence = func(context.Context) (bool, time.Time, error) { return true, e.now(), nil }
	}
	program := func(a *api.Attempt) { a.Principal = hitl.Principal{Kind: "service", ID: "token-1"} }
	for i, row := range []struct {
		name, suggestions string
		say, by           func(*api.Attempt)
		want              hitl.Status
	}{
		{"an old proof", mode, session, old, hitl.Forbidden},
		{"a program", mode, session, program, hitl.Forbidden},
		{"a program, behind a rule", `[{"type":"addRules"},{"type":"setMode","mode":"auto"}]`, session, program, hitl.Forbidden},
		{"a program, what cannot be read", `{"type":"setMode"}`, session, program, hitl.Forbidden},
		{"a fresh proof", mode, session, fresh, hitl.Accepted},
		{"a program, for this call", mode, allow, program, hitl.Accepted},
		{"a program, rules", rules, session, program, hitl.Accepted},
		{"a program, a mode that asks", `[{"type":"setMode","mode":"default"}]`, session, program, hitl.Accepted},
	} {
		r := request(fmt.Sprint("suggests-", i), suggests(row.suggestions))
		raw := w.ask(w.connect(), r)
		pending(t, e, r.ID)
		a := answer(r, raw, "ada", row.say)
		row.by(&a)
		rec := e.Decide(t.Context(), a)
		require.Equal(t, row.want, rec.Status, "%s: %s", row.name, rec.Error)
		if row.want == hitl.Forbidden {
			require.NotEmpty(t, rec.Fields, row.name)
			require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "ada", deny)).Status, "it still waited")
		}
		pending(t, e)
	}
}

func TestWhatIsCriticalNeedsPresence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var c clock
	e, _ := w.gateway(func(o *Options) { o.Clock = c.now })
	nc := w.connect()
	has := func(passkey bool, ago time.Duration) func(*api.Attempt) {
		return func(a *api.Attempt) {
			a.Presence = func(context.Context) (bool, time.Time, error) {
				if ago == 0 {
					return passkey, time.Time{}, nil
				}
				return passkey, e.now().Add(-ago), nil
			}
		}
	}
	for i, tc := range []struct {
		name      string
		change    func(*api.Attempt)
		verb      func(*api.Attempt)
		want      hitl.Status
		assurance string
	}{
		{"no passkey", has(false, 0), allow, hitl.Accepted, "session"},
		{"a passkey that was not used", has(true, 0), allow, hitl.Forbidden, ""},
		{"used long ago", has(true, 6*time.Minute), allow, hitl.Forbidden, ""},
		{"used just now", has(true, 4*time.Minute), allow, hitl.Accepted, "step_up"},
		{"no is free", has(true, 0), deny, hitl.Accepted, "session"},
		{"nobody knows", func(*api.Attempt) {}, allow, hitl.Forbidden, ""},
		{"it cannot be asked", func(a *api.Attempt) {
			a.Presence = func(context.Context) (bool, time.Time, error) { return false, time.Time{}, errors.New("gone") }
		}, allow, hitl.Unavailable, ""},
		{"a program", func(a *api.Attempt) { has(false, 0)(a); a.Principal = hitl.Principal{Kind: "service", ID: "ci"} }, allow, hitl.Forbidden, ""},
		{"an edit that makes it critical", func(a *api.Attempt) {
			has(true, 0)(a)
			a.UpdatedInput = json.RawMessage(`{"command":"rm -rf /"}`)
		}, allow, hitl.Forbidden, ""},
		{"a program says no", func(a *api.Attempt) { a.Principal = hitl.Principal{Kind: "service", ID: "ci"} }, deny, hitl.Accepted, "session"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			risk := "critical"
			if strings.HasPrefix(tc.name, "an edit") {
				risk = ""
			}
			r := request(fmt.Sprintf("critical-%d", i), func(r *hitl.Request) { r.Risk = risk })
			raw := w.ask(nc, r)
			pending(t, e, r.ID)
			attempt := answer(r, raw, "ada", tc.verb)
			tc.change(&attempt)
			attempt.RequestID = r.ID
			rec := e.Decide(t.Context(), attempt)
			require.Equal(t, tc.want, rec.Status, rec.Error)
			if tc.want == hitl.Accepted {
				require.Equal(t, tc.assurance, rec.Decision.Assurance)
				return
			}
			if tc.want == hitl.Forbidden {
				require.Equal(t, "assurance", rec.Fields[0].Field)
			}
			require.Equal(t, hitl.Accepted, e.Decide(t.Context(), answer(r, raw, "bob", deny)).Status, "it still waited")
		})
	}
}
