// Package command reads shell text for people: which commands it runs, what each
// of them does to the world, and how bad that is. It is a first sorting for
// their eyes, not a sandbox.
package command

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/banksman/banksman/pkg/hitl"
)

// Levels of risk, from the least.
var Levels = []string{"low", "medium", "high", "critical"}

// Rank orders levels; what is none comes first.
func Rank(level string) int { return slices.Index(Levels, level) }

// Max is the longest text that is judged, in bytes. Nobody reads a longer
// command either, and it would take too long.
const Max = 16 << 10

// Bounds of what is read of one command.
const (
	maxParts = 60       // a longer list helps nobody to read it
	maxDepth = 3        // scripts inside of scripts
	maxList  = 16 << 10 // bytes of all listed parts: some stand inside of others
	maxNests = 8        // commands that run commands
	maxOpen  = 64       // parentheses: the parser takes seconds for thousands
)

// How a part comes after the one before it.
const (
	First      = "first"
	And        = "and"        // only if that worked
	Or         = "or"         // only if that failed
	Then       = "then"       // in any case
	Pipe       = "pipe"       // fed with its output
	Background = "background" // beside what follows
	Inside     = "inside"     // a part before it takes its output
	Loop       = "loop"       // as often as a loop turns
	Branch     = "branch"     // if a condition holds
	Function   = "function"   // when its function is called
)

// Part is one simple command of a shell text.
type Part struct {
	Text  string // as it is shown: a piece of the whole, or of a script in it, as it is shown
	Joint string
	Depth int // how many scripts it stands in that a part before it runs
	// Level and Reason are of the worst that it does.
	Level, Reason string
	does          []effect
}

// Reading is what a shell text was understood to be. Without parts it was not.
type Reading struct {
	Text string // the whole, as it was asked
	// Level and Reason are of the worst part.
	Level, Reason string
	Parts         []Part
	More          int // parts beyond those listed; they count for the risk
	// Opaque says that it runs a text in which no commands can be read: code of
	// another language, what is made or fetched when it runs.
	Opaque bool
	does   []effect
}

// effect is one thing that a command does to the world.
type effect struct {
	level  string
	reason string // "deletes files for good"
	do     string // "delete build/ for good"; empty: no more than running it
	gone   bool   // cannot be undone
	opaque bool   // of a text in which no commands can be read
}

// Gone reports whether a part of it cannot be undone.
func (r *Reading) Gone() bool {
	return slices.ContainsFunc(r.does, func(e effect) bool { return e.gone })
}

// Bad are the phrases of all that is of high risk or worse, the worst first.
func (r *Reading) Bad() []string { return r.phrases(Rank("high")) }

// Notable are the phrases of what is worth to be named though it is no danger.
func (r *Reading) Notable() []string { return r.phrases(Rank("medium")) }

func (r *Reading) phrases(least int) []string {
	does := slices.Clone(r.does)
	slices.SortStableFunc(does, func(a, b effect) int { return Rank(b.level) - Rank(a.level) })
	var out []string
	for _, e := range does {
		if e.do != "" && Rank(e.level) >= least && !slices.Contains(out, e.do) {
			out = append(out, e.do)
		}
	}
	return out
}

// Brief names what runs where no part is worth a phrase of its own.
func (r *Reading) Brief() string {
	if len(r.Parts) == 0 {
		return "run a shell command"
	}
	own := slices.DeleteFunc(slices.Clone(r.Parts), func(p Part) bool { return p.Depth > 0 })
	if len(own) == 1 && r.More == 0 {
		var words []string
		for w := range strings.FieldsSeq(r.Parts[0].Text) {
			if words = append(words, w); len(words) == 2 {
				break
			}
		}
		if len(words) > 0 && plainWord.MatchString(words[0]) {
			if len(words) > 1 && plainWord.MatchString(words[1]) && !strings.ContainsAny(words[1], "/.") {
				return "run " + words[0] + " " + words[1]
			}
			return "run " + words[0]
		}
		return "run a shell command"
	}
	var progs []string
	for _, p := range own {
		prog, _, _ := strings.Cut(p.Text, " ")
		if !plainWord.MatchString(prog) {
			return "run " + number(len(own)+r.More) + " commands"
		}
		if !slices.Contains(progs, prog) {
			progs = append(progs, prog)
		}
	}
	if len(progs) > 4 {
		return "run " + number(len(own)+r.More) + " commands"
	}
	return "run " + number(len(own)+r.More) + " commands (" + listed(progs) + ")"
}

