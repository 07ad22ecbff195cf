package up

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// program is how a shell on this machine, in whatever folder, calls the program that
// runs as exe in cwd: by its name where that leads to it, by "go run" where that made
// it, else by its path.
func program(exe, cwd string) string {
	if found, err := exec.LookPath("banksman"); err == nil && same(found, exe) {
		return "banksman"
	}
	// What "go run" builds is gone when it ends.
	made := strings.Contains(exe, string(filepath.Separator)+"go-build")
	if _, err := os.Stat(filepath.Join(cwd, "cmd", "banksman", "main.go")); made && err == nil {
		return "go run -C " + quoted(cwd) + " ./cmd/banksman"
	}
	return quoted(exe)
}

func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

var plainWord = regexp.MustCompile(`^[\w./@%+=:,-]+$`)

// quoted is one word of a shell.
func quoted(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
