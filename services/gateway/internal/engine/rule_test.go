package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/auth"
	"github.com/banksman/banksman/services/gateway/internal/role"
	"github.com/banksman/banksman/services/gateway/internal/rulebook"
)

// ruling is a gateway with rules.
type ruling struct {
	*Engine
	desk *rulebook.Desk
	book *rulebook.Book
}

// people is what everybody may do, by id.
type people struct {
	mu   sync.Mutex
	sets map[string]role.Set
	err  error
	// meanwhile, if any, happens once, while somebody waits for an answer.
	meanwhile func()
}

func (p *people) rights(_ context.Context, id string) (role.Set, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.meanwhile != nil {
		p.meanwhile()
		p.meanwhile = nil
	}
	return p.sets[id], p.err
}

func (p *people) set(id string, s role.Set) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sets[id] = s
}

func everybody() *people {
	return &people{sets: map[string]role.Set{"ada": role.Everything()}}
}

func (w *world) ruling(who *people, clock func() time.Time, change ...func(*Options)) *ruling {
	w.t.Helper()
	nc := w.connect()
	book, err := rulebook.Open(w.t.Context(), rulebook.Options{Conn: nc, Logger: slog.New(slog.DiscardHandler), Clock: clock, Rights: who.rights})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- book.Follow(ctx, func() {}) }()
	w.t.Cleanup(func() {
		cancel()
		require.NoError(w.t, <-done)
	})
	e, _ := w.gateway(append([]func(*Options){func(o *Options) {
		o.Rules, o.Clock, o.Critical = book, clock, []string{"/var/banksman"}
	}}, change...)...)
	return &ruling{Engine: e, book: book, desk: &rulebook.Desk{Book: book, Engine: e}}
}

func signedIn(id string, rights role.Set) *auth.Session {
	return &auth.Session{Person: person(id), Rights: rights, Via: auth.ViaLink, Channel: "web", ExpiresAt: time.Now().Add(time.Hour)}
}

func shell(key, command string, change ...func(*hitl.Request)) *hitl.Request {
	return request(key, append([]func(*hitl.Request){func(r *hitl.Request) {
		raw, err := hitl.Marshal(map[string]string{"command": command})
		if err != nil {
			panic(err)
		}
		r.Tool.Input, r.ProjectID = raw, "shop"
	}}, change...)...)
}

// always is the wish for a rule like r.
func always(r *hitl.Request, raw []byte, change ...func(*wire.NewRule)) wire.NewRule {
	in := wire.NewRule{RequestID: ref(r).String(), Digest: hitl.Digest(raw), Pattern: wire.RuleWords, Scope: wire.RuleProject, ExpiresIn: 3600}
	for _, fn := range change {
		fn(&in)
	}
	return in
}

func uses(n int) func(*wire.NewRule) { return func(in *wire.NewRule) { in.MaxUses = n } }

// rule makes a rule by a request that is asked for it and denied by a person.
func (g *ruling) rule(w *world, nc *nats.Conn, command string, change ...func(*wire.NewRule)) *wire.Rule {
	w.t.Helper()
	r := shell(fmt.Sprint("sample ", command, time.Now().UnixNano()), command)
	raw := w.ask(nc, r)
	require.Eventually(w.t, func() bool { // before that a rule could decide it
		list, err := g.Interactions(w.t.Context(), wire.StatePending, 0)
		return err == nil && slices.ContainsFunc(list, func(ix wire.Interaction) bool { return ix.ID == r.ID })
	}, patience, time.Millisecond)
	made, err := g.desk.Make(w.t.Context(), signedIn("ada", role.Everything()), always(r, raw, change...))
	require.NoError(w.t, err)
	no := answer(r, raw, "ada", func(a *api.Attempt) { a.Decision, a.RequestID = "deny", ref(r).String() })
	require.Equal(w.t, hitl.Accepted, g.Decide(w.t.Context(), no).Status)
	return &made.Rule
}

// knows waits until a gateway knows a rule.
func (g *ruling) knows(t *testing.T, id string, want func(wire.Rule) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, r := range g.desk.List(signedIn("ada", role.Everything())) {
			if r.ID == id {
				return want(r)
			}
		}
		return false
	}, patience, time.Millisecond)
}

func inForce(r wire.Rule) bool { return r.State == wire.RuleActive }

func (g *ruling) count(t *testing.T, id string) (n int) {
	t.Helper()
	for _, r := range g.desk.List(signedIn("ada", role.Everything())) {
		if r.ID == id {
			n = r.Uses
		}
	}
	return n
}

