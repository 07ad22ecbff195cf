// Package road is the two ends of the product's road: askers, and WebSocket
// clients that allow what they see at once.
package road

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
)

// Job is a number of asks, so many of which wait at once.
type Job struct {
	Name     string `json:"name"` // unique; the keys are made of it
	N        int    `json:"n"`
	InFlight int    `json:"in_flight"`
	Shards   int    `json:"shards"` // the readers that share the sessions
}

// Timing is one ask. Start and End are the system's clock in ns, which all
// processes here share; Took is this process's own, steady one.
type Timing struct {
	Key      string        `json:"key"` // tenant.owner.id
	Start    int64         `json:"start"`
	End      int64         `json:"end"`
	Took     time.Duration `json:"took"`
	Decision string        `json:"decision"` // its id
	Err      string        `json:"err,omitempty"`
}

// Bytes is about the size of a request on the wire.
const Bytes = 1024

// askLimit bounds one ask: nothing that works takes that long.
const askLimit = 3 * time.Minute

// AskAll asks j.N times; each of j.InFlight agents has a session of its own.
func AskAll(ctx context.Context, c *bus.Client, j Job) []Timing {
	got := make([]Timing, j.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	for agent := range j.InFlight {
		session := fmt.Sprintf("%s%d", shardMark(agent%j.Shards), agent)
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(j.N); i = next.Add(1) - 1 {
				got[i] = askOnce(ctx, c, session, fmt.Sprintf("%s-%d", j.Name, i))
			}
		})
	}
	wg.Wait()
	return got
}

// shardMark begins the session ids that one reader cares for.
func shardMark(shard int) string { return fmt.Sprintf("bench-shard%d-", shard) }

func askOnce(ctx context.Context, c *bus.Client, session, key string) Timing {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	r := Request(session, key)
	at := time.Now()
	a, err := c.Ask(ctx, r)
	end := time.Now()
	t := Timing{Start: at.UnixNano(), End: end.UnixNano(), Took: end.Sub(at)}
	switch {
	case err != nil:
		t.Err = fmt.Sprintf("ask %s: %v", key, err)
	case a.Decision.Outcome != hitl.Allowed:
		t.Err = fmt.Sprintf("ask %s: the outcome is %s", key, a.Decision.Outcome)
	default:
		t.Key, t.Decision = a.Ref.String(), a.Decision.DecisionID
	}
	return t
}

// Request is an approval as an agent asks it, of about Bytes.
func Request(session, key string) *hitl.Request {
	input, err := json.Marshal(map[string]string{
		"command":     "make deploy " + strings.Repeat("TARGET=staging ", 44),
		"description": "Deploy the build to staging",
	})
	if err != nil { // strings always encode
		panic(err)
	}
	return &hitl.Request{
		Key: key, Kind: hitl.KindApproval, SessionID: session, AgentName: "bench", ToolCallID: "call-" + key,
		Title: "Run make deploy", Tool: &hitl.Tool{Name: "Bash", Input: input, Cwd: "/home/bench/project"},
	}
}

// Check holds asks against the promise of one decision each, where nobody saw
// them.
func Check(asks []Timing) error {
	var errs []error
	seen := map[string]bool{}
	for _, t := range asks {
		switch {
		case t.Err != "":
			errs = append(errs, errors.New(t.Err))
		case seen[t.Key] || seen[t.Decision]:
			errs = append(errs, fmt.Errorf("%s or its decision %s was there before", t.Key, t.Decision))
		}
		if t.Err == "" {
			seen[t.Key], seen[t.Decision] = true, true
		}
	}
	return few(errs)
}

// few is at most five of the errors.
func few(errs []error) error {
	if len(errs) > 5 {
		errs = append(errs[:5], fmt.Errorf("and %d more", len(errs)-5))
	}
	return errors.Join(errs...)
}
