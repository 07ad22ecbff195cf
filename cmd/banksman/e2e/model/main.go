// Command model is a scripted model API for the browser tests. The first line of
// its standard input is the script, a JSON array of steps; each line after it
// opens the gate of that name. It prints JSON objects, one a line: first the
// environment in which Claude Code talks to it alone, then every request that
// came and every breach of the script. It ends with its standard input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/banksman/banksman/pkg/hitltest/modelapi"
)

// maxLine bounds a line of the input, in bytes.
const maxLine = 16 << 20

// step is a step of the script, as tests write it.
type step struct {
	Name     string   `json:"name"`
	Conv     string   `json:"conv"`
	UserText string   `json:"user_text"`
	Results  []result `json:"results"`
	Reply    []block  `json:"reply"`
	Gate     string   `json:"gate"`
	Repeat   bool     `json:"repeat"`   // more than once
	Optional bool     `json:"optional"` // or never
}

type result struct {
	ToolUseID string `json:"tool_use_id"`
	Contains  string `json:"contains"` // empty: any text
	IsError   bool   `json:"is_error"`
}

// block is a text, or a tool call where it has a name.
type block struct {
	Text  string          `json:"text"`
	Gate  string          `json:"gate"` // of a text: where it pauses after its first piece
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// report is a line of the output.
type report struct {
	Env   []string `json:"env,omitempty"`
	Step  string   `json:"step,omitempty"`
	Fault string   `json:"fault,omitempty"`
	// Content is what the last message of a request brought.
	Content []json.RawMessage `json:"content,omitempty"`
}

func main() {
	home := flag.String("home", "", "a fresh home directory")
	flag.Parse()
	if err := run(*home); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

func run(home string) error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, maxLine)
	if !in.Scan() {
		return fmt.Errorf("no script: %w", in.Err())
	}
	var script []step
	if err := json.Unmarshal(in.Bytes(), &script); err != nil {
		return fmt.Errorf("script: %w", err)
	}
	var mu sync.Mutex // guards out
	out := json.NewEncoder(os.Stdout)
	say := func(r report) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(r) // a test that went away reads nothing
	}
	cli, err := modelapi.FindCLI()
	if err != nil {
		return err
	}
	api, err := modelapi.Start(modelapi.Options{OnFault: func(err error) { say(report{Fault: err.Error()}) }}, steps(script)...)
	if err != nil {
		return err
	}
	defer func() { _ = api.Close() }()
	say(report{Env: api.Env(filepath.Dir(cli)+":"+os.Getenv("PATH"), home)})
	ctx, stop := context.WithCancel(context.Background())
	var told sync.WaitGroup
	defer told.Wait()
	defer stop()
	told.Go(func() {
		for n := 1; ; n++ {
			all, err := api.WaitRequests(ctx, n)
			if err != nil {
				return
			}
			say(report{Step: all[n-1].Step, Content: last(all[n-1])})
		}
	})
	for in.Scan() {
		api.Release(in.Text())
	}
	return in.Err()
}

func steps(script []step) []modelapi.Step {
	var out []modelapi.Step
	for _, s := range script {
		st := modelapi.Step{Name: s.Name, Conv: s.Conv, UserText: s.UserText, Gate: s.Gate, Repeat: s.Repeat, Optional: s.Optional}
		for _, r := range s.Results {
			st.Results = append(st.Results, modelapi.Result{ToolUseID: r.ToolUseID, Contains: r.Contains, Any: r.Contains == "", IsError: r.IsError})
		}
		for _, b := range s.Reply {
			if b.Name != "" {
				st.Reply = append(st.Reply, modelapi.ToolUse(b.ID, b.Name, string(b.Input)))
			} else {
				st.Reply = append(st.Reply, modelapi.Text(b.Text).PauseAt(b.Gate))
			}
		}
		out = append(out, st)
	}
	return out
}

func last(r *modelapi.Request) []json.RawMessage {
	var out []json.RawMessage
	if n := len(r.Messages); n > 0 {
		for _, c := range r.Messages[n-1].Content {
			out = append(out, c.Raw)
		}
	}
	return out
}