// What a rule allows is decided before anybody is shown it, by the one path, and
// the record says by which rule and whose it is.
func TestARuleDecidesBeforePeopleAreAsked_B59_invariant1(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.ruling(everybody(), nil), w.ruling(everybody(), nil)
	nc := w.connect()
	made := here.rule(w, nc, "git status")
	there.knows(t, made.ID, inForce)
	pending(t, there.Engine)
	var seen [2]recorder
	for i, g := range []*ruling{here, there} {
		watch := g.Watch("", seen[i].add)
		t.Cleanup(watch.Stop)
	}
	r := shell("again", "git status 2>&1")
	raw := w.ask(nc, r)
	for i, g := range []*ruling{here, there} {
		ix := outcome(t, g.Engine, r)
		d := ix.Decision
		require.Equal(t, hitl.Allowed, d.Outcome)
		require.Equal(t, hitl.Principal{Kind: "rule", ID: made.ID, Name: "a rule of ada"}, d.Principal)
		require.Equal(t, made.ID, d.Rule)
		require.Equal(t, "rule", d.Channel)
		require.Equal(t, hitl.Digest(raw), d.Digest)
		require.Equal(t, "admin", d.Policy.Role)
		require.Contains(t, d.Comment, "made by ada (ada): Allows the command git status")
		// The conversation has the request and its answer; the inbox never had it.
		require.Eventually(t, func() bool { return len(seen[i].events("default.agents.s1")) >= 5 }, patience, time.Millisecond)
		for _, st := range seen[i].states("default.agents.s1") {
			require.Zero(t, st.PendingCount, "nobody was shown it as waiting")
		}
	}
	here.knows(t, made.ID, func(r wire.Rule) bool { return r.Uses == 1 && r.LastUsed != nil })
	other := shell("other", "git status; rm -rf /")
	w.ask(nc, other)
	pending(t, here.Engine, other.ID)
	pending(t, there.Engine, other.ID)
}

// Two gateways and many requests at once: no use more than the limit, and the rest
// waits for people.
func TestARuleIsNotUsedMoreOftenThanItMay_invariant1(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.ruling(everybody(), nil), w.ruling(everybody(), nil)
	nc := w.connect()
	const limit, asked = 7, 40
	made := here.rule(w, nc, "git status", uses(limit))
	there.knows(t, made.ID, inForce)
	for i := range asked {
		w.ask(nc, shell(fmt.Sprint("n", i), "git status"))
	}
	require.Eventually(t, func() bool {
		list, err := here.Interactions(t.Context(), wire.StatePending, 0)
		return err == nil && len(list) == asked-limit && here.count(t, made.ID) == limit
	}, patience, 5*time.Millisecond)
	there.knows(t, made.ID, func(r wire.Rule) bool { return r.State == wire.RuleUsedUp && r.Uses == limit })
	byRule := func() (n int) {
		list, err := here.Interactions(t.Context(), wire.StateClosed, 0)
		require.NoError(t, err)
		for _, ix := range list {
			if ix.Decision.Principal.Kind == "rule" {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return byRule() == limit }, patience, 5*time.Millisecond)
}

// The same for the claims themselves.
func TestClaimsOfARuleAreCountedTogether_invariant1(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.ruling(everybody(), nil), w.ruling(everybody(), nil)
	nc := w.connect()
	made := here.rule(w, nc, "make lint", uses(5))
	there.knows(t, made.ID, inForce)
	r := shell("raced", "make lint")
	raw, err := hitl.Marshal(r)
	require.NoError(t, err)
	ask := &api.Asked{Ref: ref(r), Request: r, Digest: hitl.Digest(raw), Policy: hitl.Policy{Risk: "low"}, RequestedAt: time.Now()}
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			c, err := []*ruling{here, there}[i%2].book.Claim(t.Context(), ask)
			if err == nil && c != nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 5, won.Load())
}

// After a revocation has returned, anywhere, nothing is claimed by the rule, also
// by a gateway that has not heard of it.
func TestARevokedRuleDecidesNothingMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.ruling(everybody(), nil), w.ruling(everybody(), nil)
	nc := w.connect()
	made := here.rule(w, nc, "git status")
	there.knows(t, made.ID, inForce)
	r := shell("on its way", "git status")
	raw, err := hitl.Marshal(r)
	require.NoError(t, err)
	ask := &api.Asked{Ref: ref(r), Request: r, Digest: hitl.Digest(raw), Policy: hitl.Policy{Risk: "low"}, RequestedAt: time.Now()}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var revoked atomic.Bool
	late := make(chan string, 8)
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				after := revoked.Load()
				c, err := there.book.Claim(t.Context(), ask)
				if err == nil && c != nil && after {
					select {
					case late <- c.Rule:
					default:
					}
				}
			}
		})
	}
	require.Eventually(t, func() bool { return here.count(t, made.ID) > 3 }, patience, time.Millisecond)
	require.NoError(t, here.desk.Revoke(t.Context(), signedIn("ada", role.Everything()), made.ID))
	revoked.Store(true)
	there.knows(t, made.ID, func(r wire.Rule) bool { return r.State == wire.RuleRevoked && r.RevokedBy.ID == "ada" })
	close(stop)
	wg.Wait()
	require.Empty(t, late)
	w.ask(nc, r)
	pending(t, here.Engine, r.ID)
}