// plainWord is a word that cannot pass for a piece of a sentence of ours.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,32}$`)

// Read takes a shell text apart. It understands what can be read from the text
// alone; what a variable holds or a substitution gives is not known to it, and
// counts as the worse for that.
func Read(command string) Reading {
	w := &reader{raw: command}
	if len(command) > Max || !w.parse(command) {
		e := floor(command)
		if e.level == "" {
			e = effect{level: "medium", reason: runs}
		}
		return Reading{Text: command, Level: e.level, Reason: e.reason, Opaque: true, does: []effect{e}}
	}
	r := Reading{Text: command, Parts: w.parts, More: w.more, does: w.does, Opaque: w.opaque}
	bad := worst(w.does)
	r.Level, r.Reason = bad.level, bad.reason
	if r.Level == "" {
		r.Level, r.Reason = "medium", runs
	}
	return r
}

const runs = "runs a command"

// worst is the first of the highest level.
func worst(does []effect) (out effect) {
	for _, e := range does {
		if out.level == "" || Rank(e.level) > Rank(out.level) || e.level == out.level && out.reason == runs {
			out = e
		}
	}
	return out
}

// reader walks over one shell text.
type reader struct {
	raw    string
	parts  []Part
	more   int
	room   int // bytes of the parts listed
	does   []effect
	in     []Part   // of the scripts that the part in hand runs
	inner  int      // beyond those
	opaque bool     // it runs what cannot be read
	fed    []effect // what the commands do whose output the next one gets
	piped  bool
	depth  int // scripts around this one
	nests  int // commands around the one that is judged
}

// parse is false for what is no shell text. The parser is not ours: whatever an
// agent writes must not end the gateway, so its faults count as that too.
func (w *reader) parse(text string) (ok bool) {
	defer func() {
		if recover() != nil {
			w.parts, w.does, w.more, ok = nil, nil, 0, false
		}
	}()
	if tooOpen(text) {
		return false
	}
	parser := parsers.Get().(*syntax.Parser)
	file, err := parser.Parse(strings.NewReader(text), "")
	parsers.Put(parser) // one that panicked is not used again
	if err != nil {
		return false
	}
	w.list(file.Stmts, First, Then)
	return true
}

// parsers are kept because each has buffers, and a start reads a hundred thousand
// commands.
var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

func tooOpen(text string) bool {
	depth, most := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
			most = max(most, depth)
		case ')':
			depth--
		}
	}
	return most > maxOpen
}

// script judges a text that a command hands to a shell.
func (w *reader) script(text string) []effect {
	if w.depth >= maxDepth {
		return []effect{{level: "high", reason: "hides commands in commands", opaque: true}}
	}
	in := &reader{raw: text, depth: w.depth + 1}
	if !in.parse(text) {
		if e := floor(text); e.level != "" {
			e.opaque = true
			return []effect{e}
		}
		return []effect{{level: "high", reason: "runs a text that cannot be read as commands", opaque: true}}
	}
	for _, p := range in.parts {
		p.Depth++
		w.in = append(w.in, p)
	}
	w.inner += in.more
	w.opaque = w.opaque || in.opaque
	return in.does
}

func (w *reader) list(stmts []*syntax.Stmt, first, rest string) {
	for i, s := range stmts {
		joint := rest
		if i == 0 {
			joint = first
		}
		w.stmt(s, joint)
	}
}

var joints = map[syntax.BinCmdOperator]string{syntax.AndStmt: And, syntax.OrStmt: Or, syntax.Pipe: Pipe, syntax.PipeAll: Pipe}

