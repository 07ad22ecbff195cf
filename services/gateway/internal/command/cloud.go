package command

import (
	"regexp"
	"slices"
	"strings"
)

func aws(a args, _ feed) []effect {
	rest := afterFlags(a.all, "--profile", "--region", "--output", "--endpoint-url", "--query")
	b := sortOut(rest)
	service, verb := b.verb(0), b.verb(1)
	target := orThe(b.from(2)[:min(2, len(b.from(2)))], "")
	if service == "s3" {
		switch {
		case verb == "rm" || verb == "rb":
			what := strings.TrimSpace("delete " + target)
			if b.has("--recursive", "--force") {
				what = "delete all of " + target
			}
			return one("high", "deletes in the cloud", what+" for good", true)
		case verb == "sync" && b.has("--delete"):
			return one("high", "deletes in the cloud", "delete what is not in its source from "+orThe(b.from(3), "a bucket"), true)
		case verb == "mv":
			return one("high", "changes shared systems", "move "+target, false)
		case verb == "ls":
			return one("medium", "reads the cloud account", "", false)
		}
		return one("medium", "talks to the network", "", false)
	}
	return cloudVerb("aws "+service, verb)
}

var (
	cloudDeletes = regexp.MustCompile(`^(delete|terminate|destroy|remove|purge|deregister|release)`)
	cloudReads   = regexp.MustCompile(`^(describe|list|get|ls|show|help|wait|head)`)
)

func cloudVerb(where, verb string) []effect {
	switch {
	case cloudDeletes.MatchString(verb):
		return one("high", "deletes in the cloud", strings.ReplaceAll(verb, "-", " ")+" ("+name(where)+")", true)
	case cloudReads.MatchString(verb), verb == "":
		return one("medium", "reads the cloud account", "", false)
	}
	return one("high", "changes shared systems", strings.ReplaceAll(name(verb), "-", " ")+" ("+name(where)+")", false)
}

// cloud is a program whose verb stands anywhere among its words.
func cloud(a args, _ feed) []effect {
	for _, x := range a.rest {
		switch x.text {
		case "delete", "destroy", "remove", "rm", "rb", "purge", "apps:destroy":
			i := slices.Index(a.rest, x)
			return one("high", "deletes in the cloud", "delete "+orThe(a.from(i + 1)[:min(2, len(a.from(i+1)))], "what is named")+" in the cloud", true)
		case "create", "update", "set", "deploy", "apply", "add-iam-policy-binding", "start", "stop", "restart", "scale", "patch", "resize", "secrets":
			return one("high", "changes shared systems", name(x.text)+" in the cloud", false)
		}
	}
	return one("medium", "talks to the network", "", false)
}

func (w *reader) kubectl(a args, in feed) []effect {
	rest := afterFlags(a.all, "-n", "--namespace", "--context", "--kubeconfig", "--cluster", "--user", "-s")
	if len(rest) == 0 {
		return one("medium", runs, "", false)
	}
	verb, b := rest[0].text, sortOut(rest[1:])
	place := " in the cluster"
	ns, named := a.value("-n", "--namespace")
	if named {
		place = " in " + name(ns.text)
	}
	c, other := a.value("--context")
	if other {
		place += " of " + name(c.text)
	}
	targets := slices.DeleteFunc(slices.Clone(b.rest), func(x word) bool {
		return named && x.text == ns.text || other && x.text == c.text
	})
	what := "what is named"
	if len(targets) > 0 {
		texts := []string{}
		for _, t := range targets[:min(4, len(targets))] {
			texts = append(texts, name(t.text))
		}
		what = strings.Join(texts, " ")
	}
	if b.has("--all") {
		what = "all " + what
	}
	switch verb {
	case "delete", "drain":
		return one("high", "changes shared systems", verb+" "+what+place, true)
	case "apply", "create", "replace", "patch", "scale", "edit", "set", "label", "annotate", "cordon", "uncordon", "taint", "expose", "autoscale", "run":
		return one("high", "changes shared systems", verb+" "+what+place, false)
	case "rollout":
		if b.verb(0) != "status" && b.verb(0) != "history" {
			return one("high", "changes shared systems", "roll out "+what+place, false)
		}
	case "exec":
		if i := slices.IndexFunc(b.all, func(x word) bool { return x.text == "--" }); i >= 0 && i+1 < len(b.all) {
			out := one("medium", "runs a command in the cluster", "", false)
			for _, e := range w.judge(b.all[i+1:], in) {
				if e.do != "" {
					e.do += place
				}
				out = append(out, e)
			}
			return out
		}
		return one("high", "runs a command in the cluster", "run a command in "+what, false)
	case "cp", "port-forward", "proxy":
		return one("medium", "talks to the cluster", "", false)
	}
	return one("medium", "reads the cluster", "", false)
}

