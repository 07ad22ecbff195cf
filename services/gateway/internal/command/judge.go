package command

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/banksman/banksman/services/gateway/internal/command/paths"
)

func number(n int) string { return strconv.Itoa(n) }

// args are what a command got, sorted out.
type args struct {
	all   []word // without the program
	flags []string
	rest  []word // what is no flag, in order
}

func sortOut(words []word) args {
	a := args{all: words, rest: make([]word, 0, len(words))}
	flags := true
	for _, w := range words {
		switch {
		case flags && w.text == "--":
			flags = false
		case flags && len(w.text) > 1 && w.text[0] == '-':
			a.flags = append(a.flags, w.text)
		default:
			a.rest = append(a.rest, w)
		}
	}
	return a
}

// has reports whether one of these flags is there: "-x" also inside of "-axe",
// "--long" also as "--long=value".
func (a args) has(flags ...string) bool {
	for _, have := range a.flags {
		for _, f := range flags {
			short := len(f) == 2 && f[0] == '-' && f[1] != '-'
			switch {
			case have == f, strings.HasPrefix(have, f+"=") && !short:
				return true
			case short && have[1] != '-' && strings.IndexByte(have[1:], f[1]) >= 0:
				return true
			}
		}
	}
	return false
}

// value is what follows a flag, as the next word or behind "=".
func (a args) value(flags ...string) (word, bool) {
	for i, w := range a.all {
		for _, f := range flags {
			if w.text == f && i+1 < len(a.all) {
				return a.all[i+1], true
			}
			if v, ok := strings.CutPrefix(w.text, f+"="); ok {
				return word{text: v, open: w.open}, true
			}
		}
	}
	return word{}, false
}

// verb is the n-th word that is no flag.
func (a args) verb(n int) string {
	if n < len(a.rest) {
		return a.rest[n].text
	}
	return ""
}

func (a args) from(n int) []word { return a.rest[min(n, len(a.rest)):] }

func one(level, reason, do string, gone bool) []effect {
	return []effect{{level: level, reason: reason, do: do, gone: gone}}
}

var shells = []string{"sh", "bash", "zsh", "dash", "ksh", "fish", "ash"}

// interpreters run what their standard input says.
var interpreters = append([]string{"python", "python3", "perl", "ruby", "node", "php", "deno", "bun"}, shells...)

// judge tells what one command does.
func (w *reader) judge(words []word, in feed) []effect {
	does := w.judged(words, in)
	w.opaque = w.opaque || slices.ContainsFunc(does, func(e effect) bool { return e.opaque })
	return does
}

func (w *reader) judged(words []word, in feed) []effect {
	if w.nests++; w.nests > maxNests {
		w.nests--
		return []effect{{level: "high", reason: "hides commands in commands", do: "run commands in commands", opaque: true}}
	}
	defer func() { w.nests-- }()
	prog := words[0]
	if prog.open || prog.glob && prog.text != "[" && prog.text != "[[" {
		return []effect{{level: "high", reason: "which program it runs is known only when it runs", do: "run a program that is not named", opaque: true}}
	}
	p := path.Base(prog.text)
	a := sortOut(words[1:])
	if inner, prefix := wrapped(p, a); inner != nil {
		if len(inner) == 0 {
			return one("high", "runs with other rights", "become another user", false)
		}
		return asOther(prefix, w.judge(inner, in), inner)
	}
	if slices.Contains(interpreters, p) {
		return w.interpreter(p, a, in)
	}
	switch p {
	case "eval":
		return w.text(a.all, " ")
	case "trap":
		if len(a.rest) > 1 {
			return w.text(a.rest[:1], "")
		}
	case "source", ".":
		if len(a.rest) > 0 && a.rest[0].subs {
			return []effect{{level: "high", reason: "runs what a command gives", do: "run a script that a command gives", opaque: true}}
		}
		return one("medium", "runs a script", "run the script "+names(a.from(0)[:min(1, len(a.rest))]), false)
	case "xargs", "parallel":
		if inner := afterFlags(a.all, "-I", "-n", "-P", "-d", "-L", "-a", "-s", "-E", "-j"); len(inner) > 0 {
			does := w.judge(append(slices.Clone(inner), word{text: "all that it is given", open: true}), feed{})
			if slices.Contains(interpreters, path.Base(inner[0].text)) {
				does = append(does, effect{level: "high", reason: "runs what it is given as commands", opaque: true})
			}
			return does
		}
	case "find":
		return w.find(a)
	case "ssh":
		return w.ssh(a, in)
	case "docker", "podman", "nerdctl":
		return w.docker(p, a, in)
	case "kubectl", "oc":
		return w.kubectl(a, in)
	}
	if f := programs[p]; f != nil {
		if does := f(a, in); len(does) > 0 {
			return does
		}
	}
	if sqlPrograms[p] {
		return sql(p, a, in)
	}
	if slices.Contains(readers, p) {
		return reads(p, a)
	}
	for _, x := range a.rest {
		if paths.IsSecret(x.text) {
			return one("high", "handles what is meant to stay secret", "use "+name(x.text), false)
		}
	}
	if strings.HasPrefix(p, "mkfs") {
		return one("critical", "erases whole disks", "make a new file system on "+orThe(a.rest, "a disk"), true)
	}
	return one("medium", runs, "", false)
}

