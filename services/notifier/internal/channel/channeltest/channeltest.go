// Package channeltest is what every channel has to keep to, as tests. A channel's
// own test calls Run with a receiver it can steer.
package channeltest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/services/notifier/internal/channel"
)

// Answer is what the receiver is to do with the next message.
type Answer string

// The answers.
const (
	Take   Answer = "take"
	Later  Answer = "later"  // it is overloaded, and asks for 20 s of peace if it can
	Refuse Answer = "refuse" // this message is wrong
	Gone   Answer = "gone"   // the endpoint is given up; without that, leave it out of Can
	Silent Answer = "silent" // it takes the message and never answers
	// Plain: it refuses what has markup, and takes the same as text.
	Plain Answer = "plain"
)

// Received is a message as the receiver saw it.
type Received struct {
	// ID is the key by which the receiver knows a repeated message; empty where
	// the provider has none.
	ID string
	// Text is everything in it that could be read by somebody.
	Text string
	// Changes is the provider's name of the message that it changes; empty: it is
	// a message of its own.
	Changes string
	// Marked: it has markup.
	Marked bool
}

// Receiver is the other end: the provider, or a double of it.
type Receiver interface {
	// Channel makes a channel to the receiver.
	Channel(t *testing.T) channel.Channel
	// Next says what becomes of the next message.
	Next(a Answer)
	// Received returns all messages so far, those that were not taken included.
	Received() []Received
}

// Options describe a channel.
type Options struct {
	New func(t *testing.T) Receiver
	// Can are the answers that the provider knows.
	Can []Answer
	// Secrets are texts that must not be in an error or in a receipt.
	Secrets []string
	// Keyed: the provider has a key for repeated messages.
	Keyed bool
	// NoRetryAfter: the provider cannot say when to come back.
	NoRetryAfter bool
	// Updates: the channel changes what it has sent.
	Updates bool
}

// Alert is a message of a type, with texts that try to be more than text.
func Alert(typ string) channel.Alert {
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	a := channel.Alert{
		ID: "msg_" + strings.TrimPrefix(typ, "banksman."), Type: typ, Key: "t.o.i", Time: at, To: "ada@example.org",
		Data: channel.Data{
			Title: "<b>bold</b> *stars* _lines_ `code` [a](https://evil.test) @everyone <!channel> \u202e\r\nBcc: eve@evil.test", Headline: "build-7 wants to use Bash",
			Agent: "build-7", Session: "s1", Project: "shop", Risk: "high", Kind: hitl.KindApproval, Tool: "Bash",
			ExpiresAt: &at, Link: "https://banksman.test/#/i/t.o.i", Recipient: "ada",
		},
	}
	switch typ {
	case channel.Closed:
		a.Data.Outcome, a.Data.At, a.Data.DecidedBy = hitl.Denied, &at, &hitl.Principal{Kind: "person", ID: "bob", Name: "Bob"}
	case channel.Digest:
		a.Data.Digest = &channel.Summary{Waiting: 12, Over: 3, Risks: map[string]int{"high": 12}, Sessions: []string{"s1"}}
		a.Data.Headline = "12 more waiting for a decision, 3 over"
	}
	return a
}