func (w *reader) docker(p string, a args, in feed) []effect {
	rest := afterFlags(a.all, "-H", "--host", "--context", "-c", "--config")
	if len(rest) == 0 {
		return one("medium", runs, "", false)
	}
	verb, b := rest[0].text, sortOut(rest[1:])
	if slices.Contains([]string{"container", "image", "volume", "network", "system", "builder"}, verb) && len(b.rest) > 0 {
		kind, v := verb, b.verb(0)
		targets := orThe(b.from(1), "all that is unused")
		if v == "rm" || v == "prune" {
			return one("high", "deletes containers or their data", "delete "+plural(kind)+" ("+targets+")", true)
		}
		verb, b = v, sortOut(rest[2:])
	}
	switch verb {
	case "compose":
		switch {
		case b.has("-v", "--volumes") && slices.ContainsFunc(b.rest, is("down")):
			return one("high", "deletes containers or their data", "stop all services and delete their data", true)
		case slices.ContainsFunc(b.rest, is("down")), slices.ContainsFunc(b.rest, is("rm")):
			return one("medium", "stops services", "stop all services", false)
		}
		return one("medium", runs, "", false)
	case "rm", "rmi":
		return one("high", "deletes containers or their data", "delete "+map[string]string{"rm": "the container ", "rmi": "the image "}[verb]+orThe(b.rest, "that is named"), true)
	case "push":
		return one("high", "publishes an image", "publish the image "+orThe(b.rest, "that is named"), false)
	case "run", "create", "exec":
		out := one("medium", "runs a container", "", false)
		for _, x := range b.all {
			if x.text == "--privileged" || strings.Contains(x.text, "docker.sock") || strings.HasPrefix(x.text, "/:/") || strings.Contains(x.text, "=/:/") || x.text == "--pid=host" || x.text == "--network=host" {
				out = append(out, effect{level: "high", reason: "opens this machine to the container", do: "run a container that may change this machine"})
				break
			}
		}
		inner := afterFlags(b.all, "-e", "-v", "-p", "-w", "-u", "--name", "--network", "--mount", "--entrypoint", "-l", "--env", "--volume", "--user", "--workdir", "--env-file", "--platform")
		if len(inner) > 1 {
			for _, e := range w.judge(inner[1:], in) {
				if Rank(e.level) >= Rank("high") {
					if e.do != "" {
						e.do += " in a container"
					}
					out = append(out, e)
				}
			}
		}
		return out
	}
	return one("medium", runs, "", false)
}

func plural(kind string) string {
	switch kind {
	case "system":
		return "containers, images and networks"
	case "builder":
		return "build caches"
	}
	return kind + "s"
}

func is(text string) func(word) bool { return func(w word) bool { return w.text == text } }

// sqlPrograms talk to databases.
var sqlPrograms = map[string]bool{
	"psql": true, "mysql": true, "mariadb": true, "sqlite3": true, "sqlcmd": true, "clickhouse-client": true, "mongosh": true, "mongo": true,
	"redis-cli": true, "cqlsh": true, "duckdb": true, "bq": true, "dropdb": true, "dropuser": true,
}

var sqlRules = []struct {
	re     *regexp.Regexp
	level  string
	reason string
	do     string
	gone   bool
}{
	{regexp.MustCompile(`(?i)\bdrop\s+(table|database|schema|view|index|role|user|collection|keyspace|materialized\s+view)\s+(?:if\s+exists\s+)?([\w."` + "`" + `$-]+)`), "high", "deletes in a database", "drop the $1 $2", true},
	{regexp.MustCompile(`(?i)\bdrop(Database)\b|\.(drop)\(`), "high", "deletes in a database", "drop in a database", true},
	{regexp.MustCompile(`(?i)\btruncate\s+(?:table\s+)?([\w."$-]+)`), "high", "deletes in a database", "empty the table $1", true},
	{regexp.MustCompile(`(?i)\bdelete\s+from\s+([\w."$-]+)\s*(?:;|$)`), "high", "deletes in a database", "delete every row of $1", true},
	{regexp.MustCompile(`(?i)\bdelete\s+from\s+([\w."$-]+)`), "high", "deletes in a database", "delete rows of $1", true},
	{regexp.MustCompile(`(?i)\.(deleteMany|remove|deleteOne)\(`), "high", "deletes in a database", "delete in a database", true},
	{regexp.MustCompile(`(?i)\b(flushall|flushdb)\b`), "high", "deletes in a database", "delete all keys", true},
	{regexp.MustCompile(`(?i)\bupdate\s+([\w."$-]+)\s+set\b`), "high", "changes a database", "change rows of $1", false},
	{regexp.MustCompile(`(?i)\b(alter|grant|revoke|insert\s+into|create|replace\s+into|rename)\b`), "high", "changes a database", "change the database ($1)", false},
}

func sql(p string, a args, in feed) []effect {
	if p == "dropdb" || p == "dropuser" {
		return one("high", "deletes in a database", "drop the "+strings.TrimPrefix(p, "drop")+" "+orThe(a.rest, "that is named"), true)
	}
	var texts []string
	for _, x := range a.all {
		texts = append(texts, x.text)
	}
	texts = append(texts, in.text)
	text := strings.Join(texts, "\n")
	var out []effect
	for _, rule := range sqlRules {
		m := rule.re.FindStringSubmatchIndex(text)
		if m == nil {
			continue
		}
		reason := strings.ToLower(string(rule.re.ExpandString(nil, "$1", text, m)))
		do := string(rule.re.ExpandString(nil, strings.Replace(rule.do, "$1 $2", reason+" $2", 1), text, m))
		out = append(out, effect{level: rule.level, reason: rule.reason, do: name(do), gone: rule.gone})
		if strings.HasPrefix(rule.do, "delete every row") {
			break
		}
	}
	if len(out) > 0 {
		return out
	}
	if in.given && in.text == "" || a.has("-f", "--file") {
		return one("medium", "runs statements that are not in the command", "", false)
	}
	return one("medium", "asks a database", "", false)
}