// wrappers only run another command; with the flags that have a value.
var wrappers = map[string][]string{
	"sudo": {"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U"}, "doas": {"-u", "-C"}, "pkexec": {"--user"}, "runuser": {"-u"},
	"env": {"-u", "-C", "-S"}, "nohup": {}, "nice": {"-n"}, "ionice": {"-c", "-n"}, "command": {}, "exec": {"-a"}, "builtin": {}, "time": {"-f", "-o"},
	"timeout": {"-s", "-k"}, "stdbuf": {"-i", "-o", "-e"}, "setsid": {}, "unbuffer": {}, "caffeinate": {}, "watch": {"-n"}, "chroot": {}, "flock": {},
	"busybox": {}, "systemd-run": {"-p", "-u"}, "su": {},
}

// wrapped is the command inside a command that only runs another. inner is nil
// where p is none of these.
func wrapped(p string, a args) (inner []word, prefix string) {
	flags, ok := wrappers[p]
	if !ok {
		return nil, ""
	}
	rest := afterFlags(a.all, flags...)
	switch p {
	case "sudo", "doas", "pkexec", "runuser":
		prefix = "as root"
		if u, ok := a.value("-u", "--user"); ok {
			prefix = "as " + name(u.text)
		}
		if len(rest) == 0 {
			return []word{}, prefix
		}
	case "su":
		if v, ok := a.value("-c", "--command"); ok {
			return []word{{text: "sh"}, {text: "-c"}, v}, "as root"
		}
		return []word{}, ""
	case "command":
		if a.has("-v", "-V") {
			return nil, ""
		}
	case "env":
		for len(rest) > 0 && strings.Contains(rest[0].text, "=") {
			rest = rest[1:]
		}
		if v, ok := a.value("-S", "--split-string"); ok {
			return []word{{text: "sh"}, {text: "-c"}, v}, ""
		}
	case "timeout", "chroot", "flock":
		rest = rest[min(1, len(rest)):]
	}
	for len(rest) > 0 && strings.Contains(rest[0].text, "=") && prefix != "" {
		rest = rest[1:] // sudo A=b program
	}
	if len(rest) == 0 {
		return nil, ""
	}
	return rest, prefix
}

// afterFlags are the words from the first that is neither a flag nor the value
// of one of these flags.
func afterFlags(words []word, with ...string) []word {
	for i := 0; i < len(words); i++ {
		t := words[i].text
		switch {
		case t == "--":
			return words[i+1:]
		case len(t) < 2 || t[0] != '-':
			return words[i:]
		case slices.Contains(with, t):
			i++
		}
	}
	return nil
}

