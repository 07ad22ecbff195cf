package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
)

// job is a number of asks, so many of which wait at once.
type job struct {
	Name     string `json:"name"` // unique; the keys are made of it
	N        int    `json:"n"`
	InFlight int    `json:"in_flight"`
	Shards   int    `json:"shards"` // the readers that share the sessions
}

// timing is one ask. Start and End are the system's clock in ns, which all
// processes here share; Took is this process's own, steady one.
type timing struct {
	Key      string        `json:"key"` // tenant.owner.id
	Start    int64         `json:"start"`
	End      int64         `json:"end"`
	Took     time.Duration `json:"took"`
	Decision string        `json:"decision"` // its id
	Err      string        `json:"err,omitempty"`
}

// askLimit bounds one ask: nothing that works takes that long.
const askLimit = time.Minute

// askAll asks j.N times; each of j.InFlight agents has a session of its own.
func askAll(ctx context.Context, c *bus.Client, j job) []timing {
	got := make([]timing, j.N)
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

func askOnce(ctx context.Context, c *bus.Client, session, key string) timing {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	r := request(session, key)
	at := time.Now()
	a, err := c.Ask(ctx, r)
	end := time.Now()
	t := timing{Start: at.UnixNano(), End: end.UnixNano(), Took: end.Sub(at)}
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

// request is an approval as an agent asks it, of about askBytes on the wire.
func request(session, key string) *hitl.Request {
	input, err := json.Marshal(map[string]string{
		"command":     "make deploy " + strings.Repeat("TARGET=staging ", 35),
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
