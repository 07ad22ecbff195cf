package rule

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

func tool(name string, input any, change ...func(*hitl.Request)) *hitl.Request {
	raw, err := hitl.Marshal(input)
	if err != nil {
		panic(err)
	}
	r := &hitl.Request{
		V: 1, Kind: hitl.KindApproval, Tenant: "default", Owner: "agents", AgentName: "build-7", SessionID: "s1", ProjectID: "shop",
		Tool: &hitl.Tool{Name: name, Input: raw, Cwd: "/srv/shop"},
	}
	for _, fn := range change {
		fn(r)
	}
	return r
}

func bash(command string, change ...func(*hitl.Request)) *hitl.Request {
	return tool("Bash", map[string]string{"command": command}, change...)
}

// made is a rule made from a request.
func made(t testing.TB, r *hitl.Request, pattern, scope string) *wire.Rule {
	t.Helper()
	c := Read(r, "medium")
	require.NotNil(t, c)
	m, err := Make(c, pattern, scope)
	require.NoError(t, err)
	return &wire.Rule{ID: pattern + " " + Title(&m), Effect: wire.RuleAllow, Match: m}
}

func allows(r *hitl.Request, risk string, rules ...*wire.Rule) bool {
	c := Read(r, risk)
	return c != nil && Allowing(rules, c) != nil
}

// escapes are texts that begin like what rules for git status, git diff and npm
// test allow, or look like it, and are something else.
var escapes = map[string]string{
	"a second command":             "git status; rm -rf /",
	"a second command, close":      "git status;rm -rf /",
	"and":                          "git status && rm -rf /",
	"or":                           "git status || rm -rf /",
	"in the background":            "git status & rm -rf /",
	"the background alone":         "git status &",
	"a pipe to a shell":            "git status | sh",
	"a pipe of both outputs":       "git status |& sh",
	"a pipe to a filter":           "git status | tee /etc/passwd",
	"a pipe into git":              "cat x | git status",
	"a line break":                 "git status\nrm -rf /",
	"a carriage return":            "git status\rrm -rf /",
	"a continued line":             "git \\\nstatus",
	"a substitution":               "git status $(rm -rf /)",
	"a substitution in quotes":     `git status "$(rm -rf /)"`,
	"backticks":                    "git status `rm -rf /`",
	"a process substitution":       "git diff <(rm -rf /) x",
	"a variable":                   "git status $X",
	"a variable in quotes":         `git status "$X"`,
	"a variable as the program":    "$GIT status",
	"arithmetic":                   "git status $((1))",
	"an assignment":                "FOO=1 git status",
	"an assignment to the path":    "PATH=/tmp git status",
	"an assignment before":         "PATH=/tmp; git status",
	"an export before":             "export PATH=/tmp && git status",
	"a change of folder before":    "cd /tmp && git status",
	"a function before":            "git() { rm -rf /; }; git status",
	"an alias before":              "alias git=rm; git status",
	"a hash before":                "hash -p /tmp/git git; git status",
	"a trap":                       "trap 'rm -rf /' EXIT; git status",
	"eval":                         "eval git status",
	"exec":                         "exec git status",
	"env":                          "env git status",
	"env with an assignment":       "env FOO=1 git status",
	"sudo":                         "sudo git status",
	"xargs":                        "git status | xargs rm",
	"xargs before":                 "xargs git status",
	"bash -c":                      "bash -c 'git status'",
	"time":                         "time git status",
	"negated":                      "! git status",
	"a subshell":                   "(git status)",
	"a block":                      "{ git status; }",
	"a condition":                  "if git status; then rm -rf /; fi",
	"a loop":                       "while git status; do rm -rf /; done",
	"an option of git":             "git -c alias.x='!sh' x",
	"an option of git, known verb": "git -c core.pager='sh -c x' status",
	"a folder of git":              "git -C /etc status",
	"an option after":              "git diff --output=/etc/passwd",
	"a short option after":         "git diff -O/tmp/x",
	"the end of options":           "git diff -- x --output=y",
	"output to a file":             "git status > /etc/passwd",
	"output added to a file":       "git status >> /etc/passwd",
	"errors to a file":             "git status 2> /etc/passwd",
	"output to a descriptor":       "git status >&3",
	"input from a file":            "git status < /etc/passwd",
	"a here document":              "git status <<EOF\n$(rm -rf /)\nEOF",
	"a here string":                "git status <<< x",
	"a comment":                    "git status # all is well",
	"a comment that hides":         "git status #; rm -rf /",
	"a comment line before":        "# git status\nrm -rf /",
	"a glob":                       "git diff *",
	"a glob in a word":             "git diff a?b",
	"a class":                      "git diff [ab]",
	"an extended glob":             "git diff @(a|b)",
	"braces":                       "git diff {a,b}",
	"a tilde":                      "git diff ~/.ssh/id_rsa",
	"a tilde of another":           "git diff ~root",
	"an absolute path":             "git diff /etc/shadow",
	"a path outwards":              "git diff ../../etc/shadow",
	"a path outwards inside":       "git diff a/../../b",
	"an escaped letter":            `git st\atus`,
	"a quoted program":             `"git status"`,
	"ANSI quotes":                  `git $'status'`,
	"translated quotes":            `git $"status"`,
	"zsh's program lookup":         "git diff =rm",
	"a leading dash":               "-git status",
	"history":                      `git status "!rm"`,
	"another program":              "gitx status",
	"a program by its path":        "/tmp/git status",
	"a program beside":             "./git status",
	"another case":                 "GIT status",
	"a look-alike letter":          "gіt status",
	"a look-alike space":           "git\u00a0status",
	"a zero width space":           "git\u200b status",
	"a text from right to left":    "git status \u202e#",
	"a NUL":                        "git status\x00; rm",
	"no words":                     "",
	"blanks":                       "   ",
	"not closed":                   "git status '",
	"a word more":                  "npm test -- --reporter=/tmp/x",
	"a word less":                  "npm",
	"another subcommand":           "git push",
	"a program in place of words":  "npm run test",
	"precommand modifier of zsh":   "noglob git status",
	"command":                      "command git status",
	"builtin":                      "builtin git status",
	"coproc":                       "coproc git status",
	"an assignment of an array":    "A=(git status)",
	"a test":                       "[[ -n x ]] && git status",
	"let":                          "let x=1; git status",
	"a descriptor in a variable":   "git status {x}>/dev/null",
}