// Run tests a channel.
func Run(t *testing.T, o Options) {
	t.Helper()
	discreet := func(t *testing.T, texts ...string) {
		t.Helper()
		for _, s := range o.Secrets {
			for _, text := range texts {
				require.NotContains(t, text, s)
			}
		}
	}
	for _, typ := range []string{channel.Opened, channel.Reminder, channel.Closed, channel.Digest, channel.Test} {
		t.Run("takes "+typ, func(t *testing.T) {
			r := o.New(t)
			r.Next(Take)
			receipt, err := r.Channel(t).Send(t.Context(), Alert(typ))
			require.NoError(t, err)
			require.NotEmpty(t, receipt.Said, "what the provider said is for people to read")
			discreet(t, receipt.Said, receipt.Ref)
			got := r.Received()
			require.Len(t, got, 1)
			require.Contains(t, got[0].Text, Alert(typ).Data.Headline)
			require.Contains(t, got[0].Text, "https://banksman.test/#/i/t.o.i")
		})
	}
	t.Run("a repeated message has the same key", func(t *testing.T) {
		r := o.New(t)
		c := r.Channel(t)
		for range 2 {
			r.Next(Take)
			_, err := c.Send(t.Context(), Alert(channel.Opened))
			require.NoError(t, err)
		}
		got := r.Received()
		require.Len(t, got, 2)
		require.Equal(t, o.Keyed, got[0].ID != "")
		require.Equal(t, got[0], got[1])
	})
	t.Run("an end changes what was sent, where that can be changed", func(t *testing.T) {
		r := o.New(t)
		c := r.Channel(t)
		u, ok := c.(channel.Updater)
		require.Equal(t, o.Updates, ok)
		if !ok {
			return
		}
		r.Next(Take)
		receipt, err := c.Send(t.Context(), Alert(channel.Opened))
		require.NoError(t, err)
		require.NotEmpty(t, receipt.Ref)
		for range 2 { // whoever was killed in between does it again
			again, err := u.Update(t.Context(), receipt, Alert(channel.Closed))
			require.NoError(t, err)
			require.NotEmpty(t, again.Said)
			discreet(t, again.Said, again.Ref)
		}
		got := r.Received()
		require.Len(t, got, 3)
		require.Empty(t, got[0].Changes)
		require.NotEmpty(t, got[1].Changes)
		require.Equal(t, got[1], got[2])
		for _, want := range []string{"Denied by Bob", "2 Mar 2026, 12:00 UTC", Alert(channel.Closed).Data.Headline} {
			require.Contains(t, got[1].Text, want)
		}
		for _, a := range []Answer{Refuse, Later} {
			r.Next(a)
			_, err = u.Update(t.Context(), receipt, Alert(channel.Closed))
			var p *channel.Problem
			require.ErrorAs(t, err, &p, "%s", a)
			require.Equal(t, map[Answer]channel.Class{Refuse: channel.Refused, Later: channel.Retry}[a], p.Class)
			discreet(t, err.Error())
		}
	})
	if slices.Contains(o.Can, Plain) {
		t.Run("what is refused for its markup goes out as text", func(t *testing.T) {
			r := o.New(t)
			r.Next(Plain)
			receipt, err := r.Channel(t).Send(t.Context(), Alert(channel.Opened))
			require.NoError(t, err)
			require.Contains(t, receipt.Said, "as plain text")
			got := r.Received()
			require.Len(t, got, 2)
			require.True(t, got[0].Marked)
			require.False(t, got[1].Marked)
			for _, want := range []string{"build-7 wants to use Bash", "https://banksman.test/#/i/t.o.i", "Risk: high"} {
				require.Contains(t, got[1].Text, want)
			}
		})
	}
	for _, a := range o.Can {
		want, ok := map[Answer]channel.Class{Later: channel.Retry, Refuse: channel.Refused, Gone: channel.Gone, Silent: channel.Retry}[a]
		if !ok {
			continue
		}
		t.Run("says what follows from "+string(a), func(t *testing.T) {
			r := o.New(t)
			r.Next(a)
			ctx := t.Context()
			if a == Silent {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
			}
			_, err := r.Channel(t).Send(ctx, Alert(channel.Opened))
			var p *channel.Problem
			require.True(t, errors.As(err, &p), "%v", err)
			require.Equal(t, want, p.Class)
			require.Equal(t, a == Silent, p.Unknown, "only silence leaves open whether it arrived")
			if a == Later && !o.NoRetryAfter {
				require.Equal(t, 20*time.Second, p.RetryAfter)
			}
			discreet(t, err.Error())
		})
	}
}
