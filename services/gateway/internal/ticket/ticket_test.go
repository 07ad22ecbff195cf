package ticket_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/role"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
)

// engine takes every attempt, or says what it is told to say.
type engine struct {
	api.Engine
	mu       sync.Mutex
	say      hitl.Status
	attempts []api.Attempt
}

const key = "default.agents.i"

func (e *engine) Interaction(context.Context, string) (*wire.Interaction, error) {
	return &wire.Interaction{ID: "i", State: wire.StatePending, Summary: wire.Summary{
		Key: key, Kind: hitl.KindApproval, Digest: "d", Risk: "low", Body: &wire.Body{Verbs: []string{"allow", "deny"}},
	}}, nil
}

func (e *engine) Decide(_ context.Context, a api.Attempt) wire.Receipt {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attempts = append(e.attempts, a)
	return wire.Receipt{Receipt: hitl.Receipt{Status: e.say}}
}

func (e *engine) said() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, a := range e.attempts {
		out = append(out, a.Principal.ID+" "+a.Decision)
	}
	return out
}

// people may all approve.
type people struct{}

func (people) Who(_ context.Context, id string) (hitl.Principal, role.Set, error) {
	return hitl.Principal{Kind: "person", ID: id}, role.Set{{Role: wire.RoleApprover, Projects: []string{"*"}}}, nil
}

func connect(t *testing.T, dir string, r bus.Role) *nats.Conn {
	t.Helper()
	creds, err := bus.LoadCredentials(natsd.CredentialsFile(dir, r, "", ""))
	require.NoError(t, err)
	auth, err := creds.Auth()
	require.NoError(t, err)
	nc, err := nats.Connect(creds.URLs[0], auth)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// clock stands where it is put.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// books are those of two gateways.
func books(t *testing.T, e *engine, c *clock) (one, two *ticket.Book) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, natsd.Write(natsd.Plan{Dir: dir, Port: natsd.RandomPort, Durability: natsd.DurabilityRelaxed}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(dir)})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	require.NoError(t, journal.Provision(ctx, connect(t, dir, bus.RoleProvisioner), journal.Config{}))
	base, err := url.Parse("https://banksman.test")
	require.NoError(t, err)
	open := func() *ticket.Book {
		b, err := ticket.Open(ctx, ticket.Options{
			Conn: connect(t, dir, bus.RoleGateway), Engine: e, People: people{}, Logger: slog.New(slog.DiscardHandler), BaseURL: base, Clock: c.now,
		})
		require.NoError(t, err)
		return b
	}
	return open(), open()
}

func mint(t *testing.T, b *ticket.Book, via string, ids ...string) string {
	t.Helper()
	out, refused := b.Mint(t.Context(), "default", wire.TicketCall{Key: key, People: ids, Recipient: "ops", Channel: "chat", Via: via})
	require.Nil(t, refused)
	return out.Token
}

func use(token, via, person, decision string) ticket.Use {
	return ticket.Use{Token: token, Via: via, Person: person, Response: hitl.Response{Digest: "d", Decision: decision}}
}

// Who asks again for a token of its own making gets the same ticket, and nobody gets
// another one under it.
func TestATicketThatIsAskedForAgainIsTheSame_B57(t *testing.T) {
	t.Parallel()
	e, c := &engine{say: hitl.Accepted}, &clock{at: time.Now()}
	one, two := books(t, e, c)
	in := wire.TicketCall{
		Key: key, People: []string{"ada"}, Recipient: "ops", Channel: "chat", Via: wire.TicketLink,
		Token: wire.TicketPrefix + strings.Repeat("A", 43),
	}
	first, refused := one.Mint(t.Context(), "default", in)
	require.Nil(t, refused)
	require.Equal(t, in.Token, first.Token)
	again, refused := two.Mint(t.Context(), "default", in)
	require.Nil(t, refused)
	require.Equal(t, first, again)
	for name, change := range map[string]func(*wire.TicketCall){
		"another recipient": func(in *wire.TicketCall) { in.Recipient = "bob" },
		"another channel":   func(in *wire.TicketCall) { in.Channel = "mail" },
		"another way":       func(in *wire.TicketCall) { in.Via = wire.TicketChat },
	} {
		other := in
		change(&other)
		_, refused = two.Mint(t.Context(), "default", other)
		require.NotNil(t, refused, name)
		require.Equal(t, "the token is that of another ticket", refused.Error, name)
	}
	for _, bad := range []string{"x", wire.TicketPrefix + "AAAA", strings.Repeat("A", 43)} {
		other := in
		other.Token = bad
		_, refused = one.Mint(t.Context(), "default", other)
		require.NotNil(t, refused, bad)
		require.Equal(t, string(hitl.BadInput), refused.Code, bad)
	}
	require.Equal(t, hitl.Accepted, one.Decide(t.Context(), use(in.Token, wire.TicketLink, "", "deny")).Status)
	require.Equal(t, hitl.Forbidden, two.Decide(t.Context(), use(in.Token, wire.TicketLink, "", "allow")).Status, "it is used once all the same")
}