func TestNoTextEscapesARule_B59(t *testing.T) {
	t.Parallel()
	rules := []*wire.Rule{
		made(t, bash("git status"), wire.RuleWords, wire.RuleOwner),
		made(t, bash("git status"), wire.RuleOperands, wire.RuleOwner),
		made(t, bash("git diff a"), wire.RuleOperands, wire.RuleOwner),
		made(t, bash("npm test"), wire.RuleWords, wire.RuleOwner),
		made(t, bash("cat x"), wire.RuleOperands, wire.RuleOwner),
	}
	for name, text := range escapes {
		t.Run(name, func(t *testing.T) {
			require.False(t, allows(bash(text), "low", rules...), text)
		})
	}
	// So that the table fails for a reason.
	for _, text := range []string{
		"git status", "git  status", `'git' status`, `git "status"`, "git status 2>&1", "git status 2>/dev/null", "git diff main..HEAD", "git diff src/a.go 'b c.go'",
		"git status && npm test", "git status; git diff", "git status || npm test", "git diff x | cat y", "cat a | cat b",
	} {
		require.True(t, allows(bash(text), "low", rules...), text)
	}
}

func TestARuleForALongerCommandIsItsExactText_B59(t *testing.T) {
	t.Parallel()
	r := bash("git status && rm -rf tmp")
	var ids []string
	for _, p := range Patterns(Read(r, "medium")) {
		ids = append(ids, p.ID)
	}
	require.Equal(t, []string{wire.RuleExact}, ids)
	rule := made(t, r, wire.RuleExact, wire.RuleOwner)
	require.True(t, allows(r, "medium", rule))
	for _, text := range []string{"rm -rf tmp", "git status", "git status && rm -rf tmp2", "git status && rm -rf tmp ", "git status  && rm -rf tmp"} {
		require.False(t, allows(bash(text), "medium", rule), text)
	}
	_, err := Make(Read(r, "medium"), wire.RuleWords, wire.RuleOwner)
	require.ErrorContains(t, err, "pattern")
}