func TestARuleEndsByTheServersClock_invariant9(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	g := w.ruling(everybody(), clock)
	nc := w.connect()
	made := g.rule(w, nc, "git status")
	first := shell("in time", "git status")
	w.ask(nc, first)
	require.Equal(t, hitl.Allowed, outcome(t, g.Engine, first).Outcome)
	ask := &api.Asked{Ref: ref(first), Request: first, Digest: "d", Policy: hitl.Policy{Risk: "low"}}
	// What was asked after its end is not its business, whatever this clock says.
	ask.RequestedAt = made.ExpiresAt
	c, err := g.book.Claim(t.Context(), ask)
	require.NoError(t, err)
	require.Nil(t, c)
	ask.RequestedAt = made.ExpiresAt.Add(-time.Second)
	c, err = g.book.Claim(t.Context(), ask)
	require.NoError(t, err)
	require.NotNil(t, c)
	ahead.Store(int64(time.Hour))
	c, err = g.book.Claim(t.Context(), ask)
	require.NoError(t, err)
	require.Nil(t, c)
	g.knows(t, made.ID, func(r wire.Rule) bool { return r.State == wire.RuleExpired })
	second := shell("too late", "git status", expiring(24*time.Hour))
	w.ask(nc, second)
	pending(t, g.Engine, second.ID)
}

// A rule never decides what its maker could not decide now.
func TestARuleDecidesWhatItsMakerCould(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := everybody()
	g := w.ruling(who, nil)
	nc := w.connect()
	sample := shell("sample", "git status")
	raw := w.ask(nc, sample)
	pending(t, g.Engine, sample.ID)
	approver := role.Set{{Role: wire.RoleApprover, Projects: []string{"shop"}}}
	who.set("bob", approver)
	wide := always(sample, raw, func(in *wire.NewRule) { in.Scope = wire.RuleOwner })
	for name, set := range map[string]role.Set{
		"nothing": nil, "a viewer": {{Role: wire.RoleViewer, Projects: []string{"shop"}}}, "a responder": {{Role: wire.RoleResponder, Projects: []string{"*"}}},
		"another project": {{Role: wire.RoleApprover, Projects: []string{"bank"}}},
	} {
		_, err := g.desk.Make(t.Context(), signedIn("eve", set), wide)
		require.Error(t, err, name)
		_, err = g.desk.Preview(t.Context(), signedIn("eve", set), wide)
		require.Error(t, err, name)
	}
	for name, change := range map[string]func(*auth.Session){
		"a program":  func(s *auth.Session) { s.Person.Kind, s.Via = "service", auth.ViaToken },
		"a terminal": func(s *auth.Session) { s.Via = auth.ViaCLI },
	} {
		sess := signedIn("ada", role.Everything())
		change(sess)
		_, err := g.desk.Make(t.Context(), sess, wide)
		require.ErrorIs(t, err, rulebook.ErrForbidden, name)
	}
	_, err := g.desk.Make(t.Context(), &auth.Session{Person: person("ada"), Rights: role.Everything(), Via: auth.ViaPasskey, Vouched: true, ExpiresAt: time.Now().Add(time.Minute)}, wide)
	require.ErrorContains(t, err, "expires_in", "what an issuer vouches for lasts no longer than that")
	made, err := g.desk.Make(t.Context(), signedIn("bob", approver), wide)
	require.NoError(t, err)
	allowed := shell("in shop", "git status")
	w.ask(nc, allowed)
	d := outcome(t, g.Engine, allowed).Decision
	require.Equal(t, made.Rule.ID, d.Principal.ID)
	require.Equal(t, wire.RoleApprover, d.Policy.Role)
	elsewhere := shell("in bank", "git status", func(r *hitl.Request) { r.ProjectID = "bank" })
	w.ask(nc, elsewhere)
	pending(t, g.Engine, sample.ID, elsewhere.ID)
	who.set("bob", nil) // disabled, or another role
	after := shell("after", "git status")
	w.ask(nc, after)
	pending(t, g.Engine, sample.ID, elsewhere.ID, after.ID)
	who.set("bob", approver)
	who.mu.Lock()
	who.err = errors.New("nobody knows")
	who.mu.Unlock()
	unknown := shell("unknown", "git status")
	w.ask(nc, unknown)
	pending(t, g.Engine, sample.ID, elsewhere.ID, after.ID, unknown.ID)
}
