package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
)

// A program asks before it does something, and does it only with an allowance.
func ExampleClient_Ask() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	cred, err := bus.LoadCredentials("creds/owner-ci.json")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	client, err := bus.Connect(ctx, cred, bus.Options{Name: "release script"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer client.Close()

	ans, err := client.Ask(ctx, &hitl.Request{
		Kind: hitl.KindApproval, SessionID: "release-1.2", Key: "release-1.2/publish",
		Title: "Publish version 1.2",
		Tool:  &hitl.Tool{Name: "Publish", Input: json.RawMessage(`{"version":"1.2"}`)},
	})
	switch {
	case errors.Is(err, bus.ErrNoDecision):
		fmt.Println("nobody decided in time: not published")
	case err != nil:
		fmt.Println("not published:", err)
	case ans.Decision.Outcome != hitl.Allowed:
		fmt.Println("not published:", ans.Decision.Outcome, ans.Decision.Message)
	default:
		// The person may have edited the input.
		input := json.RawMessage(`{"version":"1.2"}`)
		if ans.Decision.UpdatedInput != nil {
			input = ans.Decision.UpdatedInput
		}
		fmt.Println("publishing", string(input))
		_ = client.Ack(ctx, ans.Ref, hitl.Applied, ans.Decision.DecisionID, "")
	}
}