func TestEachPartOfALongerCommandNeedsARule_B59(t *testing.T) {
	t.Parallel()
	status, lint := made(t, bash("git status"), wire.RuleWords, wire.RuleOwner), made(t, bash("make lint"), wire.RuleWords, wire.RuleOwner)
	both := bash("git status && make lint")
	require.False(t, allows(both, "low", status))
	require.False(t, allows(both, "low", lint))
	require.Equal(t, []*wire.Rule{status, lint}, Allowing([]*wire.Rule{lint, status}, Read(both, "low")))
	require.Equal(t, []*wire.Rule{status}, Allowing([]*wire.Rule{lint, status}, Read(bash("git status; git status"), "low")))
	// What a part writes must not be run by the next one, nor what it sets be used.
	psql, echo := made(t, bash("psql shop"), wire.RuleWords, wire.RuleOwner), made(t, bash("echo hello"), wire.RuleOperands, wire.RuleOwner)
	require.True(t, allows(bash("psql shop"), "low", psql, echo))
	require.False(t, allows(bash("echo 'drop table x' | psql shop"), "low", psql, echo))
	for _, text := range []string{"cd /tmp", "source x", "alias git=rm", "printf -v PATH /tmp", "read PATH", "exit 1"} {
		ids := []string{}
		for _, p := range Patterns(Read(bash(text), "low")) {
			ids = append(ids, p.ID)
		}
		require.Equal(t, []string{wire.RuleExact}, ids, text)
	}
	// A rule for the exact text of one command is no rule for a part.
	exact := made(t, bash("make lint"), wire.RuleExact, wire.RuleOwner)
	require.True(t, allows(bash("make lint"), "low", exact))
	require.False(t, allows(both, "low", status, exact))
}

func TestARuleIsForTheRequestsItNames(t *testing.T) {
	t.Parallel()
	r := bash("git status")
	others := map[string]func(*hitl.Request){
		"another tenant":  func(r *hitl.Request) { r.Tenant = "other" },
		"another owner":   func(r *hitl.Request) { r.Owner = "other" },
		"another agent":   func(r *hitl.Request) { r.AgentName = "other" },
		"another tool":    func(r *hitl.Request) { r.Tool.Name = "Shell" },
		"another server":  func(r *hitl.Request) { r.Tool.Server = "other" },
		"another folder":  func(r *hitl.Request) { r.Tool.Cwd = "/tmp" },
		"no folder":       func(r *hitl.Request) { r.Tool.Cwd = "" },
		"a question":      func(r *hitl.Request) { r.Kind = hitl.KindQuestion },
		"an unknown kind": func(r *hitl.Request) { r.Kind = "scan" },
		"no tool":         func(r *hitl.Request) { r.Tool = nil },
		"more input": func(r *hitl.Request) {
			r.Tool.Input = json.RawMessage(`{"command":"git status","run_in_background":true}`)
		},
		"without a guard": func(r *hitl.Request) {
			r.Tool.Input = json.RawMessage(`{"command":"git status","dangerouslyDisableSandbox":true}`)
		},
		"another spelling": func(r *hitl.Request) { r.Tool.Input = json.RawMessage(`{"Command":"git status"}`) },
		"no text":          func(r *hitl.Request) { r.Tool.Input = json.RawMessage(`{"command":["git status"]}`) },
		"no object":        func(r *hitl.Request) { r.Tool.Input = json.RawMessage(`"git status"`) },
	}
	for _, pattern := range []string{wire.RuleExact, wire.RuleWords, wire.RuleOperands} {
		rule := made(t, r, pattern, wire.RuleOwner)
		require.True(t, allows(r, "low", rule))
		require.True(t, allows(bash("git status", func(r *hitl.Request) {
			r.Tool.Input = json.RawMessage(`{"description":"look","command":"git status","timeout":5000}`)
		}), "low", rule), "what the agent says about it changes nothing")
		for name, change := range others {
			require.False(t, allows(bash("git status", change), "low", rule), "%s, %s", pattern, name)
		}
	}
	session, project := func(r *hitl.Request) { r.SessionID = "s2" }, func(r *hitl.Request) { r.ProjectID = "other" }
	for scope, want := range map[string][2]bool{wire.RuleSession: {false, false}, wire.RuleProject: {true, false}, wire.RuleOwner: {true, true}} {
		rule := made(t, r, wire.RuleWords, scope)
		require.True(t, allows(r, "low", rule), scope)
		require.Equal(t, want[0], allows(bash("git status", session), "low", rule), scope)
		require.Equal(t, want[1], allows(bash("git status", project), "low", rule), scope)
		if scope != wire.RuleOwner {
			require.False(t, allows(bash("git status", project), "low", rule), scope)
		}
	}
	_, err := Make(Read(bash("git status", func(r *hitl.Request) { r.ProjectID = "" }), "low"), wire.RuleExact, wire.RuleProject)
	require.ErrorContains(t, err, "scope")
}

