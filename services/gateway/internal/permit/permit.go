// Package permit says whether an attempt to decide may be made at all: by whose
// right, and whether the person who makes it is there.
package permit

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/api"
)

// critical is the risk that needs more than a session.
const critical = "critical"

// proofAge is how long ago a person may have used a passkey for what is critical.
const proofAge = 5 * time.Minute

// stepUp is the assurance of what was decided with a passkey at hand.
const stepUp = "step_up"

// Role returns the role by which an attempt may decide r, or why it may not.
// Who must not know of r is told that there is nothing.
func Role(a *api.Attempt, r *hitl.Request) (string, *hitl.Receipt) {
	refuse := func(words string) (string, *hitl.Receipt) {
		return "", &hitl.Receipt{Status: hitl.Forbidden, Error: words}
	}
	switch a.Principal.Kind {
	case "person", "service", "rule":
	default:
		return refuse("only people, services and rules decide")
	}
	if !a.Rights.Sees(r.Tenant, r.ProjectID) {
		rec := api.Failure(api.ErrNotFound)
		return "", &rec
	}
	if asks(a, subject.Token(r.Owner)) {
		return refuse("an owner cannot decide its own request")
	}
	by, ok := a.Rights.Decides(r.Kind, r.Tenant, r.ProjectID)
	if !ok {
		return refuse("none of your roles decides this kind of request in this project")
	}
	return by, nil
}

// asks reports whether an attempt is made by whoever asks as an owner, by its token.
func asks(a *api.Attempt, owner string) bool {
	return subject.Token(api.Owner(a.Principal)) == owner || a.Principal.Kind == "service" && subject.Token(a.Principal.ID) == owner ||
		a.AskedFor != "" && subject.Token(a.AskedFor) == owner
}

// reach is the gravest risk that somebody may let go on who is known by less than
// a session. What is not listed here reaches everything that a role does.
var reach = map[string][]string{
	AssuranceLink: {"low", "medium"},
	AssuranceChat: {"low", "medium", "high"},
}

// The assurances of those who decide from outside the web app: by the link in an
// alert, and by an account of a chat.
const (
	AssuranceLink = "link"
	AssuranceChat = "chat_account"
)

// Enough reports whether an assurance lets a request of a risk go on. Saying no
// takes none.
func Enough(assurance, risk string) bool {
	risks, weak := reach[assurance]
	return !weak || slices.Contains(risks, risk)
}

// Presence asks for presence where a critical request would go on: of a person who
// has a passkey, for its use a moment ago. A program cannot be present. Saying no
// needs no proof.
func Presence(ctx context.Context, a *api.Attempt, risk string, c *hitl.Content, now time.Time) (assurance string, refused *hitl.Receipt) {
	if c.Outcome == hitl.Denied || c.Outcome == hitl.Dismissed {
		return a.Assurance, nil
	}
	if !Enough(a.Assurance, risk) {
		return "", &hitl.Receipt{
			Status: hitl.Forbidden, Error: "sign in to let this go on: its risk is " + risk,
			Fields: []hitl.Field{{Field: "assurance", Problem: a.Assurance + " is not enough for the risk " + risk}},
		}
	}
	if risk != critical {
		return a.Assurance, nil
	}
	return present(ctx, a, "this request is critical: ", now)
}

// asking are the modes of a session in which nothing runs unasked that would be asked by
// default. In any other, also one that is not known here, more is approved in advance.
var asking = []string{"", "default", "plan", "dontAsk"}

// Mode says why an attempt may not put a session of an owner, by its token, into a
// mode: what approves in advance takes what a critical request does.
func Mode(ctx context.Context, a *api.Attempt, mode, owner string, now time.Time) *hitl.Receipt {
	if slices.Contains(asking, mode) {
		return nil
	}
	if asks(a, owner) {
		return &hitl.Receipt{
			Status: hitl.Forbidden, Error: "an owner cannot approve its own requests in advance",
			Fields: []hitl.Field{{Field: "mode", Problem: "approves in advance what its owner asks"}},
		}
	}
	_, refused := present(ctx, a, "this mode approves in advance: ", now)
	return refused
}

// Suggested is Mode for the modes that an approval takes over for the whole session.
func Suggested(ctx context.Context, a *api.Attempt, r *hitl.Request, c *hitl.Content, now time.Time) *hitl.Receipt {
	if c.Scope != "session" {
		return nil
	}
	var all []struct{ Type, Mode string }
	if json.Unmarshal(r.Suggestions, &all) != nil {
		all = []struct{ Type, Mode string }{{"setMode", "one that cannot be read"}}
	}
	for _, s := range all {
		if s.Type != "setMode" {
			continue
		}
		if refused := Mode(ctx, a, s.Mode, subject.Token(r.Owner), now); refused != nil {
			return refused
		}
	}
	return nil
}

// present asks for the presence of a person. why begins the words for a refusal.
func present(ctx context.Context, a *api.Attempt, why string, now time.Time) (assurance string, refused *hitl.Receipt) {
	refuse := func(problem string) (string, *hitl.Receipt) {
		return "", &hitl.Receipt{
			Status: hitl.Forbidden, Error: why + problem,
			Fields: []hitl.Field{{Field: "assurance", Problem: problem}},
		}
	}
	if a.Principal.Kind != "person" || a.Presence == nil {
		return refuse("only a person may do this")
	}
	passkey, at, err := a.Presence(ctx)
	switch {
	case err != nil:
		return "", &hitl.Receipt{Status: hitl.Unavailable, Error: "the session cannot be checked now; nothing was done"}
	case !at.IsZero() && now.Sub(at) < proofAge:
		return stepUp, nil
	case passkey:
		return refuse(stepUp + " is needed: use your passkey and try again")
	}
	return a.Assurance, nil
}
