// Package paths knows which paths matter, by their names alone.
package paths

import (
	"regexp"
	"strings"
)

// Sensitive are paths of files that other programs trust.
var Sensitive = regexp.MustCompile(`(^|/)(\.ssh/|\.aws/|\.gnupg/|\.git/hooks/|\.bashrc|\.zshrc|\.profile|authorized_keys|crontab|\.env$)`)

var secret = regexp.MustCompile(`(^|/)\.(ssh|aws|gnupg)(/|$)|(^|/)(id_(rsa|ed25519|ecdsa|dsa)|\.netrc|\.npmrc|\.pgpass|credentials|shadow|\.kube/config|\.docker/config\.json)$|\.pem$`)

// IsSecret is the expression behind what is cheap to look for and in all that
// it finds: it is asked of each word of each command.
func IsSecret(text string) bool {
	return (strings.IndexByte(text, '.') >= 0 || strings.HasSuffix(text, "sa") || strings.HasSuffix(text, "519") || strings.HasSuffix(text, "credentials") || strings.HasSuffix(text, "shadow")) &&
		secret.MatchString(text)
}

// System reports whether a path belongs to the system.
func System(p string) bool {
	for _, dir := range []string{"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/opt", "/var", "/root", "/System", "/Library", "/sys", "/proc"} {
		if p == dir || strings.HasPrefix(p, dir+"/") && !strings.HasPrefix(p, "/var/tmp/") {
			return true
		}
	}
	return false
}

var homes = regexp.MustCompile(`^/(home|Users)/[^/]+$`)

// Whole reports whether deleting the path deletes a machine, a home or all of a
// working tree.
func Whole(p string) bool {
	clean := strings.TrimSuffix(strings.TrimSuffix(p, "*"), ".")
	if clean != "/" {
		clean = strings.TrimRight(clean, "/")
	}
	switch clean {
	case "", "/", "~", "$HOME", "${HOME}", "..", ".":
		return p != ""
	}
	return strings.HasPrefix(clean, "/") && strings.Count(clean, "/") == 1 && clean != "/tmp" && (System(clean) || clean == "/home" || clean == "/srv" || clean == "/Users") || homes.MatchString(clean)
}
