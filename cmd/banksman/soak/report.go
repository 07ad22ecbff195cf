package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/proof"
	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"
)

// Report is what a run did and found.
type Report struct {
	Options
	*proof.Judgement
	Began    time.Time
	Took     time.Duration // of the clients
	Settling time.Duration // until nothing was left to do, and the audit
	Checking time.Duration // of the histories
	Server   string
	Commit   string // of the product and the soak, which are one binary
	Counts   *counters
	Kept     int      // left open on purpose
	Fell     []string // parts that ended by themselves
	Errors   []error
	Dir      string // kept if there are Errors
	File     string // the smallest history without an order
}

// commit is what this binary was built of; go run leaves it out unless told.
func commit() string {
	at, edited := "unknown (built without -buildvcs=true)", ""
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return at
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			at = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			edited = ", edited"
		}
	}
	return at + edited
}

// Text is the report for a terminal.
func (r *Report) Text(w io.Writer) {
	fmt.Fprintf(w, "\nseed %d, %d interactions, %d at a time, %s, clients %s, settling %s, check %s of %d operations\n",
		r.Seed, r.Interactions, r.Concurrency, r.Durability, r.Took.Round(time.Second), r.Settling.Round(100*time.Millisecond),
		r.Checking.Round(time.Millisecond), r.Ops)
	for _, name := range r.Counts.names() {
		fmt.Fprintf(w, "  %-32s %d\n", name, r.Counts.get(name))
	}
	for _, o := range slices.Sorted(maps.Keys(r.Outcomes)) {
		fmt.Fprintf(w, "  %-32s %d\n", "record: "+string(o), r.Outcomes[o])
	}
	fmt.Fprintf(w, "  %-32s %d\n", "record: left open on purpose", r.Kept)
	fmt.Fprintf(w, "  %-32s %d stored, %d without effect\n", "attempts of unknown outcome", r.Resolved, r.Void)
	for _, f := range r.Fell {
		fmt.Fprintln(w, "  ended by itself and was started again:", f)
	}
	for i, err := range r.Errors {
		if i == 20 {
			fmt.Fprintf(w, "  WRONG: and %d more\n", len(r.Errors)-i)
			break
		}
		fmt.Fprintln(w, "  WRONG:", err)
	}
	if r.File != "" {
		fmt.Fprintln(w, "  the history is in", r.File, "and, as a page, beside it")
	}
	if len(r.Errors) > 0 {
		fmt.Fprintln(w, "  logs and streams are in", r.Dir)
		return
	}
	fmt.Fprintln(w, "  every history has an order, and the record is what the clients were told")
}

// Markdown is the section of docs/benchmarks.md.
func (r *Report) Markdown(w io.Writer) {
	count := func(prefix string) int {
		n := 0
		for _, name := range r.Counts.names() {
			if strings.HasPrefix(name, prefix) {
				n += r.Counts.get(name)
			}
		}
		return n
	}
	outcomes := make([]string, 0, len(r.Outcomes))
	for _, o := range slices.Sorted(maps.Keys(r.Outcomes)) {
		outcomes = append(outcomes, fmt.Sprintf("%s %d", o, r.Outcomes[o]))
	}
	var faults []string
	for _, name := range r.Counts.names() {
		if what, ok := strings.CutPrefix(name, "fault: "); ok {
			faults = append(faults, fmt.Sprintf("%s %d", what, r.Counts.get(name)))
		}
	}
	found := "nothing"
	if len(r.Errors) > 0 {
		found = fmt.Sprintf("**%d**, first: %s", len(r.Errors), r.Errors[0])
	}
	fmt.Fprintf(w, "\n%s, %d cores, %s/%s, %s, nats-server %s.\n\n| | |\n|---|---|\n",
		r.Began.UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), r.Server)
	for _, row := range [][2]string{
		{"commit", r.Commit},
		{"seed", fmt.Sprint(r.Seed)},
		{"interactions", fmt.Sprintf("%d, %d at a time", r.Interactions, r.Concurrency)},
		{"durability", string(r.Durability)},
		{"duration", fmt.Sprintf("%s, then %s until nothing was left to do", r.Took.Round(time.Second), r.Settling.Round(time.Second))},
		{"faults", cmp.Or(strings.Join(faults, ", "), "none")},
		{"killed", fmt.Sprintf("%d times a server, %d times a gateway", r.Counts.get("killed: "+rig.PartNode), r.Counts.get("killed: "+rig.PartGateway))},
		{"workers", fmt.Sprintf("%d processes, %d killed, of which %d were back in time",
			r.Counts.get("worker: started"), r.Counts.get("worker: killed"), r.Counts.get("worker: came back"))},
		{"ended by themselves", fmt.Sprint(len(r.Fell))},
		{"outcomes", strings.Join(outcomes, ", ") + fmt.Sprintf(", left open on purpose %d", r.Kept)},
		{"asks", fmt.Sprintf("%d, of which %d without an acknowledgement", count("ask: "), r.Counts.get("ask: "+proof.SawSilence))},
		{"waits", fmt.Sprintf("%d: told of a decision %d, withdrew or left %d, gave up at the deadline without one %d",
			count("await: "), count("await: ")-r.Counts.get(awaitStopped)-r.Counts.get(awaitNothing),
			r.Counts.get(awaitStopped), r.Counts.get(awaitNothing))},
		{"attempts to decide", fmt.Sprintf("%d: accepted %d, duplicate %d, already_decided %d, expired %d, not_found %d, digest_mismatch %d",
			count("decide: "), count("decide: accepted"), count("decide: duplicate"), count("decide: already_decided"),
			count("decide: expired"), count("decide: not_found"), count("decide: digest_mismatch"))},
		{"of unknown outcome", fmt.Sprintf("%d: by the record %d were the decision, %d changed nothing", r.Resolved+r.Void, r.Resolved, r.Void)},
		{"reads", fmt.Sprintf("%d of one interaction, %d lists", count("get: "), count("list: "))},
		{"operations checked", fmt.Sprintf("%d, in %s", r.Ops, r.Checking.Round(10*time.Millisecond))},
		{"found", found},
	} {
		fmt.Fprintf(w, "| %s | %s |\n", row[0], row[1])
	}
}
