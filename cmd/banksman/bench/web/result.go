package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/report"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/stat"
)

// result is the outcome of a run: tables of text, and goals.
type result struct {
	Date       time.Time     `json:"date"`
	Took       time.Duration `json:"took_ns"`
	Host       report.Host   `json:"host"`
	LoadBefore string        `json:"load_before"`
	Load       []string      `json:"load"` // after each round
	Checked    int           `json:"checked"`
	Failures   []string      `json:"failures,omitempty"`
	Tables     []table       `json:"tables"`
}

// note keeps what failed in a row, unless everything is to end; the others go on.
func (r *result) note(ctx context.Context, row string, err error) error {
	if err != nil && ctx.Err() == nil {
		r.Failures = append(r.Failures, row+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil
	}
	return err
}

type table struct {
	Title string     `json:"title"`
	Rows  [][]string `json:"rows"` // the first is the head
}

// The goals.
const (
	maxIdleKB     = 12.0
	maxGoroutines = 1.01 // a socket; some that are nobody's come and go
	minFanRate    = 0.9  // of the floor
	maxFanP99     = 1.2
	minBurst      = 2.0
	maxBeside     = 1.1
	maxCut        = 10 * time.Second
	maxPaint      = 150.0 // ms, p99
)

func (r *result) summarize(few, many []size, cards []painted) {
	goals := table{"Goals", [][]string{{"goal", "row", "measured", ""}}}
	goal := func(text, row, value string, met bool) {
		verdict := "missed"
		if met {
			verdict = "met"
		}
		goals.Rows = append(goals.Rows, []string{text, row, value, verdict})
	}
	names := [2]string{"gateway", "raw TCP (floor)"}
	idle := table{"Idle sockets", [][]string{{"what", "sockets", "RSS KB each", "goroutines each"}}}
	fan := table{"One event to all", [][]string{{"what", "sockets", "bytes", "deliveries/s", "p50 ms", "p99 ms", "processor us each", "rate to floor", "p99 to floor", "processor to floor"}}}
	for _, rounds := range [][]size{few, many} {
		n := rounds[0].n
		sockets := fmt.Sprintf("%d sockets", n)
		kb := func(k int) float64 { return median(rounds, func(s size) float64 { return s.rss[k] / 1024 }) }
		each := func(k int) float64 { return median(rounds, func(s size) float64 { return s.goroutines[k] }) }
		rate := median(rounds, func(s size) float64 { return ratio(s.rate[0], s.rate[1]) })
		p99 := median(rounds, func(s size) float64 { return ratio(s.p99[0], s.p99[1]) })
		for k, name := range names {
			idle.Rows = append(idle.Rows, []string{name, fmt.Sprint(n), f2(kb(k)), f2(each(k))})
			row := []string{
				name, fmt.Sprint(n), fmt.Sprint(rounds[0].bytes), f0(median(rounds, func(s size) float64 { return s.rate[k] })),
				f2(median(rounds, func(s size) float64 { return s.p50[k] })), f2(median(rounds, func(s size) float64 { return s.p99[k] })),
				f2(median(rounds, func(s size) float64 { return s.cpu[k] })), "", "", "",
			}
			if k == 0 {
				row[7], row[8], row[9] = times(rate), times(p99), times(median(rounds, func(s size) float64 { return ratio(s.cpu[0], s.cpu[1]) }))
			}
			fan.Rows = append(fan.Rows, row)
		}
		if n == many[0].n {
			goal(fmt.Sprintf("idle socket <= %.0f KB", maxIdleKB), sockets, f2(kb(0))+" KB", kb(0) <= maxIdleKB)
			goal("idle socket: 1 goroutine", sockets, f2(each(0)), each(0) <= maxGoroutines)
		}
		goal(fmt.Sprintf("fan-out rate >= %.1f x floor", minFanRate), sockets, times(rate), rate >= minFanRate)
		goal(fmt.Sprintf("fan-out p99 <= %.1f x floor", maxFanP99), sockets, times(p99), p99 <= maxFanP99)
	}
	r.Tables = append(r.Tables, idle, fan)

	n := fmt.Sprint(few[0].n)
	burst := table{fmt.Sprintf("A burst of %d events", sessions), [][]string{{"what", "sockets", "deliveries/s", "messages a socket", "rate to floor"}}}
	to := median(few, func(s size) float64 { return ratio(s.burst[0], s.burst[1]) })
	burst.Rows = append(burst.Rows,
		[]string{names[0], n, f0(median(few, func(s size) float64 { return s.burst[0] })), f2(median(few, func(s size) float64 { return s.writes })), times(to)},
		[]string{names[1] + ", one write each", n, f0(median(few, func(s size) float64 { return s.burst[1] })), fmt.Sprint(sessions), ""})
	goal(fmt.Sprintf("burst of %d >= %.0f x floor", sessions, minBurst), n+" sockets", times(to), to >= minBurst)

	beside := median(few, func(s size) float64 { return ratio(s.beside[1], s.beside[0]) })
	cut := time.Duration(median(few, func(s size) float64 { return float64(s.cut) }))
	slow := table{"One socket that stalls", [][]string{{"beside", "sockets", "p99 of the others ms", "to the other", "cut after s"}}}
	slow.Rows = append(slow.Rows,
		[]string{"one that reads", n, f2(median(few, func(s size) float64 { return s.beside[0] })), "", ""},
		[]string{"one that stalls", n, f2(median(few, func(s size) float64 { return s.beside[1] })), times(beside), f2(cut.Seconds())})
	goal(fmt.Sprintf("p99 beside one that stalls <= %.1f x", maxBeside), n+" sockets", times(beside), beside <= maxBeside)
	goal(fmt.Sprintf("who stalls is cut within %v", maxCut), n+" sockets", f2(cut.Seconds())+" s", cut <= maxCut)

	storm := table{"Everybody comes back at once", [][]string{{"sockets", "all back after s", "tries", "went on from their cursor", "lost", "doubled"}}}
	doubled, back := 0, many[0].n
	for _, s := range many {
		storm.Rows = append(storm.Rows, []string{
			fmt.Sprint(s.n), f2(time.Duration(s.storm.Took).Seconds()), fmt.Sprint(s.storm.Tries),
			fmt.Sprint(s.storm.Recovered), fmt.Sprint(s.storm.Missing), fmt.Sprint(s.storm.Doubled),
		})
		doubled, back = doubled+s.storm.Doubled, min(back, s.storm.Recovered)
	}
	goal("all recovered, 0 lost, 0 doubled", fmt.Sprintf("%d sockets", many[0].n), fmt.Sprintf("%d recovered, 0 lost, %d doubled", back, doubled), back == many[0].n && doubled == 0)
	r.Tables = append(r.Tables, burst, slow, storm)

	if len(cards) > 0 {
		of := func(q float64, k int) (all []float64) {
			for _, round := range cards {
				all = append(all, stat.Quantile(round[k], q))
			}
			return all
		}
		t := table{"Ask to painted card, Chromium", [][]string{{"page", "cards a round", "p50 ms", "p99 ms", "slowest ms", "p50 to floor", "p99 to floor"}}}
		for k, name := range []string{"the app", "a bare page (floor)"} {
			row := []string{name, fmt.Sprint(len(cards[0][k])), f2(stat.Median(of(0.5, k))), f2(stat.Median(of(0.99, k))), f2(slices.Max(of(1, k))), "", ""}
			for i, q := range []float64{0.5, 0.99} {
				var to []float64
				for j, ours := range of(q, 0) {
					to = append(to, ratio(ours, of(q, 1)[j]))
				}
				if k == 0 {
					row[5+i] = times(stat.Median(to))
				}
			}
			t.Rows = append(t.Rows, row)
		}
		p99 := stat.Median(of(0.99, 0))
		goal(fmt.Sprintf("ask -> painted card p99 < %.0f ms", maxPaint), "Chromium", f2(p99)+" ms", p99 < maxPaint)
		r.Tables = append(r.Tables, t)
	}
	r.Tables = append(r.Tables, goals)
	for _, s := range append(few, many...) {
		r.Checked += s.checked
	}
}

func f0(v float64) string    { return fmt.Sprintf("%.0f", v) }
func f2(v float64) string    { return fmt.Sprintf("%.2f", v) }
func times(v float64) string { return fmt.Sprintf("%.2f x", v) }

// about is what was measured, where and when.
func (r *result) about() string {
	h := r.Host
	text := fmt.Sprintf(`%s, %s, %d cores, %s, %s. %d rounds in %v; %d deliveries, each of them once.
Load average %s before, then %s.`, r.Date.Format(time.RFC3339), h.CPU, h.Cores, h.OS, h.Go,
		len(r.Load), r.Took, r.Checked, r.LoadBefore, strings.Join(r.Load, ", "))
	for _, f := range r.Failures {
		text += "\n\n**Failed:** " + f
	}
	return text
}

// write writes the report for a terminal, or as docs/benchmarks.md has it.
func (r *result) write(w io.Writer, markdown bool) {
	fmt.Fprintf(w, "%s\n", r.about())
	for _, t := range r.Tables {
		if markdown {
			fmt.Fprintf(w, "\n### %s\n\n", t.Title)
			for i, row := range t.Rows {
				fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
				if i == 0 {
					fmt.Fprintln(w, strings.Repeat("|---", len(row))+"|")
				}
			}
			continue
		}
		fmt.Fprintf(w, "\n%s\n", t.Title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, row := range t.Rows {
			fmt.Fprintln(tw, strings.Join(row, "\t"))
		}
		_ = tw.Flush() // a terminal that is gone needs no report
	}
}
