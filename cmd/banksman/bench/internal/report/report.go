// Package report is what a run of the bench found: tables, and goals with their
// verdicts.
package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/stat"
	"github.com/banksman/banksman/pkg/natsd"
)

// Row.Servers: how servers and askers run.
const (
	Embedded = "embedded"     // server, gateway and asker in one process, memory between them; as banksman up has it
	Process  = "process"      // one process each, TCP between them
	Cluster  = "cluster of 3" // three servers, each stream on all of them; gateway and asker a process each
)

// Row.What, where it is the product.
const (
	WholeRoad = "whole road" // asker, record, gateway, WebSocket client, record, asker
	BusOnly   = "bus only"   // asker, record, a decider in the gateway's place, record, asker
)

// Report is the outcome of a run. Durations are ns.
type Report struct {
	Date       time.Time     `json:"date"`
	Took       time.Duration `json:"took_ns"`
	Host       Host          `json:"host"`
	LoadBefore string        `json:"load_before"`
	Load       []string      `json:"load"` // after each round
	Rounds     int           `json:"rounds"`
	N          int           `json:"n"`
	Decisions  int           `json:"decisions"` // asked, and each decided once
	Failures   []string      `json:"failures,omitempty"`
	FSync      stat.Dist     `json:"fsync"`
	Floor      []FloorRow    `json:"floor"`
	Rows       []Row         `json:"rows"`
	Peers      []PeerRow     `json:"peers,omitempty"`
	Crowds     []CrowdRow    `json:"crowds,omitempty"`
	Goals      []Goal        `json:"goals"`
}

// FloorRow is bare request-reply.
type FloorRow struct {
	InFlight int       `json:"in_flight"`
	Trip     stat.Dist `json:"trip"`
	Rate     float64   `json:"rate"`
}

// Row is one way the product runs, or a peer.
type Row struct {
	What       string    `json:"what"`
	Servers    string    `json:"servers"`
	Durability string    `json:"durability"`
	InFlight   int       `json:"in_flight"`
	Trip       stat.Dist `json:"trip"`   // Ask called -> decision verified
	Show       stat.Dist `json:"show"`   // Ask called -> frame in the WebSocket client
	Answer     stat.Dist `json:"answer"` // client answers -> Ask returns
	Rate       float64   `json:"rate"`   // asks a second
	Cuts       int       `json:"cuts"`   // sockets cut as too slow, all rounds
	// Median p50 divided by the floor's with as many in flight, and by the
	// floor's with two fsyncs added.
	ToFloor        float64 `json:"to_floor"`
	ToFloorAndDisk float64 `json:"to_floor_and_disk"`
}

// PeerRow is the bus, one process each, divided by a peer's row.
type PeerRow struct {
	Peer       string  `json:"peer"`
	Durability string  `json:"durability"`
	InFlight   int     `json:"in_flight"`
	P50        float64 `json:"p50"`
	Rate       float64 `json:"rate"`
}

// CrowdRow is many people who decide one interaction at once.
type CrowdRow struct {
	Gateways int `json:"gateways"`
	People   int `json:"people"`
	Times    int `json:"times"` // interactions
	// Settled is from the common start until the last one is told, the median
	// and the slowest interaction.
	Settled time.Duration `json:"settled_ns"`
	Slowest time.Duration `json:"slowest_ns"`
	Told    stat.Dist     `json:"told"` // of one person, the median interaction
}

