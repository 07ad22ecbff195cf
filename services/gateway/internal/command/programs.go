package command

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/banksman/banksman/services/gateway/internal/command/paths"
)

// programs tell what they do by their arguments. Nothing means: no more than
// that it runs.
var programs map[string]func(args, feed) []effect

func init() {
	programs = map[string]func(args, feed) []effect{
		"banksman": func(a args, _ feed) []effect {
			if slices.Contains([]string{"decide", "answer", "login"}, a.verb(0)) {
				return one("critical", "decides on the agent's own requests", "decide on the agent's own requests", false)
			}
			if a.verb(0) == "notify" && a.verb(1) == "claim" {
				return one("critical", "keeps people from being told of the agent's own requests", "keep people from being told", false)
			}
			return nil
		},
		"rm": rm, "rmdir": rm, "unlink": rm, "git": git, "dd": dd, "chmod": chmod, "chown": chown, "chgrp": chown, "curl": curl, "wget": curl,
		"shred": func(a args, _ feed) []effect {
			return deleted(a.rest, "destroy "+orThe(a.rest, "files"))
		},
		"wipefs": disk("erase the signatures of"),
		"fdisk":  disk("change the partitions of"),
		"sfdisk": disk("change the partitions of"),
		"sgdisk": disk("change the partitions of"),
		"parted": disk("change the partitions of"),
		"truncate": func(a args, _ feed) []effect {
			return deleted(nil, "cut off "+orThe(afterFlags(a.all, "-s", "-r"), "files"))
		},
		"mv": func(a args, _ feed) []effect {
			if len(a.rest) == 0 {
				return nil
			}
			to := a.rest[len(a.rest)-1]
			if to.text == "/dev/null" {
				return deleted(a.rest[:len(a.rest)-1], "delete "+names(a.rest[:len(a.rest)-1])+" for good")
			}
			return changed(to, "moves files", "move "+orThe(a.rest[:len(a.rest)-1], "files")+" to "+name(to.text))
		},
		"cp": func(a args, _ feed) []effect {
			if len(a.rest) < 2 {
				return nil
			}
			for _, x := range a.rest[:len(a.rest)-1] {
				if paths.IsSecret(x.text) {
					return one("high", "reads what is meant to stay secret", "copy "+name(x.text), false)
				}
			}
			return changed(a.rest[len(a.rest)-1], "writes a file", "")
		},
		"ln": func(a args, _ feed) []effect {
			if len(a.rest) == 0 {
				return nil
			}
			return changed(a.rest[len(a.rest)-1], "writes a file", "")
		},
		"tee": func(a args, _ feed) (out []effect) {
			for _, to := range a.rest {
				if e := writes(to); e.level != "" {
					out = append(out, e)
				}
			}
			return out
		},
		"sed": func(a args, _ feed) []effect {
			if !a.has("-i", "--in-place") || len(a.rest) == 0 {
				return nil
			}
			return changed(a.rest[len(a.rest)-1], "changes a file", "change "+name(a.rest[len(a.rest)-1].text))
		},
		"kill": kill, "pkill": kill, "killall": kill,
		"shutdown": stop, "reboot": stop, "halt": stop, "poweroff": stop,
		"systemctl": func(a args, _ feed) []effect {
			if v := a.verb(0); slices.Contains([]string{"stop", "restart", "disable", "mask", "kill", "reboot", "poweroff", "isolate", "enable", "start"}, v) {
				return one("high", "changes services of the machine", strings.TrimSpace(v+" "+orThe(a.from(1), "the machine")), false)
			}
			return nil
		},
		"crontab": func(a args, _ feed) []effect {
			switch {
			case a.has("-l"):
				return one("low", "only reads", "", false)
			case a.has("-r"):
				return one("high", "changes what runs by itself", "delete all that runs by the clock", true)
			}
			return one("high", "changes what runs by itself", "change what runs by the clock", false)
		},
		"at":       always("high", "changes what runs by itself", "let something run later"),
		"iptables": always("high", "changes the firewall", "change the firewall"),
		"nft":      always("high", "changes the firewall", "change the firewall"),
		"ufw":      always("high", "changes the firewall", "change the firewall"),
		"useradd":  always("high", "changes who may sign in", "change who may sign in"),
		"userdel":  always("high", "changes who may sign in", "change who may sign in"),
		"usermod":  always("high", "changes who may sign in", "change who may sign in"),
		"passwd":   always("high", "changes who may sign in", "change a password"),
		"nc":       netcat, "ncat": netcat, "netcat": netcat,
		"scp": always("medium", "talks to the network", ""),
		"rsync": func(a args, _ feed) []effect {
			if a.has("--delete", "--delete-after", "--delete-before", "--delete-excluded", "--remove-source-files") && len(a.rest) > 0 {
				return one("high", "deletes files for good", "delete in "+name(a.rest[len(a.rest)-1].text)+" what its source does not have", true)
			}
			return one("medium", "talks to the network", "", false)
		},
		"terraform": terraform, "tofu": terraform, "terragrunt": terraform,
		"pulumi": func(a args, f feed) []effect {
			if v := a.verb(0); v == "destroy" || v == "up" {
				return terraform(args{rest: []word{{text: map[string]string{"destroy": "destroy", "up": "apply"}[v]}}}, f)
			}
			return nil
		},
		"helm": func(a args, _ feed) []effect {
			switch v := a.verb(0); v {
			case "uninstall", "delete":
				return one("high", "changes shared systems", "uninstall "+orThe(a.from(1), "a release")+" from the cluster", true)
			case "install", "upgrade", "rollback":
				return one("high", "changes shared systems", v+" "+orThe(a.from(1)[:min(1, len(a.from(1)))], "a release")+" in the cluster", false)
			}
			return nil
		},
		"aws": aws, "gcloud": cloud, "az": cloud, "doctl": cloud, "flyctl": cloud, "fly": cloud, "heroku": cloud, "gsutil": cloud, "vercel": cloud, "wrangler": cloud,
		"npm": npm, "yarn": npm, "pnpm": npm,
		"npx": func(a args, _ feed) []effect {
			return one("medium", "may download what it runs", "run the package "+orThe(a.from(0)[:min(1, len(a.rest))], "that is named"), false)
		},
		"cargo": publisher("publish"), "twine": publisher("upload"), "gem": publisher("push"), "poetry": publisher("publish"), "uv": publisher("publish"),
		"gh": func(a args, _ feed) []effect {
			what := a.verb(0) + " " + a.verb(1)
			switch {
			case a.verb(1) == "delete" || a.has("--delete-branch"):
				return one("high", "deletes on GitHub", "delete the "+a.verb(0)+" "+orThe(a.from(2), "that is named")+" on GitHub", true)
			case slices.Contains([]string{"pr merge", "release create", "workflow run", "secret set"}, what):
				return one("high", "changes what others use", map[string]string{"pr merge": "merge the pull request ", "release create": "release ", "workflow run": "run the workflow ", "secret set": "set the secret "}[what]+orThe(a.from(2)[:min(1, len(a.from(2)))], "of this branch")+" on GitHub", false)
			}
			if m, ok := a.value("-X", "--method"); ok && a.verb(0) == "api" && m.text != "GET" {
				return one("high", "changes what others use", "send "+name(m.text)+" to GitHub", false)
			}
			return one("medium", "talks to the network", "", false)
		},
		"apt": installer, "apt-get": installer, "yum": installer, "dnf": installer, "apk": installer, "brew": installer, "pip": installer, "pip3": installer, "pacman": installer, "snap": installer,
	}
}