func (w *reader) stmt(s *syntax.Stmt, joint string) {
	if s == nil {
		return
	}
	if s.Background && (joint == First || joint == Then) {
		joint = Background
	}
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		from := len(w.does)
		w.stmt(c.X, joint)
		if joints[c.Op] == Pipe {
			fed, piped := w.fed, w.piped
			w.fed, w.piped = slices.Clone(w.does[min(from, len(w.does)):]), true
			w.stmt(c.Y, Pipe)
			w.fed, w.piped = fed, piped
		} else {
			w.stmt(c.Y, joints[c.Op])
		}
	case *syntax.Subshell:
		w.list(c.Stmts, joint, Then)
	case *syntax.Block:
		w.list(c.Stmts, joint, Then)
	case *syntax.IfClause:
		for b := c; b != nil; b = b.Else {
			w.list(b.Cond, joint, Then)
			w.list(b.Then, Branch, Branch)
			joint = Branch
		}
	case *syntax.WhileClause:
		w.list(c.Cond, joint, Then)
		w.list(c.Do, Loop, Loop)
	case *syntax.ForClause:
		w.inside(c.Loop)
		w.list(c.Do, Loop, Loop)
	case *syntax.CaseClause:
		w.inside(c.Word)
		for _, item := range c.Items {
			w.list(item.Stmts, Branch, Branch)
		}
	case *syntax.FuncDecl:
		w.stmt(c.Body, Function)
		if c.Name == nil {
			break
		}
		if n := c.Name.Value; slices.Contains(readers, n) || programs[n] != nil {
			w.note([]effect{{level: "high", reason: "gives a known command another meaning", do: "give " + n + " another meaning"}})
		}
	case *syntax.TimeClause:
		w.stmt(c.Stmt, joint)
	case *syntax.CoprocClause:
		w.stmt(c.Stmt, Background)
	case *syntax.CallExpr:
		w.call(s, c, joint)
		return
	case nil:
		w.add(s, joint, w.redirects(s))
		w.inside(s)
		return
	default: // declarations, tests and sums
		does := append([]effect{{level: "low", reason: "only computes"}}, w.redirects(s)...)
		w.add(s, joint, does)
		w.inside(s)
		return
	}
	// Of a group the redirections are a matter of their own.
	if does := w.redirects(s); len(does) > 0 {
		w.note(does)
		for _, r := range s.Redirs {
			w.inside(r)
		}
	}
}

func (w *reader) call(s *syntax.Stmt, c *syntax.CallExpr, joint string) {
	words := make([]word, 0, len(c.Args))
	for _, a := range c.Args {
		words = append(words, w.word(a))
	}
	var does []effect
	if len(words) == 0 {
		does = append(does, effect{level: "low", reason: "only sets variables"})
	} else {
		does = w.judge(words, w.input(s))
	}
	does = append(does, w.redirects(s)...)
	for _, a := range c.Assigns {
		if a.Name != nil && slices.Contains(takeovers, a.Name.Value) {
			does = append(does, effect{level: "high", reason: "changes which code other programs run", do: "set " + a.Name.Value})
		}
	}
	w.add(s, joint, does)
	w.inside(s)
}

// takeovers are variables by which one command makes another run something else.
var takeovers = []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "GIT_SSH_COMMAND", "GIT_SSH", "BASH_ENV", "PROMPT_COMMAND", "PYTHONSTARTUP", "NODE_OPTIONS", "GIT_EXTERNAL_DIFF"}

// add lists a part with what it does.
func (w *reader) add(s *syntax.Stmt, joint string, does []effect) {
	text := w.raw[s.Pos().Offset():end(s)]
	first := ""
	if call, ok := s.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 {
		first = w.word(call.Args[0]).text
	}
	if w.piped || !slices.Contains(sayers, first) || strings.ContainsAny(text, "$`") {
		if e := floor(text); e.level != "" && Rank(e.level) > Rank(worst(does).level) {
			does = append(does, e)
		}
	}
	if worst(does).level == "" {
		does = append(does, effect{level: "medium", reason: runs})
	}
	w.does = append(w.does, does...)
	shown, _ := hitl.Visible(text)
	bad := worst(does)
	w.put(Part{Text: shown, Joint: joint, Level: bad.level, Reason: bad.reason, does: does})
	for _, p := range w.in {
		w.put(p)
	}
	w.more += w.inner
	w.in, w.inner = nil, 0
}

// put lists a part, or counts it.
func (w *reader) put(p Part) {
	if len(w.parts) == maxParts || w.more > 0 || len(w.parts) > 0 && w.room+len(p.Text) > maxList {
		w.more++
		return
	}
	w.room += len(p.Text)
	w.parts = append(w.parts, p)
}

// sayers print or look for their words and do not run them.
var sayers = []string{"echo", "printf", "grep", "rg", "git"}

// note adds effects to the last part.
func (w *reader) note(does []effect) {
	w.does = append(w.does, does...)
	n := len(w.parts) - 1
	for n > 0 && w.parts[n].Depth > 0 {
		n--
	}
	if n >= 0 && w.more == 0 {
		p := &w.parts[n]
		p.does = append(p.does, does...)
		bad := worst(p.does)
		p.Level, p.Reason = bad.level, bad.reason
	}
}

