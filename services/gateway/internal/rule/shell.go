package rule

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what is taken apart; whatever is beyond goes to people.
const (
	maxCommand = 4 << 10 // bytes
	maxParts   = 16
	maxWords   = 64
	maxWord    = 512 // bytes
)

// part is one simple command of a text.
type part struct {
	words []string
	piped bool // it reads what another part writes
}

// parts takes a shell text apart into simple commands of literal words. It is nil
// where the text has anything else: an expansion, a redirection, an assignment, a
// comment, a line break, a job in the background, a pattern for file names, a
// character beyond ASCII. What a shell other than bash could read in another way is
// refused as well.
func parts(text string) []part {
	if text == "" || len(text) > maxCommand || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
	if err != nil || len(file.Last) > 0 {
		return nil
	}
	var out []part
	for _, s := range file.Stmts {
		if !flatten(s, false, &out) {
			return nil
		}
	}
	if len(out) == 0 || len(out) > maxParts {
		return nil
	}
	return out
}

func flatten(s *syntax.Stmt, piped bool, out *[]part) bool {
	if len(s.Comments) > 0 || s.Negated || s.Background || s.Coprocess || s.Disown {
		return false
	}
	for _, r := range s.Redirs {
		if !harmless(r) {
			return false
		}
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(cmd.Assigns) > 0 || len(cmd.Args) == 0 || len(cmd.Args) > maxWords {
			return false
		}
		p := part{piped: piped}
		for _, w := range cmd.Args {
			text, ok := literal(w)
			if !ok {
				return false
			}
			p.words = append(p.words, text)
		}
		if !plainName(p.words[0]) {
			return false
		}
		*out = append(*out, p)
		return true
	case *syntax.BinaryCmd:
		if len(s.Redirs) > 0 {
			return false
		}
		switch cmd.Op {
		case syntax.AndStmt, syntax.OrStmt:
			// Both sides read what the whole reads.
			return flatten(cmd.X, piped, out) && flatten(cmd.Y, piped, out)
		case syntax.Pipe:
			return flatten(cmd.X, piped, out) && flatten(cmd.Y, true, out)
		}
	}
	return false
}

// harmless lets output go to where it goes anyway, or nowhere.
func harmless(r *syntax.Redirect) bool {
	if r.N != nil && r.N.Value != "1" && r.N.Value != "2" || r.Hdoc != nil || r.Word == nil {
		return false
	}
	to, ok := literal(r.Word)
	switch r.Op {
	case syntax.DplOut:
		return ok && (to == "1" || to == "2")
	case syntax.RdrOut, syntax.RdrAll:
		return ok && to == "/dev/null"
	}
	return false
}

// literal is what a word says, if every shell reads it as it stands.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for i, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsFunc(p.Value, func(r rune) bool { return !bare(r) }) || i == 0 && strings.HasPrefix(p.Value, "=") {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", false
			}
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok || strings.ContainsAny(lit.Value, "\\$`!") {
					return "", false
				}
				b.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	text := b.String()
	return text, len(text) <= maxWord
}

// bare reports whether a character means itself outside of quotes, in every shell.
func bare(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:@%+,=-", r)
}

// plainName reports whether a word can name a program.
func plainName(s string) bool {
	return s != "" && !strings.HasPrefix(s, "-") && !strings.ContainsFunc(s, func(r rune) bool { return !bare(r) || r == '=' })
}

// changers are commands that change what the next ones do: they are no part of a
// longer command that a rule lets through.
var changers = strings.Fields(`. - : alias autoload bg bind bindkey break builtin caller cd chdir command compdef complete compopt
	continue coproc declare dirs disable disown do done emulate enable esac eval exec exit export fc fg fi float function functions getopts
	hash history if in integer jobs let limit local logout mapfile nocorrect noglob popd print printf pushd pushln read readarray readonly
	rehash repeat return sched select set setopt shift shopt source suspend then time times trap type typeset ulimit umask unalias unfunction
	unhash unlimit unset unsetopt until vared wait while zcompile zle zmodload zparseopts zstyle`)

// filters only read what is piped into them: whatever that is, they run nothing.
var filters = strings.Fields("cat column cut egrep fgrep grep head jq nl rg sort tail tr uniq wc")

// reach is what names after it cannot make into something else: programs that only
// read, or do what is asked for with the names alone. Where a program has commands
// it is those that are listed; some of them run tests, which agents write.
var reach = map[string][]string{
	"basename": nil, "cat": nil, "cmp": nil, "df": nil, "diff": nil, "dirname": nil, "du": nil, "echo": nil, "file": nil, "grep": nil,
	"head": nil, "ls": nil, "md5sum": nil, "mkdir": nil, "nl": nil, "readlink": nil, "realpath": nil, "rg": nil, "sha256sum": nil,
	"stat": nil, "tail": nil, "touch": nil, "tree": nil, "wc": nil,
	"cargo": {"build", "check", "clippy", "test"},
	"git":   {"add", "blame", "diff", "log", "ls-files", "rev-parse", "show", "status"},
	"go":    {"build", "list", "test", "vet"},
	"npm":   {"test"},
}

// fixed is the part of a command that stays where names after it are free; nil
// where none may be.
func fixed(words []string) []string {
	subs, ok := reach[words[0]]
	n := 1
	if subs != nil {
		n = 2
	}
	if !ok || len(words) < n || subs != nil && !slices.Contains(subs, words[1]) || !operands(words[n:]) {
		return nil
	}
	return words[:n]
}

// operands reports whether words are names inside the folder that a command runs
// in, and no options.
func operands(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool {
		return w == "" || w[0] == '-' || w[0] == '+' || w[0] == '/' || slices.Contains(strings.Split(w, "/"), "..")
	})
}

// quote is a command of these words as a shell takes it.
func quote(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if q, err := syntax.Quote(w, syntax.LangBash); err == nil {
			out[i] = q
		}
	}
	return strings.Join(out, " ")
}
