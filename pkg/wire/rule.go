package wire

import (
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// Effects of a rule.
const (
	RuleAllow = hitl.VerbAllow
	RuleDeny  = hitl.VerbDeny
)

// Scopes of a rule: whose requests it decides.
const (
	RuleSession = "session" // those of one session
	RuleProject = "project" // those of one asker in one project
	RuleOwner   = "owner"   // those of one asker, whatever the project
)

// Patterns of a rule: which calls of its tool it decides.
const (
	RuleExact    = "exact"    // this input and no other
	RuleWords    = "words"    // this command of these words, also as a part of a longer one
	RuleOperands = "operands" // this command with other names after it, and no options
	RuleFolder   = "folder"   // files below a folder
	RuleTool     = "tool"     // whatever the input
)

// RuleWorkdir is the choice of the pattern folder with the folder that the agent
// works in, in place of the file's own.
const RuleWorkdir = "workdir"

// States of a rule.
const (
	RuleActive  = "active"
	RuleExpired = "expired"
	RuleUsedUp  = "used_up"
	RuleRevoked = "revoked"
)

// TypeRulesChanged is the type of RulesChanged.
const TypeRulesChanged = "rules_changed"

// RulesChanged tells that the rules are not what they were: whoever shows them
// reads them again.
type RulesChanged struct {
	Type string `json:"type"`
}

// RuleMatch is what a request has to be for a rule to decide it. The gateway makes
// it from a request that somebody saw, and nobody else can.
type RuleMatch struct {
	Scope      string `json:"scope"`
	Tenant     string `json:"tenant"`
	Owner      string `json:"owner"`
	ProjectID  string `json:"project_id,omitempty"`
	SessionKey string `json:"session_key,omitempty"` // of the scope session
	AgentName  string `json:"agent_name,omitempty"`
	Kind       string `json:"kind"`
	Tool       string `json:"tool"`
	Server     string `json:"server,omitempty"` // MCP server
	Pattern    string `json:"pattern"`
	Cwd        string `json:"cwd,omitempty"` // where a command runs
	// Text is the command, or the canonical JSON of the input, of the pattern exact.
	Text string `json:"text,omitempty"`
	// Words are the program and what must follow it.
	Words []string `json:"words,omitempty"`
	// Rest is what else the input of a command says, as canonical JSON.
	Rest   string `json:"rest,omitempty"`
	Folder string `json:"folder,omitempty"`
	// MaxRisk is the risk of the request it was made from: what is riskier goes to
	// people.
	MaxRisk string `json:"max_risk"`
}

// Rule decides requests in the name of the person who made it.
type Rule struct {
	ID     string `json:"id"`
	Effect string `json:"effect"` // allow or deny
	// Title names it in a few words, Text says what it matches.
	Title     string          `json:"title"`
	Text      string          `json:"text"`
	Match     RuleMatch       `json:"match"`
	Maker     hitl.Principal  `json:"maker"`
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt time.Time       `json:"expires_at"`
	MaxUses   int             `json:"max_uses,omitempty"` // absent: as often as it matches
	Uses      int             `json:"uses"`
	LastUsed  *time.Time      `json:"last_used,omitempty"`
	RevokedAt *time.Time      `json:"revoked_at,omitempty"`
	RevokedBy *hitl.Principal `json:"revoked_by,omitempty"`
	State     string          `json:"state"`
	// Version counts from 1 with Changes, the oldest first: each says what was
	// before.
	Version int          `json:"version,omitempty"`
	Changes []RuleChange `json:"changes,omitempty"`
	// MayRevoke says that whoever reads this may revoke it.
	MayRevoke bool `json:"may_revoke,omitempty"`
	// MayChange says that whoever reads this made it and may change it, to last
	// MaxExpiresIn seconds from now at most.
	MayChange    bool  `json:"may_change,omitempty"`
	MaxExpiresIn int64 `json:"max_expires_in,omitempty"`
	// From is the request that its match was made from; absent in rules of older
	// gateways.
	From *RuleTarget `json:"from,omitempty"`
}

// RuleChange is what a version of a rule changed.
type RuleChange struct {
	Version   int            `json:"version"` // that it made
	At        time.Time      `json:"at"`
	By        hitl.Principal `json:"by"`
	What      string         `json:"what"`       // in words
	ExpiresAt time.Time      `json:"expires_at"` // before it
	MaxUses   int            `json:"max_uses,omitempty"`
	// Text says what it matched before; absent where that stayed.
	Text string `json:"text,omitempty"`
}

// ChangeRule changes what it names of a rule that is in force.
type ChangeRule struct {
	// Version is the one that was read: another one in the meantime is a conflict.
	Version int `json:"version"`
	// ExpiresIn is in seconds from now.
	ExpiresIn int64 `json:"expires_in,omitempty"`
	// MaxUses are all uses, those that were included; 0: as often as it matches.
	MaxUses *int `json:"max_uses,omitempty"`
	// Match is what it matches from now on, of the same asker and tool.
	Match *RuleWish `json:"match,omitempty"`
	// Apply are requests that wait and that the new version is to decide at once.
	Apply []RuleTarget `json:"apply,omitempty"`
}

// RuleWish says what a rule is to match: a request, and two choices of its preview.
type RuleWish struct {
	// RequestID and Digest are those of a request that was shown; absent: of the one
	// that the rule was made from.
	RequestID string `json:"request_id,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Pattern   string `json:"pattern"`
	Scope     string `json:"scope"`
}

// ChangedRule is the reply to ChangeRule. Applied has a receipt for each of apply.
type ChangedRule struct {
	Rule
	Applied []Receipt `json:"applied,omitempty"`
}

// RuleList are the rules that one may see, those in force first, then the newest.
type RuleList struct {
	Rules []Rule `json:"rules"`
}

// NewRule asks for a rule like a request that was shown. Its pattern and scope are
// ids of the choices that a preview offers.
type NewRule struct {
	RequestID string `json:"request_id"`
	Digest    string `json:"digest"`
	Effect    string `json:"effect,omitempty"`  // default allow
	Pattern   string `json:"pattern,omitempty"` // default exact
	Scope     string `json:"scope,omitempty"`   // default session
	// ExpiresIn is in seconds. No rule is for ever.
	ExpiresIn int64 `json:"expires_in"`
	MaxUses   int   `json:"max_uses,omitempty"`
	// Apply are requests that wait and that the rule is to decide at once.
	Apply []RuleTarget `json:"apply,omitempty"`
}

// RuleTarget is a request that waits, as it was shown.
type RuleTarget struct {
	RequestID string `json:"request_id"`
	Digest    string `json:"digest"`
}

// MadeRule is the reply to NewRule. Applied has a receipt for each of apply.
type MadeRule struct {
	Rule    Rule      `json:"rule"`
	Applied []Receipt `json:"applied"`
}

// RuleChoice is a pattern or a scope that is possible for a request, the narrowest
// first.
type RuleChoice struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// RuleCase is a request that was held against a rule.
type RuleCase struct {
	RequestID string       `json:"request_id"` // the key
	Digest    string       `json:"digest"`
	Headline  string       `json:"headline"`
	Input     string       `json:"input,omitempty"` // as in a summary
	Cut       bool         `json:"cut,omitempty"`
	CreatedAt time.Time    `json:"created_at"`
	Outcome   hitl.Outcome `json:"outcome,omitempty"` // absent while it waits
}

// RuleExample is an input that a rule would not decide.
type RuleExample struct {
	Text string `json:"text"`
	Why  string `json:"why"`
}

// RulePreview says what a rule would be, before it is made.
type RulePreview struct {
	Rule     Rule         `json:"rule"`
	Patterns []RuleChoice `json:"patterns"`
	Scopes   []RuleChoice `json:"scopes"`
	// Pending are those it would decide now, Recent those it would have decided,
	// Others those of the same tool that it would leave to people.
	Pending []RuleCase `json:"pending"`
	Recent  []RuleCase `json:"recent"`
	Others  []RuleCase `json:"others"`
	// Looked is how many decided requests of this asker and tool were looked at.
	Looked   int           `json:"looked"`
	Examples []RuleExample `json:"examples"`
	// MaxExpiresIn is the longest time, in seconds.
	MaxExpiresIn int64 `json:"max_expires_in"`
}