func TestWhatIsRiskierThanTheRuleGoesToPeople(t *testing.T) {
	t.Parallel()
	r := bash("git status")
	rule := made(t, r, wire.RuleWords, wire.RuleOwner) // at medium
	for risk, want := range map[string]bool{"low": true, "medium": true, "high": false, "critical": false, "": false, "odd": false} {
		require.Equal(t, want, allows(r, risk, rule), risk)
	}
	rule.Match.MaxRisk = "critical"
	require.False(t, allows(r, "critical", rule), "what is critical is for people, whatever a rule says")
	require.NotEmpty(t, Reason(r, "critical", wire.RuleAllow))
	require.Empty(t, Reason(r, "critical", wire.RuleDeny))
	require.NotEmpty(t, Reason(tool("ExitPlanMode", map[string]string{"plan": "x"}), "low", wire.RuleAllow))
	require.Nil(t, Read(tool("ExitPlanMode", map[string]string{"plan": "x"}), "low"))
}

func TestAFolderHoldsWhatIsBelowIt(t *testing.T) {
	t.Parallel()
	write := func(path string, more ...string) *hitl.Request {
		in := map[string]string{"file_path": path, "content": "x"}
		for _, k := range more {
			in[k] = "y"
		}
		return tool("Write", in)
	}
	rule := made(t, write("/srv/shop/src/a.ts"), wire.RuleFolder, wire.RuleProject)
	require.Equal(t, "/srv/shop/src", rule.Match.Folder)
	require.Equal(t, "/srv/shop", made(t, write("/srv/shop/src/a.ts"), wire.RuleWorkdir, wire.RuleProject).Match.Folder)
	for path, want := range map[string]bool{
		"/srv/shop/src/b.ts": true, "/srv/shop/src/deep/er/b.ts": true, "/srv/shop/src/..b": true,
		"/srv/shop/src": false, "/srv/shop/src/": false, "/srv/shop/b.ts": false, "/srv/shop/src2/b.ts": false, "/srv/shop/src/../b.ts": false,
		"/srv/shop/src/./b.ts": false, "/srv/shop/src//b.ts": false, "/srv/shop/src/..": false, "src/b.ts": false, "../shop/src/b.ts": false,
		"/srv/shop/src/a\x00b": false, "/srv/shop/src/a\nb": false, "/srv/shop/src\u200b/b": false, "/srv/shop/SRC/b.ts": false, `/srv/shop/src/..\b`: false,
		"~/b.ts": false, "": false, "/": false, "file:///srv/shop/src/b.ts": false,
	} {
		require.Equal(t, want, allows(write(path), "medium", rule), path)
	}
	require.False(t, allows(write("/srv/shop/src/b.ts", "mode"), "medium", rule), "a member that nobody knows")
	require.False(t, allows(write("/srv/shop/src/.ssh/authorized_keys"), "high", rule), "as the policy judges it")
	require.False(t, allows(tool("Edit", map[string]string{"file_path": "/srv/shop/src/b.ts", "old_string": "a", "new_string": "b"}), "low", rule))
	for _, p := range Patterns(Read(write("/a.ts"), "low")) {
		require.Equal(t, wire.RuleExact, p.ID, "the root is no folder of a rule")
	}
}

