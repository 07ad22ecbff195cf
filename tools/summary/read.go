package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const modulePrefix = "github.com/banksman/banksman/"

// Kinds of stages: a plain step has no tests of its own.
const (
	kindStep       = "step"
	kindGo         = "gotest"
	kindVitest     = "vitest"
	kindPlaywright = "playwright"
)

type stage struct {
	name, kind string
	exit       int // -1: the suite is not in the tree
	seconds    int
}

func (s stage) absent() bool { return s.exit < 0 }

type status string

const (
	passed  status = "passed"
	failed  status = "failed"
	skipped status = "skipped"
)

// test is one executed or skipped test. Its name is unique in the repository:
// package or file, then the test.
type test struct {
	name   string
	status status
	reason string // of a skip, or of a failure that is no test's own
}

func readStages(path string) ([]stage, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read stages: %w", err)
	}
	var stages []stage
	for n, line := range strings.Split(strings.TrimRight(string(raw), "\n"), "\n") {
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("%s:%d: want name, kind, exit code and seconds, got %q", path, n+1, line)
		}
		exit, err := strconv.Atoi(f[2])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: exit code: %w", path, n+1, err)
		}
		seconds, err := strconv.Atoi(f[3])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: seconds: %w", path, n+1, err)
		}
		switch f[1] {
		case kindStep, kindGo, kindVitest, kindPlaywright:
		default:
			return nil, fmt.Errorf("%s:%d: unknown kind %q", path, n+1, f[1])
		}
		stages = append(stages, stage{name: f[0], kind: f[1], exit: exit, seconds: seconds})
	}
	return stages, nil
}

// readAllowed reads the list of tests that may be skipped. Blank lines and
// lines that begin with # say nothing. Each entry needs a reason.
func readAllowed(path string) (map[string]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read allowed skips: %w", err)
	}
	allowed := map[string]string{}
	for n, line := range strings.Split(string(raw), "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, "\t")
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s:%d: %q has no reason (name, tab, reason)", path, n+1, name)
		}
		allowed[name] = strings.TrimSpace(reason)
	}
	return allowed, nil
}

// goEvent is the part of a test2json record that counts here.
type goEvent struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// readGo reads what gotestsum --jsonfile wrote. A test that began and never
// ended has failed, and so has a package that failed without a failed test:
// one that does not build, panics, times out or leaks.
func readGo(r io.Reader) ([]test, error) {
	type key struct{ pkg, test string }
	type state struct {
		status status
		output strings.Builder
	}
	states := map[key]*state{}
	var order []key
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		var e goEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if e.Package == "" {
			continue // build output, repeated in the failure of its package
		}
		k := key{e.Package, e.Test}
		s := states[k]
		if s == nil {
			s = &state{}
			states[k] = s
			order = append(order, k)
		}
		switch e.Action {
		case "output":
			s.output.WriteString(e.Output)
		case "pass":
			s.status = passed
		case "fail":
			s.status = failed
		case "skip":
			s.status = skipped
		}
	}
	var tests []test
	failedIn := map[string]bool{}
	for _, k := range order {
		if k.test == "" {
			continue
		}
		s := states[k]
		t := test{name: short(k.pkg) + "." + k.test, status: s.status}
		switch s.status {
		case "":
			t.status, t.reason = failed, "began and never ended"
		case skipped:
			t.reason = skipReason(s.output.String())
		}
		if t.status == failed {
			failedIn[k.pkg] = true
		}
		tests = append(tests, t)
	}
	for _, k := range order {
		if k.test == "" && (states[k].status == failed || states[k].status == "") && !failedIn[k.pkg] {
			tests = append(tests, test{name: short(k.pkg), status: failed, reason: "the package failed outside its tests"})
		}
	}
	return tests, nil
}

func short(pkg string) string { return strings.TrimPrefix(pkg, modulePrefix) }

var goFrame = regexp.MustCompile(`^\s*(===|---) `)

// skipReason takes the text of t.Skip out of a test's output.
func skipReason(output string) string {
	var kept []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" && !goFrame.MatchString(line) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, " ")
}

