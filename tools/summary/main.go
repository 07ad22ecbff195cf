// Command summary ends a test run: it reads what the runners recorded, lists
// every failed and every skipped test with its reason, repeats the runners' own
// closing lines and prints one total. It exits 1 when a test or a stage failed,
// when a skip is not on the list of allowed ones, when an end-to-end test was
// skipped, or when a runner executed nothing.
//
// The directory it reads holds stages.tsv (name, kind, exit code, seconds; one
// stage a line) and, for a stage NAME of another kind than step, NAME.json with
// the runner's own record and NAME.log with what it printed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", ".cache/test", "directory with the records of this run")
	allow := flag.String("allow", "tools/allowed-skips.txt", "tests that may be skipped: name, tab, reason")
	strict := flag.Bool("strict", false, "an absent suite fails the run")
	flag.Parse()
	ok, err := run(os.Stdout, *dir, *allow, *strict)
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(out io.Writer, dir, allowFile string, strict bool) (bool, error) {
	stages, err := readStages(filepath.Join(dir, "stages.tsv"))
	if err != nil {
		return false, err
	}
	allowed, err := readAllowed(allowFile)
	if err != nil {
		return false, err
	}
	r := report{allowed: allowed, strict: strict}
	for _, s := range stages {
		r.stages = append(r.stages, loadStage(dir, s))
	}
	return r.write(out), nil
}

// loadStage reads the record of one stage. A record that cannot be read is a
// failure of its stage, not of the summary, so that the rest is still shown.
func loadStage(dir string, s stage) stageResult {
	res := stageResult{stage: s}
	if s.absent() || s.kind == kindStep {
		return res
	}
	f, err := os.Open(filepath.Join(dir, s.name+".json"))
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) || s.exit == 0 {
			res.broken = fmt.Sprintf("no record: %v", err)
		}
		return res
	}
	defer func() { _ = f.Close() }()
	switch s.kind {
	case kindGo:
		res.tests, err = readGo(f)
	case kindVitest:
		res.tests, err = readVitest(f)
	case kindPlaywright:
		res.tests, err = readPlaywright(f)
	}
	if err != nil {
		res.broken = fmt.Sprintf("unreadable record: %v", err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, s.name+".log")); err == nil {
		res.closing = closingLines(s.kind, string(raw))
	}
	return res
}