func always(level, reason, do string) func(args, feed) []effect {
	return func(args, feed) []effect { return one(level, reason, do, false) }
}

func disk(do string) func(args, feed) []effect {
	return func(a args, _ feed) []effect {
		if a.has("-l", "--list") {
			return nil
		}
		return one("critical", "writes to whole disks", do+" "+orThe(a.rest[:min(1, len(a.rest))], "a disk"), true)
	}
}

func changed(to word, reason, do string) []effect {
	if e := writes(to); Rank(e.level) >= Rank("high") {
		return []effect{e}
	}
	return one("medium", reason, do, false)
}

func rm(a args, _ feed) []effect {
	if a.has("--help", "--version") {
		return nil
	}
	do := "delete " + orThe(a.rest, "files") + " for good"
	does := deleted(a.rest, do)
	if !a.has("-r", "-R", "-f", "--recursive", "--force") && does[0].level == "high" && !slices.ContainsFunc(a.rest, func(w word) bool { return w.open || w.glob }) {
		does[0].level = "medium"
	}
	return does
}

// gitPrograms are settings that name a program.
var gitPrograms = regexp.MustCompile(`(?i)^(core\.(sshcommand|editor|pager|fsmonitor|hookspath)|.*\.(helper|textconv|command|cmd|program))=`)