// inside walks over the commands whose output a part takes.
func (w *reader) inside(n syntax.Node) {
	if !strings.ContainsAny(w.raw, "$`(") {
		return // it takes nothing, and the walk is long
	}
	fed, piped := w.fed, w.piped
	w.fed, w.piped = nil, false
	top := n
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			w.list(n.Stmts, Inside, Inside)
			return false
		case *syntax.ProcSubst:
			w.list(n.Stmts, Inside, Inside)
			return false
		case *syntax.Stmt:
			return syntax.Node(n) == top
		}
		return true
	})
	w.fed, w.piped = fed, piped
}

// end is where a statement ends on its line: the body of a here-document comes
// after the rest of that line.
func end(s *syntax.Stmt) uint {
	out := s.Pos().Offset()
	if s.Cmd != nil {
		out = max(out, s.Cmd.End().Offset())
	}
	for _, r := range s.Redirs {
		if r.Word != nil {
			out = max(out, r.Word.End().Offset())
		}
	}
	return out
}

// word is an argument as the program gets it, as far as the text tells.
type word struct {
	text string
	open bool // a part of it is known only when it runs
	glob bool // stands for the names of files
	subs bool // holds a substitution
}

func (w *reader) word(s *syntax.Word) (out word) {
	if lit := s.Lit(); lit != "" && !strings.ContainsAny(lit, `\*?[{`) {
		return word{text: lit} // as most are
	}
	var b strings.Builder
	var walk func(parts []syntax.WordPart, quoted bool)
	walk = func(parts []syntax.WordPart, quoted bool) {
		for _, p := range parts {
			switch p := p.(type) {
			case *syntax.Lit:
				if !quoted && strings.ContainsAny(p.Value, "*?[{") {
					out.glob = true
				}
				b.WriteString(unescape(p.Value, quoted))
			case *syntax.SglQuoted:
				if p.Dollar && strings.Contains(p.Value, `\`) {
					out.open = true
				}
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				walk(p.Parts, true)
			default:
				out.open = true
				switch p.(type) {
				case *syntax.CmdSubst, *syntax.ProcSubst:
					out.subs = true
				}
				b.WriteString(w.raw[p.Pos().Offset():p.End().Offset()])
			}
		}
	}
	walk(s.Parts, false)
	out.text = b.String()
	return out
}

// unescape takes away the backslashes that the shell takes away.
func unescape(s string, quoted bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("$`\"\\\n", s[i+1]) >= 0) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// feed is what a command reads from its standard input.
type feed struct {
	given  bool     // it reads something that is not a terminal or a file
	text   string   // of a here-document or here-string
	open   bool     // that text is not known whole
	before []effect // what the commands do that write it
}

func (w *reader) input(s *syntax.Stmt) (in feed) {
	in.given, in.before = w.piped, w.fed
	for _, r := range s.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in.given, in.before = true, nil
			if r.Hdoc != nil {
				body := w.word(r.Hdoc)
				in.text, in.open = body.text, body.open
			}
		case syntax.WordHdoc:
			body := w.word(r.Word)
			in.given, in.text, in.open, in.before = true, body.text, body.open, nil
		case syntax.RdrIn:
			in.given, in.before = true, nil
			in.open = true
		}
	}
	return in
}

// redirects judges what is written by redirection.
func (w *reader) redirects(s *syntax.Stmt) (out []effect) {
	for _, r := range s.Redirs {
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrAll, syntax.AppAll, syntax.RdrClob:
			to := w.word(r.Word)
			if e := writes(to); e.level != "" {
				out = append(out, e)
			}
		}
	}
	return out
}

// name is a word for a sentence: visible, on one line and not longer than a
// headline can bear. The whole stands in the command.
func name(s string) string {
	s, _ = hitl.Visible(strings.Join(strings.Fields(s), " "))
	if utf8.RuneCountInString(s) <= 60 {
		return s
	}
	r := []rune(s)
	return string(r[:28]) + " … " + string(r[len(r)-28:])
}

// names lists words for a sentence.
func names(words []word) string {
	const most = 3
	var out []string
	for _, w := range words {
		out = append(out, name(w.text))
	}
	if len(out) > most+1 {
		return strings.Join(out[:most], ", ") + " and " + number(len(out)-most) + " more"
	}
	return listed(out)
}

func listed(out []string) string {
	if len(out) < 2 {
		return strings.Join(out, "")
	}
	return strings.Join(out[:len(out)-1], ", ") + " and " + out[len(out)-1]
}
