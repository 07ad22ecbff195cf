package gate

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// meter is an Asker that refuses the first receipts.
type meter struct {
	*people
	left int
}

func (m *meter) Ack(ctx context.Context, ref subject.Ref, stage, decisionID, detail string) error {
	if m.left--; m.left >= 0 {
		return fmt.Errorf("quota.conversation: %w", bus.ErrOverQuota)
	}
	return m.people.Ack(ctx, ref, stage, decisionID, detail)
}

// A receipt that the quota has no room for is sent when there is room: at once by a
// session that lives, by one that is dead for as long as its worker runs.
func TestReceipt_B79_OneOverTheQuotaIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]bool{"of a session that lives": false, "of one that is dead": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				m := &meter{f.people, 3}
				f.gate.asker = m
				r := Receipt{Ref: subject.NewRef("t", "o", "i"), DecisionID: "d1", Stage: hitl.Refused, Detail: "no"}
				if closed {
					f.gate.Cancel("over")
					f.gate.Resend([]Receipt{r})
					f.gate.Wait()
					require.Equal(t, 2, m.left, "a closed gate does not wait for room")
					f.gate.Repeat(t.Context(), &r)
				} else {
					f.gate.Resend([]Receipt{r})
					time.Sleep(time.Minute)
				}
				require.Equal(t, ack{"i", hitl.Delivered, "d1", ""}, <-f.people.acks)
				require.Equal(t, ack{"i", hitl.Refused, "d1", "no"}, <-f.people.acks)
				f.gate.Cancel("over")
				f.gate.Wait()
			})
		})
	}
}