func git(a args, _ feed) []effect {
	// Settings come before the verb and can name programs.
	for i, x := range a.all {
		if x.text == "-c" && i+1 < len(a.all) {
			if v := a.all[i+1].text; strings.Contains(v, "!") || gitPrograms.MatchString(v) {
				return one("high", "runs a program that is given as a setting", "run a program that is given as a setting of git", false)
			}
		}
	}
	rest := afterFlags(a.all, "-c", "-C", "--git-dir", "--work-tree", "--exec-path", "--namespace")
	if len(rest) == 0 {
		return nil
	}
	verb, b := rest[0].text, sortOut(rest[1:])
	if rest[0].open {
		return one("high", "which program it runs is known only when it runs", "", false)
	}
	switch verb {
	case "push":
		return gitPush(b)
	case "status", "diff", "log", "show", "blame", "ls-files", "rev-parse", "describe", "shortlog", "grep", "ls-tree", "cat-file", "rev-list", "merge-base", "name-rev":
		if b.has("--output", "--ext-diff", "-O", "--open-files-in-pager") {
			return one("medium", runs, "", false)
		}
		return one("low", "only reads", "", false)
	case "reset":
		if b.has("--hard") {
			return one("high", "throws away local work", "throw away local changes", true)
		}
	case "clean":
		if b.has("-f", "--force") {
			return one("high", "throws away local work", "delete files that git does not keep", true)
		}
	case "checkout", "restore", "switch":
		if b.has("-f", "--force", "--discard-changes") || verb == "restore" && !b.has("--staged", "-S") || slices.ContainsFunc(b.all, func(w word) bool { return w.text == "--" || w.text == "." }) {
			return one("high", "throws away local work", "throw away local changes in "+orThe(b.rest, "the working tree"), true)
		}
	case "branch", "tag":
		if b.has("-D", "-d", "--delete") {
			return one("high", "deletes a "+verb, "delete the "+verb+" "+orThe(b.rest, "that is named"), true)
		}
	case "stash":
		if v := b.verb(0); v == "drop" || v == "clear" {
			return one("high", "throws away local work", "throw away stashed changes", true)
		}
	case "filter-branch", "filter-repo":
		return one("high", "rewrites history", "rewrite the history of this repository", true)
	case "reflog", "gc", "prune":
		if b.verb(0) == "expire" || b.has("--prune") || verb == "prune" {
			return one("high", "throws away local work", "throw away what git keeps for undoing", true)
		}
	case "config":
		if b.has("--global", "--system") {
			return one("high", "changes settings of all repositories", "change git's settings of all repositories", false)
		}
	case "clone", "fetch", "pull", "ls-remote":
		return one("medium", "talks to the network", "", false)
	case "commit":
		return one("medium", "commits changes", "", false)
	}
	return nil
}

func gitPush(b args) []effect {
	remote, refs := "", b.from(0)
	if len(refs) > 0 {
		remote, refs = " to "+name(refs[0].text), refs[1:]
	}
	forced := b.has("-f", "--force", "--force-with-lease", "--force-if-includes", "--mirror", "--prune")
	var gone, plain []word
	for _, r := range refs {
		switch t := r.text; {
		case strings.HasPrefix(t, ":"):
			r.text = t[1:]
			gone = append(gone, r)
		case strings.HasPrefix(t, "+"):
			r.text, forced = t[1:], true
			plain = append(plain, r)
		default:
			plain = append(plain, r)
		}
	}
	if b.has("-d", "--delete") {
		gone, plain = append(gone, plain...), nil
	}
	if len(gone) > 0 {
		return one("high", "deletes a published branch", "delete "+names(gone)+strings.Replace(remote, " to ", " on ", 1), true)
	}
	what := orThe(plain, "the current branch")
	if b.has("--all", "--mirror") {
		what = "all branches"
	}
	if forced {
		return one("high", "rewrites a published branch", "force-push "+what+remote, true)
	}
	return one("medium", "publishes commits", "push "+what+remote, false)
}

func dd(a args, _ feed) []effect {
	for _, x := range a.all {
		if to, ok := strings.CutPrefix(x.text, "of="); ok {
			e := writes(word{text: to, open: x.open})
			if e.level == "critical" {
				return []effect{e}
			}
			return append(one("high", "writes blocks over a file", "overwrite "+name(to), true), e)
		}
	}
	return nil
}

var openToAll = regexp.MustCompile(`^(0?[0-7]?[0-7][0-7][2367]|[ugoa]*[oa][ugoa]*[+=][rxXst]*w.*|\+.*w.*)$`)

var setuid = regexp.MustCompile(`^[4-7][0-7]{3}$`)

