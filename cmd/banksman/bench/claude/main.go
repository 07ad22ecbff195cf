package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/banksman/banksman/cmd/banksman/bench/internal/report"
	"github.com/banksman/banksman/cmd/banksman/bench/internal/stat"
	"github.com/banksman/banksman/pkg/hitltest/modelapi"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench-claude:", err)
		os.Exit(1)
	}
}

// warm is how many tools run before those that count; the first is slow, because
// the CLI looks at the shell.
const warm = 3

// pause is how long a person thinks: until then everything is at rest.
const pause = 100 * time.Millisecond

// maxMore is the goal: so many ms more than the floor, at the median.
const maxMore = 10.0

func command(ctx context.Context, args []string, out io.Writer) (err error) {
	fs := flag.NewFlagSet("bench-claude", flag.ContinueOnError)
	rounds := fs.Int("rounds", 3, "rounds; product and floor take turns")
	n := fs.Int("n", 40, "tools a round")
	dir := fs.String("dir", "", "`directory` for everything (default: the temp directory)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 || min(*rounds, *n) < 1 {
		return errors.New("want --rounds and --n of at least 1, and nothing else")
	}
	cli, err := modelapi.FindCLI()
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp(*dir, "banksman-bench-claude-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	product := filepath.Join(root, "banksman")
	build := exec.CommandContext(ctx, "go", "build", "-o", product, "github.com/banksman/banksman/cmd/banksman")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, text)
	}
	before := report.LoadAverage()
	var took [2][][]float64 // ms, a round
	for i := range *rounds {
		for k, way := range []func(context.Context, *stage) ([]time.Time, error){
			func(ctx context.Context, s *stage) ([]time.Time, error) { return through(ctx, s, product) }, bare,
		} {
			ms, err := one(ctx, filepath.Join(root, fmt.Sprintf("%d-%d", i, k)), cli, *n, way)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", i+1, names[k], err)
			}
			took[k] = append(took[k], ms)
		}
	}
	fmt.Fprintf(out, "%s, %d rounds of %d tools. Load average %s before, then %s.\n\n", time.Now().UTC().Format(time.RFC3339), *rounds, *n, before, report.LoadAverage())
	fmt.Fprint(out, "| answer by | p50 ms | p99 ms | slowest ms |\n|---|---|---|---|\n")
	of := func(k int, q float64) float64 {
		var all []float64
		for _, round := range took[k] {
			all = append(all, stat.Quantile(round, q))
		}
		return stat.Median(all)
	}
	for k, name := range names {
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %.1f |\n", name, of(k, 0.5), of(k, 0.99), of(k, 1))
	}
	var more []float64
	for i := range took[0] {
		more = append(more, stat.Median(took[0][i])-stat.Median(took[1][i]))
	}
	verdict := "missed"
	if stat.Median(more) <= maxMore {
		verdict = "met"
	}
	fmt.Fprintf(out, "\nMore than the floor, p50: %.1f ms; goal %.0f ms: %s.\n", stat.Median(more), maxMore, verdict)
	return nil
}

var names = [2]string{"a person, through banksman", "the program that runs the CLI (floor)"}

// stage is what one run of the CLI needs.
type stage struct {
	cli, home, work, data string
	api                   *modelapi.Server
	tools                 int
}

// prompt begins the conversation of the script.
const prompt = "run the tools"

// one has n tools allowed and returns how many ms after each answer its tool ran:
// the tool writes down its own time.
func one(ctx context.Context, root, cli string, n int, way func(context.Context, *stage) ([]time.Time, error)) (ms []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	s := &stage{cli: cli, home: filepath.Join(root, "home"), work: filepath.Join(root, "work"), data: filepath.Join(root, "data"), tools: warm + n}
	for _, d := range []string{s.home, s.work} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	if s.api, err = modelapi.Start(modelapi.Options{}, script(s.tools)...); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.api.Close()) }()
	answered, err := way(ctx, s)
	if err != nil {
		return nil, err
	}
	for i, at := range answered[warm:] {
		ran, err := os.ReadFile(filepath.Join(s.work, file(warm+i)))
		if err != nil {
			return nil, err
		}
		var ns int64
		if _, err := fmt.Sscan(string(ran), &ns); err != nil {
			return nil, err
		}
		ms = append(ms, float64(ns-at.UnixNano())/1e6)
	}
	return ms, nil
}

func file(i int) string { return fmt.Sprintf("tool-%d", i) }

// script is a model that calls one tool after the other.
func script(n int) []modelapi.Step {
	call := func(i int) []modelapi.Block {
		return []modelapi.Block{modelapi.ToolUse(fmt.Sprintf("toolu_%d", i), "Bash", fmt.Sprintf(`{"command":"date +%%s%%N > %s","description":"Tell the time"}`, file(i)))}
	}
	steps := []modelapi.Step{{UserText: prompt, Reply: call(0)}}
	for i := range n {
		next := []modelapi.Block{modelapi.Text("done")}
		if i < n-1 {
			next = call(i + 1)
		}
		steps = append(steps, modelapi.Step{Results: []modelapi.Result{{ToolUseID: fmt.Sprintf("toolu_%d", i), Any: true}}, Reply: next})
	}
	return steps
}

// think waits as a person does.
func think(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}
