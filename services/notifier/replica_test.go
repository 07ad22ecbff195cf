package notifier_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
)

// Three replicas, each a process, one of them killed again and again while 300
// requests come and some are decided: everybody is told of each request once,
// counted by the ids of the messages, and of the end if they were told. Ada's
// messages are paced, so many of them stand for several requests; bob gets one
// for each.
func TestReplicasUnderKill9_B71_B67(t *testing.T) {
	t.Parallel()
	const n = 300
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	b := newBench(t)
	hook := newReceiver(t, func(k int, w http.ResponseWriter, r *http.Request) {
		switch k % 10 {
		case 3: // an answer that takes time, so that kills hit those who wait for one
			select {
			case <-r.Context().Done():
			case <-time.After(100 * time.Millisecond):
			}
		case 7:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	cfg := hook.routed(`recipients:
  - {name: ada, channels: [{channel: hook}], messages: 20, per: 1s, group: 20ms}
  - {name: bob, channels: [{channel: hook}], messages: 0}
routes:
  - name: all
    steps: [{after: 100ms, to: [ada, bob]}]
`)
	kills := make([]func(), 3)
	for i := range kills {
		kills[i] = b.childWithLease(t, cfg, 3*time.Second)
	}
	stop, stopped := make(chan struct{}), make(chan int)
	kill := make(chan struct{}, 1) // tells of kills, those that nobody waits for once
	go func() {
		killed := 0
		for {
			select {
			case <-stop:
				stopped <- killed
				return
			case <-time.After(time.Duration(50+rnd.IntN(300)) * time.Millisecond):
			}
			i := rnd.IntN(len(kills))
			kills[i]()
			killed++
			kills[i] = b.childWithLease(t, cfg, 3*time.Second)
			select {
			case kill <- struct{}{}:
			default:
			}
		}
	}()
	decided := map[int]bool{}
	for i := range n {
		b.open(t, newRef(i), summary(newRef(i), time.Now()))
		if j := i - 20; j >= 0 && j%5 == 0 {
			b.end(t, newRef(j), summary(newRef(j), time.Now()), hitl.Allowed, ada)
			decided[j] = true
		}
		if i%20 == 0 { // somebody is killed all the while
			<-kill
		}
	}
	close(stop)
	killed := <-stopped
	require.Greater(t, killed, 3)

	// final waits for the end of a delivery. What was over before it was seen may
	// have none.
	final := func(i int, step ledger.Step, address string) (r *ledger.Record) {
		require.Eventually(t, func() bool {
			r = b.at(t, newRef(i), step, address)
			if r == nil && decided[i] && step == "step1" {
				_, err := b.ledger.Over(t.Context(), newRef(i))
				return err == nil
			}
			return r != nil && r.State.Final()
		}, 2*patience, 5*tick, "%s %s of %d", step, address, i)
		return r
	}
	ends := map[string]bool{} // of which an end has to be told
	// Ada's deliveries by the message they went into: those that were sent, and
	// those that were over while it was made, which it may count or not.
	into, over := map[string]int{}, map[string]int{}
	var alone, many []string // of those that were sent
	for i := range n {
		for _, address := range []string{"ada/hook", "bob/hook"} {
			r := final(i, "step1", address)
			if r == nil {
				continue
			}
			if !decided[i] {
				require.Equal(t, ledger.Sent, r.State, "%d to %s: %s", i, address, r.Problem)
			}
			if r.State == ledger.Sent && address == "ada/hook" {
				if r.Many {
					many = append(many, newRef(i).String())
				} else {
					alone = append(alone, newRef(i).String())
				}
			}
			switch {
			case r.Many && r.State == ledger.Sent:
				into["msg_"+r.Into]++
			case r.Many:
				over["msg_"+r.Into]++
			}
			if decided[i] && r.Told() && !r.Many {
				ends[newRef(i).String()+" "+address] = true
				final(i, ledger.StepClosed, address)
			}
		}
	}
	for _, k := range kills {
		k()
	}

	// What the receiver counts, by the ids of messages.
	messages := map[string]call{}
	repeated := 0
	for {
		select {
		case c := <-hook.calls:
			if old, ok := messages[c.ID]; ok {
				repeated++
				require.Equal(t, old.Raw, c.Raw, "one id, one message")
			}
			messages[c.ID] = c
			continue
		default:
		}
		break
	}
	told := map[string]int{}
	digests, digestWaiting := 0, 0
	for _, c := range messages {
		if c.Type == digested {
			digests++
			digestWaiting += c.waiting()
			require.GreaterOrEqual(t, c.waiting(), into[c.ID], "a digest counts its deliveries")
			require.LessOrEqual(t, c.waiting(), into[c.ID]+over[c.ID], "and no others")
			continue
		}
		told[c.Subject+" "+strings.TrimPrefix(c.Type, "banksman.interaction.")+" "+c.Data["recipient"].(string)]++
	}
	for key, times := range told {
		require.Equal(t, 1, times, "%s was told twice", key)
	}
	for i := range n {
		ref := newRef(i).String()
		if !decided[i] {
			require.Equal(t, 1, told[ref+" opened bob"])
		}
	}
	for key := range ends {
		ref, address, _ := strings.Cut(key, " ")
		if name, _, _ := strings.Cut(address, "/"); name == "bob" {
			require.Equal(t, 1, told[ref+" closed bob"], "the end of %s", ref)
		}
	}
	// Each of ada's is in one message: alone, or counted by one digest.
	for _, ref := range many {
		r := b.at(t, refOf(t, ref), "step1", "ada/hook")
		require.Contains(t, messages, "msg_"+r.Into, "its digest arrived")
	}
	require.Positive(t, digests)
	for _, ref := range alone {
		require.Equal(t, 1, told[ref+" opened ada"])
	}
	for _, ref := range many {
		require.Zero(t, told[ref+" opened ada"], "in a digest, and alone")
	}
	t.Logf("%d kills, %d messages, %d repeated under their ids, %d digests for %d requests, %d alone", killed, len(messages), repeated, digests, digestWaiting, len(alone))
}

func refOf(t *testing.T, key string) subject.Ref {
	t.Helper()
	ref, ok := subject.ParseRef(key)
	require.True(t, ok)
	return ref
}
