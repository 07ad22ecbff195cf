package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// whole are the stages whose tests nobody may skip: they are the proof that the
// product works as a whole.
var whole = []string{"e2e", "browser"}

type stageResult struct {
	stage
	tests   []test
	closing []string
	broken  string // why the record cannot be believed
}

func (s stageResult) count(want status) (n int) {
	for _, t := range s.tests {
		if t.status == want {
			n++
		}
	}
	return n
}

// problem says why a stage failed beyond its failed tests; empty if it did not.
func (s stageResult) problem(strict bool) string {
	switch {
	case s.absent():
		if strict {
			return "the suite is not in the tree"
		}
		return ""
	case s.broken != "":
		return s.broken
	case s.kind != kindStep && s.count(passed)+s.count(failed) == 0:
		return fmt.Sprintf("no test was executed (exit code %d)", s.exit)
	case s.exit != 0 && s.count(failed) == 0:
		return fmt.Sprintf("exit code %d", s.exit)
	}
	return ""
}

type report struct {
	stages  []stageResult
	allowed map[string]string
	strict  bool
}

// write prints the report and says whether the run is good.
func (r report) write(out io.Writer) bool {
	good := true
	total := map[status]int{}
	fmt.Fprintf(out, "\n%-12s %9s %7s %8s %8s\n", "stage", "executed", "failed", "skipped", "seconds")
	for _, s := range r.stages {
		switch {
		case s.absent():
			fmt.Fprintf(out, "%-12s absent\n", s.name)
		case s.kind == kindStep:
			fmt.Fprintf(out, "%-12s %9s %7s %8s %8d\n", s.name, "-", "-", "-", s.seconds)
		default:
			fmt.Fprintf(out, "%-12s %9d %7d %8d %8d\n", s.name, s.count(passed)+s.count(failed), s.count(failed), s.count(skipped), s.seconds)
		}
		for _, st := range []status{passed, failed, skipped} {
			total[st] += s.count(st)
		}
	}
	for _, s := range r.stages {
		for _, t := range s.tests {
			if t.status == failed {
				good = false
				fmt.Fprintf(out, "FAILED   %s: %s%s\n", s.name, t.name, detail(t.reason))
			}
		}
		if why := s.problem(r.strict); why != "" {
			good = false
			total[failed]++
			fmt.Fprintf(out, "FAILED   stage %s: %s\n", s.name, why)
		}
	}
	if !r.writeSkips(out) {
		good = false
	}
	if total[passed]+total[failed] == 0 {
		good = false
		fmt.Fprintln(out, "FAILED   nothing was executed")
	}
	for _, s := range r.stages {
		if len(s.closing) > 0 {
			fmt.Fprintf(out, "\n%s:\n", s.name)
		}
		for _, line := range s.closing {
			fmt.Fprintln(out, line)
		}
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", total[passed], total[failed], total[skipped])
	return good
}

// writeSkips lists every skip with its reason and refuses those that are not
// allowed. An allowance that nothing used is only mentioned: a skip may depend
// on the machine.
func (r report) writeSkips(out io.Writer) bool {
	good := true
	unused := maps.Clone(r.allowed)
	for _, s := range r.stages {
		for _, t := range s.tests {
			if t.status != skipped {
				continue
			}
			why, ok := r.allowed[t.name]
			delete(unused, t.name)
			switch {
			case slices.Contains(whole, s.name):
				good = false
				fmt.Fprintf(out, "SKIPPED  %s: %s%s; an end-to-end test is never skipped\n", s.name, t.name, detail(t.reason))
			case !ok:
				good = false
				fmt.Fprintf(out, "SKIPPED  %s: %s%s; not on the list of allowed skips\n", s.name, t.name, detail(t.reason))
			default:
				fmt.Fprintf(out, "SKIPPED  %s: %s%s; allowed: %s\n", s.name, t.name, detail(t.reason), why)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		fmt.Fprintf(out, "note     allowed skip %s was not used\n", name)
	}
	return good
}

func detail(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
