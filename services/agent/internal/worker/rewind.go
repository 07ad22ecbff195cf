package worker

import (
	"context"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

const (
	// claimsKept is how long the server keeps the claim of an approval.
	claimsKept = 30 * 24 * time.Hour
	// disownReason is for the people who see such a request end.
	disownReason = "its approval was used already; the server's data were put back to an older copy since"
)

// disown takes requests away from people whose approval this worker has used, and
// which are open again because the server's data were put back to an older copy:
// nobody waits for them. It looks at the newest uses first, up to one that the
// server knows of. One that a session asks again is left to its ask, which refuses
// a second approval.
func (w *Worker) disown(ctx context.Context) {
	cred := w.client.Credentials()
	for _, u := range slices.Backward(w.ledger.Uses()) {
		if time.Since(u.At) > claimsKept {
			return
		}
		ref := subject.NewRef(cred.Tenant, cred.Name, u.Interaction)
		if known, err := w.client.Taken(ctx, ref); known || err != nil {
			return
		}
		r, err := w.client.Stored(ctx, ref)
		if err != nil || w.asks(r.Key) {
			continue
		}
		if err := w.client.Withdraw(ctx, ref, hitl.Withdrawal{Reason: disownReason}); err != nil {
			w.log.Error("a request that is open again is still shown", "interaction", u.Interaction, "error", err)
			return
		}
		w.log.Warn("a request is open again whose approval was used; it is withdrawn", "interaction", u.Interaction)
	}
}

// asks reports whether a session waits for the request of that key.
func (w *Worker) asks(key string) bool {
	for _, s := range w.list() {
		if s.asks(key) {
			return true
		}
	}
	return false
}

func (s *session) asks(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.rec.Asks {
		if s.rec.Asks[i].Request.Key == key {
			return true
		}
	}
	return false
}
