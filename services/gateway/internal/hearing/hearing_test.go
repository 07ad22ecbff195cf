package hearing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/subject"
)

// A session has its while from the last doubt on, and one wait; where it waits for
// heartbeats, from when these are heard.
func TestASessionHasItsWhile_B37(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const grace = 15 * time.Second
		var d Doubts
		one, two := subject.NewSession("t", "o", "1"), subject.NewSession("t", "o", "2")
		began := time.Now()
		over := func(s subject.Session, beats bool) <-chan time.Duration {
			out := make(chan time.Duration, 1)
			go func() {
				if d.Wait(t.Context(), s, grace, beats) {
					out <- time.Since(began)
				}
			}()
			return out
		}
		require.True(t, d.Begin(one, grace))
		require.True(t, d.Begin(two, grace))
		plain, beats := over(one, false), over(two, true)
		time.Sleep(10 * time.Second)
		require.False(t, d.Begin(one, grace), "it waits already")
		require.Equal(t, 25*time.Second, <-plain)
		time.Sleep(15 * time.Second) // nothing was heard until now, as while a gateway loads
		first := time.Unix(1, 0)
		d.Hear(first)
		time.Sleep(5 * time.Second)
		d.Hear(first)
		d.Hear(time.Unix(2, 0)) // the connection was away
		require.Equal(t, 60*time.Second, <-beats)
		require.Zero(t, d.Waiting())
		require.True(t, d.Begin(one, grace))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, d.Wait(ctx, one, grace, false))
		require.Zero(t, d.Waiting())
	})
}

// Silence counts only while this gateway listened: not while it was away from
// the server, and not while it was stopped itself.
func TestASilenceThatNobodyListenedToIsNone_B37(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	l := Listen(at, time.Second)
	for range 30 {
		at = at.Add(time.Second)
		require.Equal(t, time.Unix(1_000_000, 0), l.Look(at, at, true))
	}
	at = at.Add(10 * time.Minute) // stopped, or the machine was
	require.Equal(t, at, l.Look(at, at, true))
	require.Equal(t, at, l.Look(at.Add(time.Second), at.Add(time.Second), true))
	at = at.Add(2 * time.Second)
	require.Equal(t, at, l.Look(at, at, false))
	require.Equal(t, at, l.Look(at.Add(time.Second), at.Add(time.Second), true))
}