func chmod(a args, _ feed) []effect {
	mode, targets := a.verb(0), orThe(a.from(1), "files")
	if a.has("-R", "--recursive") {
		targets = "all below " + targets
	}
	switch {
	case openToAll.MatchString(mode):
		return one("high", "opens files to everybody", "open "+targets+" to everybody", false)
	case strings.Contains(mode, "s") && strings.Contains(mode, "+") || setuid.MatchString(mode):
		return one("high", "lets a program run with the rights of its owner", "let "+targets+" run with its owner's rights", false)
	case a.has("-R", "--recursive") && slices.ContainsFunc(a.from(1), func(w word) bool { return paths.Whole(w.text) || paths.System(w.text) }):
		return one("high", "changes rights of the system", "change the rights of "+targets, false)
	}
	return one("medium", "changes rights of files", "change the rights of "+targets, false)
}

func chown(a args, _ feed) []effect {
	targets := orThe(a.from(1), "files")
	if a.has("-R", "--recursive") {
		targets = "all below " + targets
	}
	level := "medium"
	if slices.ContainsFunc(a.from(1), func(w word) bool { return paths.Whole(w.text) || paths.System(w.text) }) {
		level = "high"
	}
	return one(level, "changes who owns files", "change who owns "+targets, false)
}

func curl(a args, _ feed) []effect {
	host := "the network"
	for _, x := range a.rest {
		if u, err := url.Parse(x.text); err == nil && u.Host != "" && !x.open {
			host = name(u.Hostname())
			break
		}
	}
	method, _ := a.value("-X", "--request", "--method")
	m := strings.ToUpper(method.text)
	switch {
	case m == "DELETE":
		return one("high", "deletes on another machine", "delete on "+host, true)
	case a.has("-T", "--upload-file", "-F", "--form", "--post-file", "--body-file") || hasFileData(a):
		return one("high", "sends files to another machine", "send files to "+host, false)
	case a.has("-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--json", "--post-data") || m != "" && m != "GET" && m != "HEAD":
		return append(one("medium", "sends data to another machine", "send data to "+host, false), effect{level: "medium", reason: "talks to the network", do: "talk to " + host})
	}
	return one("medium", "talks to the network", "talk to "+host, false)
}

func hasFileData(a args) bool {
	for _, f := range []string{"-d", "--data", "--data-binary", "--data-urlencode", "--json"} {
		if v, ok := a.value(f); ok && strings.Contains(v.text, "@") && !strings.Contains(v.text, "{") {
			return true
		}
	}
	return false
}

func kill(a args, _ feed) []effect {
	if slices.ContainsFunc(a.all, func(w word) bool { return w.text == "-1" }) && len(a.rest) == 0 {
		return one("high", "ends programs", "end all programs", false)
	}
	return one("medium", "ends programs", "end "+orThe(a.rest, "programs"), false)
}

func stop(a args, _ feed) []effect {
	return one("high", "stops the machine", "stop the machine", false)
}

func netcat(a args, _ feed) []effect {
	if a.has("-e", "-c", "--exec", "--sh-exec") {
		return one("high", "opens a shell to the network", "open a shell to the network", false)
	}
	return one("medium", "talks to the network", "talk to "+orThe(a.rest[:min(1, len(a.rest))], "the network"), false)
}

func terraform(a args, _ feed) []effect {
	v := a.verb(0)
	switch {
	case v == "destroy" || v == "apply" && a.has("-destroy"):
		return one("high", "changes shared systems", "destroy everything that this plan manages", true)
	case v == "apply":
		return one("high", "changes shared systems", "apply changes to shared systems", false)
	case v == "state" && (a.verb(1) == "rm" || a.verb(1) == "mv"), v == "import", v == "taint", v == "force-unlock":
		return one("high", "changes shared systems", "change what Terraform knows of shared systems", false)
	}
	return nil
}

func npm(a args, _ feed) []effect {
	switch v := a.verb(0); v {
	case "publish":
		return one("high", "publishes a package for everybody", "publish "+orThe(a.from(1), "this package")+" for everybody", true)
	case "unpublish", "deprecate":
		return one("high", "takes a package from everybody", v+" "+orThe(a.from(1), "this package"), true)
	case "install", "i", "add", "ci":
		return one("medium", "installs packages and runs their scripts", "", false)
	case "dlx", "exec":
		return one("medium", "may download what it runs", "", false)
	}
	return nil
}

func publisher(verb string) func(args, feed) []effect {
	return func(a args, _ feed) []effect {
		if a.verb(0) == verb {
			return one("high", "publishes a package for everybody", "publish this package for everybody", true)
		}
		return nil
	}
}

func installer(a args, _ feed) []effect {
	switch v := a.verb(0); v {
	case "remove", "purge", "uninstall", "autoremove", "erase":
		return one("high", "removes software", "remove "+orThe(a.from(1), "software"), false)
	case "install", "add", "upgrade", "dist-upgrade", "update":
		return one("medium", "installs software", "", false)
	}
	return nil
}