// A token stands for the one decision it was used for first, on whichever gateway,
// also where nobody knows what became of that.
func TestATicketIsUsedOnce_B57_invariant7(t *testing.T) {
	t.Parallel()
	e, c := &engine{say: hitl.Unavailable}, &clock{at: time.Now()}
	one, two := books(t, e, c)
	token := mint(t, one, wire.TicketLink, "ada")
	require.Equal(t, hitl.Unavailable, one.Decide(t.Context(), use(token, wire.TicketLink, "", "deny")).Status)
	require.Equal(t, []string{"ada deny"}, e.said())
	e.say = hitl.Accepted
	require.Equal(t, hitl.Forbidden, two.Decide(t.Context(), use(token, wire.TicketLink, "", "allow")).Status)
	require.Equal(t, []string{"ada deny"}, e.said(), "it stands for the denial that may have been stored")
	require.Equal(t, hitl.Accepted, two.Decide(t.Context(), use(token, wire.TicketLink, "", "deny")).Status)

	// A refusal uses nothing up.
	token = mint(t, one, wire.TicketLink, "ada")
	e.say = hitl.Forbidden
	require.Equal(t, hitl.Forbidden, one.Decide(t.Context(), use(token, wire.TicketLink, "", "allow")).Status)
	e.say = hitl.Accepted
	require.Equal(t, hitl.Accepted, two.Decide(t.Context(), use(token, wire.TicketLink, "", "deny")).Status)

	// Many at once: one person's one decision reaches the engine.
	for range 20 {
		token = mint(t, one, wire.TicketChat, "ada", "bob")
		e.mu.Lock()
		e.attempts = nil
		e.mu.Unlock()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				b := []*ticket.Book{one, two}[i%2]
				b.Decide(t.Context(), use(token, wire.TicketChat, []string{"ada", "bob"}[i/2%2], []string{"allow", "deny"}[i/4]))
			})
		}
		wg.Wait()
		said := e.said()
		require.NotEmpty(t, said)
		for _, s := range said {
			require.Equal(t, said[0], s)
		}
	}
}

// It is for certain people, through one door, about one interaction, for a time.
func TestATicketIsForWhatItWasMadeFor_B57(t *testing.T) {
	t.Parallel()
	e, c := &engine{say: hitl.Accepted}, &clock{at: time.Now()}
	one, _ := books(t, e, c)
	token := mint(t, one, wire.TicketChat, "ada", "bob")
	good := use(token, wire.TicketChat, "bob", "deny")
	for name, spoil := range map[string]func(*ticket.Use){
		"another door":        func(u *ticket.Use) { u.Via = wire.TicketLink },
		"somebody else":       func(u *ticket.Use) { u.Person = "eve" },
		"nobody":              func(u *ticket.Use) { u.Person = "" },
		"another request":     func(u *ticket.Use) { u.Digest = "e" },
		"no digest":           func(u *ticket.Use) { u.Digest = "" },
		"another interaction": func(u *ticket.Use) { u.Key = "default.agents.j" },
		"another word":        func(u *ticket.Use) { u.Decision = "ALLOW" },
		"an answer":           func(u *ticket.Use) { u.Decision, u.Answers = "", []byte(`{"0":"x"}`) },
		"another token":       func(u *ticket.Use) { u.Token = mint(t, one, wire.TicketLink, "ada") },
	} {
		u := good
		spoil(&u)
		require.NotEqual(t, hitl.Accepted, one.Decide(t.Context(), u).Status, name)
	}
	require.Empty(t, e.said())
	c.move(8 * 24 * time.Hour)
	require.Equal(t, hitl.Forbidden, one.Decide(t.Context(), good).Status, "its week is over")
	require.Empty(t, e.said())
	c.move(-8 * 24 * time.Hour)
	require.Equal(t, hitl.Accepted, one.Decide(t.Context(), good).Status)
	require.Equal(t, []string{"bob deny"}, e.said())
	a := e.attempts[0]
	require.Equal(t, []string{"chat:chat", "chat_account"}, []string{a.Channel, a.Assurance})
}

// What one tenant has made is bounded, so that the bucket, which forgets the oldest, keeps
// the others'.
func TestOneTenantFillsNotTheTicketsOfAll_B56(t *testing.T) {
	t.Parallel()
	e, c := &engine{say: hitl.Accepted}, &clock{at: time.Now()}
	one, _ := books(t, e, c)
	in := wire.TicketCall{Key: "noisy.agents.i", Recipient: "ops", Channel: "chat", Via: wire.TicketChat}
	for i := range 100 {
		in.People = append(in.People, fmt.Sprintf("%064d", i))
	}
	first := in
	first.Token = wire.TicketPrefix + strings.Repeat("A", 43)
	_, refused := one.Mint(t.Context(), "noisy", first)
	require.Nil(t, refused)
	for range 300 { // as a notifier does whose channel is down
		_, refused = one.Mint(t.Context(), "noisy", first)
		require.Nil(t, refused)
	}
	n := 1
	for ; n < 1000; n++ {
		if _, refused = one.Mint(t.Context(), "noisy", in); refused != nil {
			break
		}
	}
	require.NotNil(t, refused, "a thousand large tickets are too many")
	require.Equal(t, string(hitl.Forbidden), refused.Code)
	require.Equal(t, "this tenant has had as many tickets made as it may in a day", refused.Error)
	require.Greater(t, n, 200, "what was asked for again was not charged")
	mint(t, one, wire.TicketLink, "ada") // another tenant does not notice
	_, refused = one.Mint(t.Context(), "noisy", first)
	require.Nil(t, refused, "what is there already costs nothing")
	other := first
	other.Token = wire.TicketPrefix + strings.Repeat("B", 42) + "A"
	_, refused = one.Mint(t.Context(), "noisy", other)
	require.NotNil(t, refused)
	require.Equal(t, string(hitl.Forbidden), refused.Code)
	c.move(time.Hour)
	_, refused = one.Mint(t.Context(), "noisy", in)
	require.Nil(t, refused, "it comes back over the day")
}
