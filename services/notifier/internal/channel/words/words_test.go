package words_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/channeltest"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

func of(a channel.Alert) words.Message { return words.Of(&a) }

// A message says all that its reader needs, and nothing of the agent's text is
// a line of its own.
func TestMessageSaysAllInLines_B71(t *testing.T) {
	t.Parallel()
	m := of(channeltest.Alert(channel.Opened))
	require.Equal(t, `build-7 wants to use Bash
In the agent's words: <b>bold</b> *stars* _lines_ `+"`code`"+` [a](https://evil.test) @everyone <!channel> `+"\ufffd"+` Bcc: eve@evil.test
Risk: high
Project: shop
Session: s1
Answer by: 2 Mar 2026, 12:00 UTC
Review: https://banksman.test/#/i/t.o.i`, m.Plain())
	require.Contains(t, of(channeltest.Alert(channel.Reminder)).Head, "Still waiting: build-7 wants")
	m = of(channeltest.Alert(channel.Digest))
	require.Equal(t, `12 more waiting for a decision, 3 over
Risk: 12 high
Sessions: s1
Open the inbox: https://banksman.test/#/i/t.o.i`, m.Plain())
}

// The end says how, by whom and when; where nobody decided, it says that.
func TestEndSaysHowByWhomAndWhen_B67_B32(t *testing.T) {
	t.Parallel()
	a := channeltest.Alert(channel.Closed)
	m := of(a)
	require.Equal(t, "Denied by Bob: build-7 wants to use Bash", m.Head)
	require.Equal(t, words.Fact{Name: "When", Value: "2 Mar 2026, 12:00 UTC"}, m.Facts[0])
	require.NotContains(t, m.Plain(), "Answer by")
	for outcome, want := range map[hitl.Outcome]string{
		hitl.Allowed: "Approved by Bob", hitl.Answered: "Answered by Bob", hitl.Clarify: "Sent back with a question by Bob",
		hitl.Dismissed: "Dismissed by Bob", hitl.Expired: "Expired, nobody answered", hitl.Cancelled: "Withdrawn by the agent",
		hitl.Orphaned: "Over, the agent is gone", hitl.InvalidIX: "Over",
	} {
		a.Data.Outcome = outcome
		require.Equal(t, want, words.Outcome(&a.Data))
	}
	a.Data.Outcome = hitl.Allowed
	a.Data.DecidedBy = &hitl.Principal{Kind: "service", ID: "policy"}
	require.Equal(t, "Approved by the service policy", words.Outcome(&a.Data))
	a.Data.DecidedBy = nil
	require.Equal(t, "Approved", words.Outcome(&a.Data))
}

func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	a := channeltest.Alert(channel.Opened)
	a.Data.Headline, a.Data.Title, a.Data.Session = strings.Repeat("ä ", 5000), strings.Repeat("x", 5000), strings.Repeat("s", 5000)
	m := of(a)
	require.Less(t, len([]rune(m.Plain())), 1000)
	require.True(t, strings.HasSuffix(m.Quote, "…"))
	a.Data.Headline = "\u202e\x00\n"
	require.Equal(t, "\ufffd\ufffd", of(a).Head)
	require.Equal(t, "ab…", words.Cut("abcd", 3))
}

func TestLevelFollowsTheRisk(t *testing.T) {
	t.Parallel()
	a := channeltest.Alert(channel.Opened)
	var got []int
	for _, r := range []string{"low", "", "medium", "high", "critical"} {
		a.Data.Risk = r
		got = append(got, words.Level(&a))
	}
	a.Type = channel.Closed
	require.Equal(t, []int{1, 2, 2, 3, 4, 0}, append(got, words.Level(&a)))
	require.Equal(t, "31 Dec 2026, 23:00 UTC", words.Time(time.Date(2027, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))))
}
