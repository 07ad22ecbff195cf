package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/banksman/banksman/pkg/natsd"
)

// Report is the outcome of a run. Durations are ns.
type Report struct {
	Date       time.Time  `json:"date"`
	Host       Host       `json:"host"`
	LoadBefore string     `json:"load_before"`
	Load       []string   `json:"load"` // after each round
	Rounds     int        `json:"rounds"`
	N          int        `json:"n"`
	Decisions  int        `json:"decisions"` // asked, and each decided once
	FSync      Dist       `json:"fsync"`
	Floor      []FloorRow `json:"floor"`
	Rows       []Row      `json:"rows"`
	Goals      []Goal     `json:"goals"`
}

// FloorRow is bare request-reply.
type FloorRow struct {
	InFlight int     `json:"in_flight"`
	Trip     Dist    `json:"trip"`
	Rate     float64 `json:"rate"`
}

// Row is one way the product runs.
type Row struct {
	Durability string `json:"durability"`
	Processes  string `json:"processes"`
	InFlight   int    `json:"in_flight"`
	Trip       Dist   `json:"trip"`   // Ask called -> decision verified
	Show       Dist   `json:"show"`   // Ask called -> frame at the WebSocket client
	Answer     Dist   `json:"answer"` // client writes -> decision verified
	Cuts       int    `json:"cuts"`   // sockets cut as too slow, which came back
	// Rate is asks a second; the ratios are of medians.
	Rate           float64 `json:"rate"`
	ToFloor        float64 `json:"to_floor"`
	ToFloorAndDisk float64 `json:"to_floor_and_2_fsync"`
}

// Goal is one of what the product wants to reach.
type Goal struct {
	Row   string `json:"row"`
	Text  string `json:"text"`
	Value string `json:"value"`
	Met   bool   `json:"met"`
}

// Limits of the goals.
const (
	maxAlways  = 2.0 // times (floor + 2 fsync)
	maxRelaxed = 2.5 // times floor
	maxShow    = 10 * time.Millisecond
	maxAnswer  = 5 * time.Millisecond
)

func goals(r Row) []Goal {
	name := r.Durability + ", " + r.Processes
	trip := Goal{name, fmt.Sprintf("ask -> resumed p50 <= %.1f x (floor + 2 fsync)", maxAlways), ratio(r.ToFloorAndDisk), r.ToFloorAndDisk <= maxAlways}
	if r.Durability == string(natsd.DurabilityRelaxed) {
		trip = Goal{name, fmt.Sprintf("ask -> resumed p50 <= %.1f x floor", maxRelaxed), ratio(r.ToFloor), r.ToFloor <= maxRelaxed}
	}
	return []Goal{
		trip,
		{name, fmt.Sprintf("ask -> reader p99 < %v", maxShow), ms(r.Show.P99) + " ms", r.Show.P99 < maxShow},
		{name, fmt.Sprintf("answer -> agent p99 < %v", maxAnswer), ms(r.Answer.P99) + " ms", r.Answer.P99 < maxAnswer},
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

func ratio(f float64) string { return fmt.Sprintf("%.1f x", f) }

func rate(f float64) string { return fmt.Sprintf("%.0f", f) }

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

var head = []string{
	"durability", "processes", "in flight", "p50 ms", "p99 ms", "asks/s", "to floor", "to floor + 2 fsync",
	"ask -> reader p50 / p99", "answer -> agent p50 / p99", "cut",
}

// table is the head and all rows, the floor's after the head.
func (r *Report) table() [][]string {
	out := [][]string{head}
	for _, f := range r.Floor {
		out = append(out, []string{
			"none", "floor: NATS request-reply", fmt.Sprint(f.InFlight), ms(f.Trip.P50), ms(f.Trip.P99), rate(f.Rate),
			ratio(1), "", "", "", "",
		})
	}
	for _, x := range r.Rows {
		disk := ""
		if x.Durability == string(natsd.DurabilityAlways) {
			disk = ratio(x.ToFloorAndDisk)
		}
		out = append(out, []string{
			x.Durability, x.Processes, fmt.Sprint(x.InFlight), ms(x.Trip.P50), ms(x.Trip.P99), rate(x.Rate),
			ratio(x.ToFloor), disk, ms(x.Show.P50) + " / " + ms(x.Show.P99), ms(x.Answer.P50) + " / " + ms(x.Answer.P99), fmt.Sprint(x.Cuts),
		})
	}
	return out
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) {
	h := r.Host
	fmt.Fprintf(w, "\nask -> decision -> resumed, %s\n", r.Date.Format(time.RFC3339))
	fmt.Fprintf(w, "%s, %d cores, %s, %s, nats-server %s, %s: 1 KiB appended and fsynced in %s ms p50, %s p99\n",
		h.CPU, h.Cores, h.OS, h.Go, h.Server, h.FileSystem, ms(r.FSync.P50), ms(r.FSync.P99))
	fmt.Fprintf(w, "load average %s before, then %s; %d rounds, %d asks a row at one in flight\n\n",
		r.LoadBefore, strings.Join(r.Load, " "), r.Rounds, r.N)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range r.table() {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	fmt.Fprintln(tw)
	for _, g := range r.Goals {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", verdict(g.Met), g.Row, g.Text, g.Value)
	}
	_ = tw.Flush() // a terminal that is gone needs no report
	fmt.Fprintf(w, "\n%d asks, each with exactly one decision\n", r.Decisions)
}

// Markdown writes the rows as docs/benchmarks.md has them.
func (r *Report) Markdown(w io.Writer) {
	fmt.Fprintln(w)
	for i, row := range r.table() {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintln(w, strings.Repeat("|---", len(row))+"|")
		}
	}
	fmt.Fprintln(w, "\n| goal | row | measured | |\n|---|---|---|---|")
	for _, g := range r.Goals {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", g.Text, g.Row, g.Value, verdict(g.Met))
	}
}