// theirs words what a durability is at a peer.
func theirs(what, durability string) string {
	always := durability == string(natsd.DurabilityAlways)
	switch {
	case strings.HasPrefix(what, "Redis") && always:
		return "appendfsync always"
	case strings.HasPrefix(what, "Redis"):
		return "appendfsync everysec"
	case strings.HasPrefix(what, "PostgreSQL") && always:
		return "synchronous_commit on"
	case strings.HasPrefix(what, "PostgreSQL"):
		return "synchronous_commit off"
	}
	return durability
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

func ratio(f float64) string { return fmt.Sprintf("%.1f x", f) }

func share(f float64) string { return fmt.Sprintf("%.2f x", f) }

func rate(f float64) string { return fmt.Sprintf("%.0f", f) }

func pair(d stat.Dist) string {
	if d == (stat.Dist{}) {
		return ""
	}
	return ms(d.P50) + " / " + ms(d.P99)
}

// table has a title, a head and rows.
type table struct {
	title string
	rows  [][]string
}

// Judge fills in the goals.
func (r *Report) Judge() { r.Goals = r.goals() }

// tables are those of the report, in order.
func (r *Report) tables() []table {
	head := []string{
		"what", "durability", "in flight", "p50 ms", "p99 ms", "asks/s", "to floor", "to floor + 2 fsync",
		"ask -> reader p50 / p99", "answer -> agent p50 / p99", "cut",
	}
	floor := table{"Floor", [][]string{{"what", "in flight", "p50 ms", "p99 ms", "replies/s"}}}
	for _, f := range r.Floor {
		floor.rows = append(floor.rows, []string{"NATS request-reply", fmt.Sprint(f.InFlight), ms(f.Trip.P50), ms(f.Trip.P99), rate(f.Rate)})
	}
	floor.rows = append(floor.rows, []string{"1 KiB appended and fsynced", "1", ms(r.FSync.P50), ms(r.FSync.P99), ""})
	out := []table{floor}
	for _, servers := range []string{Embedded, Process, Cluster} {
		t := table{"Servers: " + servers, [][]string{head}}
		for _, x := range r.Rows {
			if x.Servers == servers && (x.What == WholeRoad || x.What == BusOnly) {
				t.rows = append(t.rows, append(x.cells(), pair(x.Show), pair(x.Answer), fmt.Sprint(x.Cuts)))
			}
		}
		if len(t.rows) > 1 {
			out = append(out, t)
		}
	}
	if len(r.Peers) > 0 {
		out = append(out, r.peerTable(head[:8]))
	}
	if len(r.Crowds) > 0 {
		out = append(out, crowdTable(r.Crowds))
	}
	goals := table{"Goals", [][]string{{"goal", "row", "measured", ""}}}
	for _, g := range r.Goals {
		goals.rows = append(goals.rows, []string{g.Text, g.Row, g.Value, verdict(g.Met)})
	}
	return append(out, goals)
}

// cells are the first columns of a row.
func (x *Row) cells() []string {
	disk := ""
	if x.Durability == string(natsd.DurabilityAlways) {
		disk = ratio(x.ToFloorAndDisk)
	}
	return []string{
		x.What, theirs(x.What, x.Durability), fmt.Sprint(x.InFlight), ms(x.Trip.P50), ms(x.Trip.P99), rate(x.Rate), ratio(x.ToFloor), disk,
	}
}

// peerTable has the bus beside each peer, one process each.
func (r *Report) peerTable(head []string) table {
	t := table{"Beside Redis and PostgreSQL, one process each", [][]string{append(head[:8:8], "bus p50 to it", "bus asks/s to it")}}
	for _, d := range []natsd.Durability{natsd.DurabilityAlways, natsd.DurabilityRelaxed} {
		for _, x := range r.Rows {
			if x.Servers != Process || x.What == WholeRoad || x.Durability != string(d) {
				continue
			}
			row := append(x.cells(), "", "")
			for _, p := range r.Peers {
				if p.Peer == x.What && p.Durability == x.Durability && p.InFlight == x.InFlight {
					row[8], row[9] = share(p.P50), share(p.Rate)
				}
			}
			t.rows = append(t.rows, row)
		}
	}
	return t
}

func crowdTable(crowds []CrowdRow) table {
	t := table{"Everybody decides one interaction at once", [][]string{{
		"people", "gateways", "interactions", "all told ms", "slowest ms", "one told p50 / p99 ms",
	}}}
	for _, c := range crowds {
		t.rows = append(t.rows, []string{
			fmt.Sprint(c.People), fmt.Sprint(c.Gateways), fmt.Sprint(c.Times), ms(c.Settled), ms(c.Slowest), pair(c.Told),
		})
	}
	return t
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", r.about())
	for _, t := range r.tables() {
		fmt.Fprintf(w, "\n%s\n", t.title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, row := range t.rows {
			fmt.Fprintln(tw, strings.Join(row, "\t"))
		}
		_ = tw.Flush() // a terminal that is gone needs no report
	}
}

// Markdown writes the report as docs/benchmarks.md has it.
func (r *Report) Markdown(w io.Writer) {
	fmt.Fprintf(w, "%s\n", r.about())
	for _, t := range r.tables() {
		fmt.Fprintf(w, "\n### %s\n\n", t.title)
		for i, row := range t.rows {
			fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintln(w, strings.Repeat("|---", len(row))+"|")
			}
		}
	}
}

// about is what was measured, where and when, and what failed.
func (r *Report) about() string {
	h := r.Host
	text := fmt.Sprintf(`%s, %s, %d cores, %s, %s, nats-server %s, %s.
%d rounds in %v, %d asks a row and round at one in flight; %d asks in all, each with
exactly one decision. Load average %s before, then %s.`,
		r.Date.Format(time.RFC3339), h.CPU, h.Cores, h.OS, h.Go, h.Server, h.FileSystem,
		r.Rounds, r.Took, r.N, r.Decisions, r.LoadBefore, strings.Join(r.Load, ", "))
	for _, f := range r.Failures {
		text += "\n\n**Failed:** " + strings.ReplaceAll(f, "\n", "; ")
	}
	return text
}