func asOther(prefix string, does []effect, inner []word) []effect {
	if prefix == "" {
		return does
	}
	out := slices.Clone(does)
	named := false
	for i := range out {
		if out[i].do != "" {
			out[i].do += " " + prefix
			named = true
		}
		if Rank(out[i].level) < Rank("high") {
			out[i].level, out[i].reason = "high", "runs with other rights"
		}
	}
	if !named {
		out = append(out, effect{level: "high", reason: "runs with other rights", do: "run " + name(inner[0].text) + " " + prefix})
	}
	return out
}

// interpreter is a shell or a language with a program given as text, as a file
// or on its standard input.
func (w *reader) interpreter(p string, a args, in feed) []effect {
	shell := slices.Contains(shells, p)
	for i, arg := range a.all {
		t := arg.text
		given := len(t) > 1 && t[0] == '-' && t[1] != '-' && (shell && strings.HasSuffix(t, "c") || !shell && slices.Contains([]string{"-c", "-e", "-r", "-E"}, t)) ||
			!shell && (t == "--eval" || t == "eval" && (p == "deno" || p == "bun"))
		if given && i+1 < len(a.all) {
			if shell {
				return w.text(a.all[i+1:i+2], "")
			}
			return code(p, a.all[i+1])
		}
	}
	if len(a.rest) > 0 && a.rest[0].text != "-" && !a.has("-s") {
		if a.rest[0].subs {
			return downloads(p, nil, a.rest[0].text)
		}
		return one("medium", "runs a script", "run the script "+name(a.rest[0].text), false)
	}
	switch {
	case in.text != "" && shell && !in.open:
		return w.script(in.text)
	case in.text != "" && !in.open:
		return code(p, word{text: in.text})
	case in.given:
		return downloads(p, in.before, "")
	}
	return one("medium", runs, "", false)
}

// downloads is a program whose text comes from another command.
func downloads(p string, before []effect, text string) []effect {
	does := given(p, before, text)
	does[0].opaque = true
	return does
}

func given(p string, before []effect, text string) []effect {
	for _, e := range before {
		if host, ok := strings.CutPrefix(e.do, "talk to "); ok {
			return one("high", "runs what it downloads", "run what it downloads from "+host, false)
		}
	}
	if strings.Contains(text, "curl") || strings.Contains(text, "wget") {
		return one("high", "runs what it downloads", "run what it downloads", false)
	}
	return one("high", "runs what another command gives", "run what it is given as "+p+" commands", false)
}

// text is a script that is put together of words.
func (w *reader) text(words []word, sep string) []effect {
	var all []string
	for _, x := range words {
		if x.subs {
			return downloads("shell", nil, x.text)
		}
		if x.open {
			return append(w.script(x.text), effect{level: "high", reason: "runs a text that is known only when it runs", opaque: true})
		}
		all = append(all, x.text)
	}
	return w.script(strings.Join(all, sep))
}

var deletes = regexp.MustCompile(`rmtree|unlink|os\.remove|rm_rf|rmSync|rmdirSync|unlinkSync|rm -rf|File\.delete|Remove-Item`)

func code(p string, text word) []effect {
	does := one("medium", "runs code that is not read here", "run "+p+" code", false)
	if deletes.MatchString(text.text) {
		does = one("high", "deletes files for good", "run "+p+" code that deletes files", true)
	}
	does[0].opaque = true
	return does
}

func (w *reader) find(a args) []effect {
	where := []word{}
	for _, x := range a.all {
		if strings.HasPrefix(x.text, "-") || x.text == "(" || x.text == "!" {
			break
		}
		where = append(where, x)
	}
	below := " below " + orThe(where, "the current directory")
	for i, x := range a.all {
		switch x.text {
		case "-delete":
			if slices.ContainsFunc(where, func(x word) bool { return x.text != "." && paths.Whole(x.text) }) {
				return deleted(where, "delete what it finds"+below)
			}
			return deleted(nil, "delete what it finds"+below)
		case "-exec", "-execdir", "-ok", "-okdir":
			var inner []word
			for _, y := range a.all[i+1:] {
				if y.text == ";" || y.text == "+" {
					break
				}
				if y.text == "{}" {
					y = word{text: "what it finds" + below, open: true}
				}
				inner = append(inner, y)
			}
			if len(inner) > 0 {
				does := w.judge(inner, feed{})
				for i := range does {
					if does[i].gone && slices.ContainsFunc(where, func(x word) bool { return x.text != "." && paths.Whole(x.text) }) {
						does[i].level, does[i].reason = "critical", "deletes a whole tree for good"
					}
				}
				return does
			}
		case "-fprint", "-fprintf", "-fls", "-fprint0":
			return one("medium", "writes a file", "", false)
		}
	}
	return one("low", "only reads", "", false)
}