func TestAToolAsAWhole(t *testing.T) {
	t.Parallel()
	mcp := func(name string, in any) *hitl.Request {
		return tool(name, in, func(r *hitl.Request) { r.Tool.Server = "tickets" })
	}
	rule := made(t, mcp("mcp__tickets__read", map[string]int{"id": 7}), wire.RuleTool, wire.RuleOwner)
	require.True(t, allows(mcp("mcp__tickets__read", map[string]int{"id": 8}), "medium", rule))
	require.False(t, allows(mcp("mcp__tickets__read_all", map[string]int{"id": 8}), "medium", rule))
	require.False(t, allows(mcp("mcp__tickets__read", map[string]string{"command": "rm"}), "medium", rule))
	exact := made(t, mcp("mcp__tickets__read", map[string]int{"id": 7}), wire.RuleExact, wire.RuleOwner)
	same := mcp("mcp__tickets__read", nil)
	same.Tool.Input = json.RawMessage(` { "id" : 7 } `)
	require.True(t, allows(same, "medium", exact))
	for _, in := range []string{`{"id":7.0}`, `{"id":7,"purge":true}`, `{}`, `{"id":"7"}`, `{"id":9007199254740993}`} {
		same.Tool.Input = json.RawMessage(in)
		require.False(t, allows(same, "medium", exact), in)
	}
	for _, r := range []*hitl.Request{
		bash("x"), tool("Write", map[string]string{"file_path": "/srv/a", "content": ""}), tool("run", map[string]string{"command": "x"}),
		tool("terminal", map[string]string{"text": "x"}, func(r *hitl.Request) { r.Tool.Kind = "execute" }),
	} {
		_, err := Make(Read(r, "low"), wire.RuleTool, wire.RuleOwner)
		require.ErrorContains(t, err, "pattern", r.Tool.Name)
	}
}

func TestADenialMeetsAPart(t *testing.T) {
	t.Parallel()
	rule := made(t, bash("git push"), wire.RuleWords, wire.RuleOwner)
	for text, want := range map[string]bool{
		"git push": true, "make && git push": true, "git push | cat": true, "git push origin": false, "git pull": false,
		"echo git push": false, "git push $(x)": false, // cannot be read: people see it
	} {
		require.Equal(t, want, Denies(&rule.Match, Read(bash(text), "critical")), text)
	}
}

func TestEveryExampleIsLeftToPeople(t *testing.T) {
	t.Parallel()
	for _, r := range []*hitl.Request{
		bash("git status"), tool("Write", map[string]string{"file_path": "/srv/shop/src/a.ts", "content": ""}),
		tool("mcp__a__b", map[string]int{"n": 1}, func(r *hitl.Request) { r.Tool.Server = "a" }),
	} {
		c := Read(r, "medium")
		for _, p := range Patterns(c) {
			m, err := Make(c, p.ID, wire.RuleOwner)
			require.NoError(t, err)
			list := Examples(&m, c)
			if p.ID != wire.RuleExact || r.Tool.Name == "Bash" {
				require.NotEmpty(t, list, p.ID)
			}
			require.NotEmpty(t, Text(wire.RuleAllow, &m))
			for _, ex := range list {
				if r.Tool.Name == "Bash" {
					require.False(t, allows(bash(ex.Text), "medium", &wire.Rule{Effect: wire.RuleAllow, Match: m}), ex.Text)
				}
			}
		}
	}
}

// Whatever the text is: where a rule lets it through, its parts are the words of
// rules and nothing else is in it.
func FuzzCommand(f *testing.F) {
	for _, text := range escapes {
		f.Add(text)
	}
	f.Add("git status && npm test 2>&1")
	rules := []*wire.Rule{
		made(f, bash("git status"), wire.RuleWords, wire.RuleOwner),
		made(f, bash("git diff a"), wire.RuleOperands, wire.RuleOwner),
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := Read(bash(text), "low")
		if c == nil || Allowing(rules, c) == nil {
			return
		}
		left := text
		for _, r := range left {
			if r < ' ' || r > '~' {
				t.Fatalf("let through %q", text)
			}
		}
		for _, p := range c.parts {
			if p.words[0] != "git" || p.words[1] != "status" && p.words[1] != "diff" || p.piped {
				t.Fatalf("let through %q as %q", text, p.words)
			}
			for _, w := range p.words[2:] {
				if p.words[1] == "status" || w == "" || w[0] == '-' || w[0] == '/' {
					t.Fatalf("let through %q as %q", text, p.words)
				}
			}
		}
		// Said again from its words it is the same.
		for _, p := range c.parts {
			again := parts(quote(p.words))
			if len(again) != 1 || len(again[0].words) != len(p.words) {
				t.Fatalf("%q is not %q", quote(p.words), p.words)
			}
		}
	})
}
