// Package said has the form of what a gateway says of a request.
package said

import "time"

// Card is what a gateway says of a request beside the request's own texts, and
// what nobody else can make again: it depends on how that gateway judges. A
// decision keeps the one that counted when it was made.
type Card struct {
	V            int        `json:"v"` // of this form, and of the digest over it: see package shown
	Headline     string     `json:"headline"`
	Risk         string     `json:"risk"`
	RiskReason   string     `json:"risk_reason,omitempty"`
	Irreversible bool       `json:"irreversible,omitempty"` // a part of it cannot be undone
	Parts        []Part     `json:"parts,omitempty"`        // of a shell command
	MoreParts    int        `json:"more_parts,omitempty"`   // that are not listed
	Verbs        []string   `json:"verbs,omitempty"`        // what could be answered
	Scopes       []string   `json:"scopes,omitempty"`
	Grants       []string   `json:"grants,omitempty"` // what the scope session lets through besides
	AttentionAt  *time.Time `json:"attention_at,omitempty"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"`
	// Named says that whoever decided named the digest of it. A page does; a
	// program that looked at nothing does not, nor does a rule.
	Named bool `json:"named,omitempty"`
}

// Part is one command of a shell command that runs several.
type Part struct {
	Text string `json:"text"` // a piece of the command's block; of a script in quotes, of that script
	// Joint says how it comes after the one before: first, and, or, then, pipe,
	// background, inside, loop, branch or function.
	Joint string `json:"joint"`
	// Depth is how many scripts in quotes it stands in: above 0 it is what a part
	// before it runs.
	Depth      int    `json:"depth,omitempty"`
	Risk       string `json:"risk"`
	RiskReason string `json:"risk_reason"`
}

// Policy is what the gateway computed when it admitted the request.
type Policy struct {
	Version  string `json:"version"`
	Risk     string `json:"risk"`
	Audience string `json:"audience,omitempty"`
	// Role is the one by which somebody decided, in a decision.
	Role   string `json:"role,omitempty"`
	Edited string `json:"edited,omitempty"` // risk of an edited input, where that is worse
}
