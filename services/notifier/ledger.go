package notifier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/bus/dial"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/plan"
)

// Ledger reads what the notifiers of a tenant have written down, and lets people
// say that they look after something. It sends nothing.
type Ledger struct {
	conn   *dial.Conn
	ledger *ledger.Ledger
	tenant string
}

// OpenLedger connects with the credentials of a notifier. Close gives the
// connection up.
func OpenLedger(ctx context.Context, c *bus.Credentials, options ...nats.Option) (*Ledger, error) {
	if c.Role != bus.RoleNotifier {
		return nil, fmt.Errorf("notifier: the credentials have the role %s, the ledger needs %s", c.Role, bus.RoleNotifier)
	}
	conn, err := dial.Service(ctx, "notifier ledger", c, options, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	l, err := ledger.Open(ctx, conn.Conn, 0)
	if err != nil {
		conn.Shut()
		return nil, fmt.Errorf("notifier: %w", err)
	}
	return &Ledger{conn, l, c.Tenant}, nil
}

// Close gives the connection up.
func (l *Ledger) Close() { l.conn.Shut() }

// Welcome has addresses that a test reached get messages again which were gone before.
// It returns how many those are.
func (l *Ledger) Welcome(ctx context.Context, tested []Tested) (int, error) {
	n := 0
	for _, t := range tested {
		if t.Problem != "" {
			continue
		}
		was, err := l.ledger.MarkGone(ctx, ledger.Gone{Channel: t.Address, Target: t.target, At: time.Now().UTC(), Back: true})
		if err != nil {
			return n, err
		}
		if was {
			n++
		}
	}
	return n, nil
}

// Claim is who looks after an interaction, and until when. Until then nobody else
// is told who was not told yet.
type Claim = plan.Claim

// Claim says that a recipient looks after an interaction until then, and at most for half
// of the time that is left. It returns the claim that is good: another recipient's if that
// one came first.
func (l *Ledger) Claim(ctx context.Context, ref subject.Ref, recipient string, until time.Time) (Claim, error) {
	c, err := l.ledger.ClaimOnce(ctx, ref, recipient, until, time.Now())
	if errors.Is(err, ledger.ErrNotFound) {
		err = ErrUnknown
	}
	return c, err
}

// ErrUnknown: the ledger knows of no such interaction.
var ErrUnknown = errors.New("the notifier knows of no such request")

// Find names the interactions that have the id, which may also be a whole key
// (tenant.owner.id). ErrUnknown if there is none.
func (l *Ledger) Find(ctx context.Context, id string) ([]subject.Ref, error) {
	if ref, ok := subject.ParseRef(id); ok {
		return []subject.Ref{ref}, nil
	}
	if !subject.ValidToken(id) {
		return nil, ErrUnknown
	}
	refs, err := l.ledger.Find(ctx, l.tenant, id)
	if err == nil && len(refs) == 0 {
		err = ErrUnknown
	}
	return refs, err
}

// DeadLetter is a message that was given up or refused. It lies in the ledger for 30
// days.
type DeadLetter struct {
	Key string `json:"key"` // the interaction's
	Delivery
	// Again says that it can be sent again.
	Again bool `json:"again"`
}

// Dead lists the dead letters, oldest first.
func (l *Ledger) Dead(ctx context.Context) ([]DeadLetter, error) {
	records, err := l.ledger.Lost(ctx, l.tenant)
	out := make([]DeadLetter, len(records))
	for i, r := range records {
		out[i] = DeadLetter{r.Key.Ref.String(), delivery(r), r.Alert != nil}
	}
	slices.SortStableFunc(out, func(a, b DeadLetter) int { return a.DueAt.Compare(b.DueAt) })
	return out, err
}

// Replay has a notifier send dead letters again, at once and under the ids they had:
// all, or those of an interaction, or of an address (both may be empty). What is over
// by now is taken back in place of that. It returns how many there are.
func (l *Ledger) Replay(ctx context.Context, key, address string) (int, error) {
	records, err := l.ledger.Lost(ctx, l.tenant)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, r := range records {
		if key != "" && key != r.Key.Ref.String() || address != "" && address != r.Key.Channel {
			continue
		}
		won, err := l.ledger.Again(ctx, r, time.Now())
		if err != nil {
			return n, err
		}
		if won {
			n++
		}
	}
	return n, nil
}
