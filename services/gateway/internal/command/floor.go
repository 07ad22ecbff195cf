package command

import (
	"regexp"
	"slices"
	"strings"
)

type rule struct {
	// words are cheap to look for: re matches only where one of them stands.
	words  []string
	re     *regexp.Regexp
	level  string
	reason string
	gone   bool // cannot be undone
}

func (r *rule) matches(command string, has *letters) bool {
	return slices.ContainsFunc(r.words, func(w string) bool { return has.all(w) && strings.Contains(command, w) }) && r.re.MatchString(command)
}

// letters are the bytes of a text: most words are not in it because one of theirs is not.
type letters [256]bool

func lettersOf(text string) *letters {
	var l letters
	for i := range len(text) {
		l[text[i]] = true
	}
	return &l
}

func (l *letters) all(word string) bool {
	for i := range len(word) {
		if !l[word[i]] {
			return false
		}
	}
	return true
}

var shellRules = []rule{
	{[]string{"banksman"}, regexp.MustCompile(`\bbanksman\s+(decide|answer|login)\b`), "critical", "decides on the agent's own requests", false},
	{[]string{"banksman"}, regexp.MustCompile(`\bbanksman\s+notify\s.*\bclaim\b`), "critical", "keeps people from being told of the agent's own requests", false},
	{[]string{"rm"}, regexp.MustCompile(`\brm\s+(-\S*\s+)*-\S*[rRf]`), "high", "deletes files for good", true},
	{[]string{"git"}, regexp.MustCompile(`\bgit\s+push\b.*(--force|-f\b|\+)`), "high", "rewrites a published branch", true},
	{[]string{"git"}, regexp.MustCompile(`\bgit\s+(reset\s+--hard|clean\s+-\S*f)`), "high", "throws away local work", true},
	{[]string{"su", "doas"}, regexp.MustCompile(`\b(sudo|doas|su)\b`), "high", "runs with other rights", false},
	{[]string{"curl", "wget"}, regexp.MustCompile(`\b(curl|wget)\b[^|;&]*\|\s*(sudo\s+)?(ba|z|da)?sh\b`), "high", "runs what it downloads", false},
	{[]string{"mkfs", "dd", "shred", "fdisk", "parted"}, regexp.MustCompile(`\b(mkfs|dd|shred|fdisk|parted)\b`), "high", "writes to whole disks", true},
	{[]string{"kubectl", "terraform", "drop"}, regexp.MustCompile(`\b(kubectl\s+delete|terraform\s+(apply|destroy)|drop\s+(table|database))\b`), "high", "changes shared systems", false},
	{[]string{"chmod"}, regexp.MustCompile(`\bchmod\s+(-\S+\s+)*777\b`), "high", "opens files to everybody", false},
	{[]string{"curl", "wget", "ssh", "scp", "rsync", "nc"}, regexp.MustCompile(`\b(curl|wget|ssh|scp|rsync|nc)\b`), "medium", "talks to the network", false},
	{[]string{"git"}, regexp.MustCompile(`\bgit\s+push\b`), "medium", "publishes commits", false},
}

// floor is what the words of a text look like, where it cannot be read as
// commands or a command is not known. No level where they look like nothing.
func floor(text string) (out effect) {
	has := lettersOf(text)
	for i := range shellRules {
		rule := &shellRules[i]
		if (out.level == "" || Rank(rule.level) > Rank(out.level)) && rule.matches(text, has) {
			out = effect{level: rule.level, reason: rule.reason, gone: rule.gone}
		}
	}
	return out
}