func (w *reader) ssh(a args, in feed) []effect {
	rest := afterFlags(a.all, "-p", "-i", "-l", "-o", "-F", "-J", "-L", "-R", "-D", "-E", "-b", "-c", "-m", "-O", "-Q", "-S", "-W", "-w")
	if len(rest) == 0 {
		return one("medium", "talks to the network", "", false)
	}
	host := name(rest[0].text)
	out := one("medium", "talks to the network", "run commands on "+host, false)
	var inner []effect
	switch {
	case len(rest) > 1:
		inner = w.text(rest[1:], " ")
	case in.text != "":
		inner = w.script(in.text)
	case in.given:
		inner = downloads("shell", in.before, "")
	}
	for _, e := range inner {
		if Rank(e.level) < Rank("high") {
			continue
		}
		if e.do != "" {
			e.do += " on " + host
		}
		out = append(out, e)
	}
	return out
}

// writes judges what is written over or into.
func writes(to word) effect {
	t := to.text
	switch {
	case to.open && !strings.HasPrefix(t, "/"):
		return effect{level: "medium", reason: "writes a file whose name is known only when it runs"}
	case t == "/dev/null" || t == "/dev/stdout" || t == "/dev/stderr" || t == "/dev/tty" || strings.HasPrefix(t, "/dev/fd/"):
		return effect{}
	case strings.HasPrefix(t, "/dev/tcp/") || strings.HasPrefix(t, "/dev/udp/"):
		return effect{level: "high", reason: "sends data to the network", do: "send data to " + name(strings.TrimPrefix(t, "/dev/tcp/"))}
	case strings.HasPrefix(t, "/dev/"):
		return effect{level: "critical", reason: "writes to whole disks", do: "overwrite " + name(t), gone: true}
	case paths.Sensitive.MatchString(t):
		return effect{level: "high", reason: "changes a file that other programs trust", do: "write to " + name(t)}
	case paths.System(t):
		return effect{level: "high", reason: "changes a file of the system", do: "write to " + name(t)}
	}
	return effect{level: "medium", reason: "writes a file", do: "write " + name(t)}
}

// deleted is the deletion of targets.
func deleted(targets []word, do string) []effect {
	e := effect{level: "high", reason: "deletes files for good", do: do, gone: true}
	for _, t := range targets {
		switch {
		case paths.Whole(t.text):
			e.level, e.reason = "critical", "deletes a whole tree for good"
			return []effect{e}
		case t.open:
			e.reason = "deletes files for good, and which ones is known only when it runs"
		}
	}
	return []effect{e}
}

func orThe(words []word, otherwise string) string {
	if len(words) == 0 {
		return otherwise
	}
	return names(words)
}

// readers only look. What they look at may still be a secret.
var readers = strings.Fields("ls cat pwd head tail wc grep egrep fgrep echo printf which type whereis whoami id uname df du stat file cut tr nl diff cmp comm column basename dirname realpath readlink true false test [ cd pushd popd sleep seq jq md5sum sha256sum sha1sum cksum ps free uptime help ag groups wait exit return break continue set shopt export unset local declare shift : jobs umask clear")

func reads(p string, a args) []effect {
	unknown := false
	for _, x := range a.all {
		if paths.Sensitive.MatchString(x.text) || paths.IsSecret(x.text) {
			return one("high", "reads what is meant to stay secret", "read "+name(x.text), false)
		}
		unknown = unknown || x.open && slices.Contains([]string{"cat", "head", "tail", "grep", "egrep", "fgrep", "jq", "diff", "cut"}, p)
	}
	if unknown {
		return one("medium", "reads what is known only when it runs", "", false)
	}
	return one("low", "only reads", "", false)
}