// readVitest reads the report of vitest's json reporter.
func readVitest(r io.Reader) ([]test, error) {
	var doc struct {
		TestResults *[]struct {
			Name             string
			Status           string
			Message          string
			AssertionResults []struct {
				FullName string
				Status   string
				Meta     struct{ Reason string }
			}
		}
	}
	if err := json.NewDecoder(r).Decode(&doc); err != nil {
		return nil, err
	}
	if doc.TestResults == nil {
		return nil, errors.New("testResults is missing")
	}
	var tests []test
	for _, file := range *doc.TestResults {
		base := filepath.Base(file.Name)
		fails := 0
		for _, a := range file.AssertionResults {
			t := test{name: base + ": " + strings.TrimSpace(a.FullName)}
			switch a.Status {
			case "passed":
				t.status = passed
			case "skipped", "pending", "todo", "disabled":
				t.status, t.reason = skipped, a.Status
				if a.Meta.Reason != "" {
					t.reason = a.Meta.Reason
				}
			default:
				t.status = failed
				fails++
			}
			tests = append(tests, t)
		}
		if file.Status == "failed" && fails == 0 {
			first, _, _ := strings.Cut(strings.TrimSpace(file.Message), "\n")
			tests = append(tests, test{name: base, status: failed, reason: first})
		}
	}
	return tests, nil
}

// pwSuite is a file of Playwright's json reporter, or a describe block in it.
type pwSuite struct {
	Title  string
	File   string
	Suites []pwSuite
	Specs  []struct {
		Title string
		Tests []struct {
			Status      string // the whole test's, after all its runs
			Annotations []struct{ Type, Description string }
		}
	}
}

// readPlaywright reads the report of Playwright's json reporter. A test that
// passed when it was run again has passed; the closing lines call it flaky.
func readPlaywright(r io.Reader) ([]test, error) {
	var doc struct {
		Suites *[]pwSuite
		Errors []struct{ Message string }
	}
	if err := json.NewDecoder(r).Decode(&doc); err != nil {
		return nil, err
	}
	if doc.Suites == nil {
		return nil, errors.New("suites is missing")
	}
	var tests []test
	var walk func(s pwSuite, path string)
	walk = func(s pwSuite, path string) {
		for _, spec := range s.Specs {
			for _, run := range spec.Tests {
				t := test{name: path + ": " + spec.Title, status: failed}
				switch run.Status {
				case "expected", "flaky":
					t.status = passed
				case "skipped":
					t.status, t.reason = skipped, "skipped"
					for _, a := range run.Annotations {
						if a.Description != "" {
							t.reason = a.Description
						}
					}
				}
				tests = append(tests, t)
			}
		}
		for _, sub := range s.Suites {
			walk(sub, path+": "+sub.Title)
		}
	}
	for _, file := range *doc.Suites {
		walk(file, filepath.Base(file.File))
	}
	for _, e := range doc.Errors {
		first, _, _ := strings.Cut(strings.TrimSpace(ansi.ReplaceAllString(e.Message, "")), "\n")
		tests = append(tests, test{name: "outside of the tests", status: failed, reason: first})
	}
	return tests, nil
}

var (
	ansi       = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	goDone     = regexp.MustCompile(`^DONE .*\btests?\b`)
	vitestDone = regexp.MustCompile(`^\s*(Test Files|Tests)\s+`)
	pwDone     = regexp.MustCompile(`^\s*\d+ (passed|failed|flaky|skipped|interrupted|did not run)\b`)
)

// closingLines finds the lines with which a runner sums itself up.
func closingLines(kind, log string) []string {
	pattern := goDone
	switch kind {
	case kindVitest:
		pattern = vitestDone
	case kindPlaywright:
		pattern = pwDone
	}
	var found []string
	for line := range strings.Lines(ansi.ReplaceAllString(log, "")) {
		if line = strings.TrimRight(line, "\r\n"); pattern.MatchString(line) {
			found = append(found, line)
		}
	}
	return found
}
