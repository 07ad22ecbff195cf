package quota_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/services/gateway/internal/quota"
)

var (
	ada = quota.Owner{Tenant: "t", Name: "ada"}
	bob = quota.Owner{Tenant: "t", Name: "bob"}
)

// clock is moved by hand.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newLedger(l quota.Limits) (*quota.Ledger, *clock) {
	c := &clock{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return quota.New(l, c.now), c
}

func mustRefuse(t *testing.T, l *quota.Ledger, o quota.Owner, size int, field string) {
	t.Helper()
	f := l.Check(o, size)
	require.NotNil(t, f)
	require.Equal(t, field, f.Field)
	require.NotEmpty(t, f.Problem)
}

func TestOpenRequestsAreCountedByOwner(t *testing.T) {
	t.Parallel()
	l, _ := newLedger(quota.Limits{Open: 2, OpenBytes: 100})
	for range 2 {
		require.Nil(t, l.Check(ada, 10))
		l.Open(ada, 10)
	}
	mustRefuse(t, l, ada, 10, "quota.open")
	require.Nil(t, l.Check(bob, 100), "another owner has its own")
	l.Close(ada, 10)
	require.Nil(t, l.Check(ada, 90))
	mustRefuse(t, l, ada, 91, "quota.bytes")
	l.Open(ada, 90)
	l.Open(ada, 90) // another gateway was faster
	l.Close(ada, 90)
	mustRefuse(t, l, ada, 0, "quota.open")
	l.Close(ada, 90)
	l.Close(ada, 10)
	require.Nil(t, l.Check(ada, 100))
}

func TestTheDaysBytesComeBackEvenly(t *testing.T) {
	t.Parallel()
	l, c := newLedger(quota.Limits{DayBytes: 24 << 20})
	for range 24 {
		require.Nil(t, l.Check(ada, 1<<20))
	}
	mustRefuse(t, l, ada, 1<<20, "quota.rate")
	mustRefuse(t, l, ada, 1, "quota.rate") // however small
	require.Nil(t, l.Check(bob, 24<<20))
	c.at = c.at.Add(time.Hour)
	require.Nil(t, l.Check(ada, 1<<20))
	mustRefuse(t, l, ada, 1<<20, "quota.rate")
	c.at = c.at.Add(-time.Hour) // a clock that was set back gives nothing and takes nothing
	mustRefuse(t, l, ada, 1<<20, "quota.rate")
	c.at = c.at.Add(100 * 24 * time.Hour)
	require.Nil(t, l.Check(ada, 24<<20))
	mustRefuse(t, l, ada, 1, "quota.rate")
}

func TestSmallRequestsAreChargedForTheirRecord(t *testing.T) {
	t.Parallel()
	l, _ := newLedger(quota.Limits{DayBytes: 40 << 10})
	for range 10 {
		require.Nil(t, l.Check(ada, 1))
	}
	mustRefuse(t, l, ada, 1, "quota.rate")
}

func TestRefusalsOnTheRecordAreBounded(t *testing.T) {
	t.Parallel()
	l, c := newLedger(quota.Limits{DayRefusals: 3})
	for range 3 {
		require.True(t, l.Refuse(ada))
	}
	require.False(t, l.Refuse(ada))
	require.True(t, l.Refuse(bob))
	c.at = c.at.Add(8 * time.Hour)
	require.True(t, l.Refuse(ada))
	require.False(t, l.Refuse(ada))
}

func TestWithoutLimitsNothingIsRefused(t *testing.T) {
	t.Parallel()
	l, _ := newLedger(quota.Limits{})
	for range 1000 {
		require.Nil(t, l.Check(ada, 1<<40))
		l.Open(ada, 1<<40)
		require.True(t, l.Refuse(ada))
	}
}

func TestANoteAMinute(t *testing.T) {
	t.Parallel()
	l, c := newLedger(quota.Limits{})
	require.True(t, l.Note(ada))
	require.False(t, l.Note(ada))
	require.True(t, l.Note(bob))
	c.at = c.at.Add(time.Minute)
	require.True(t, l.Note(ada))
}

func TestConversationsAreCountedByOwner(t *testing.T) {
	t.Parallel()
	l, c := newLedger(quota.Limits{DayTalk: 24 << 20})
	for range 18 {
		require.True(t, l.Talk(ada, 1<<20, true))
	}
	require.False(t, l.Talk(ada, 1, true), "a quarter is kept")
	for range 6 {
		require.True(t, l.Talk(ada, 1<<20, false), "for states and receipts")
	}
	require.False(t, l.Talk(ada, 1, false))
	require.True(t, l.Talk(bob, 18<<20, true), "another owner has its own")
	require.Nil(t, l.Check(ada, 1<<20), "and requests are counted apart")
	c.at = c.at.Add(time.Hour)
	require.False(t, l.Talk(ada, 1, true))
	require.True(t, l.Talk(ada, 1<<20, false))
	require.False(t, l.Talk(ada, 1, false), "a byte more than came back")
	none, _ := newLedger(quota.Limits{})
	require.True(t, none.Talk(ada, 1<<40, true))
}

// What other gateways let pass counts here, too, even beyond the limit.
func TestConversationsOfOtherGatewaysCount(t *testing.T) {
	t.Parallel()
	l, c := newLedger(quota.Limits{DayTalk: 24 << 20})
	l.Told(ada, 17<<20)
	require.True(t, l.Talk(ada, 1<<20, true))
	require.False(t, l.Talk(ada, 1, true))
	l.Told(ada, 24<<20)
	c.at = c.at.Add(12 * time.Hour)
	require.False(t, l.Talk(ada, 1, false))
	require.True(t, l.Talk(bob, 1, true))
}

func TestManyRequestsInAMinuteAreToldOnce(t *testing.T) {
	t.Parallel()
	l, c := newLedger(quota.Limits{})
	for range 2 {
		told := 0
		for i := range 10_000 {
			if l.Took(ada) {
				require.Equal(t, 1999, i)
				told++
			}
		}
		require.Equal(t, 1, told)
		require.False(t, l.Took(bob), "another owner has its own count")
		c.at = c.at.Add(time.Minute)
	}
	for range 10_000 { // as many, and not in a minute
		c.at = c.at.Add(40 * time.Millisecond)
		require.False(t, l.Took(ada))
	}
}
