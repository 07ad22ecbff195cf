package main

import (
	"context"
	"fmt"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/proof"
	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"

	"github.com/banksman/banksman/pkg/run"
)

// live has a worker of its own ask, which lives as the plan says.
func (w *workload) live(ctx context.Context, key string, s *scenario) {
	w.h.Works(key)
	if !w.lifetime(ctx, key, s, 1) || s.Life.Back == 0 {
		return
	}
	if run.Pause(ctx, s.Life.Back) {
		w.lifetime(ctx, key, s, 2)
		w.counts.add("worker: came back")
	}
}

// lifetime is one process of a worker; it reports whether the process was killed.
func (w *workload) lifetime(ctx context.Context, key string, s *scenario, generation int) (killed bool) {
	client := fmt.Sprintf("worker, life %d", generation)
	ask := proof.Operation{Kind: proof.OpAsk, Client: client, Call: proof.Now(), Saw: proof.SawSilence}
	wait := proof.Operation{Kind: proof.OpAwait, Client: client, Call: ask.Call, Saw: proof.SawClosed}
	opened := make(chan struct{}) // closed once its request is stored
	p, err := w.site.start(rig.Job{
		Owner: rig.OwnerName(s.Owner), Worker: "worker-" + s.Request.SessionID, Generation: generation, Request: s.Request,
	}, func(word rig.Word) {
		switch {
		case word.Beat:
			w.h.Beat(key, word.At)
		case word.Opened && ask.Saw == proof.SawSilence:
			ask.Return, ask.Saw, wait.Call = word.At, proof.SawStored, word.At
			close(opened)
		case word.Opened:
			w.wrong("%s: %s asked it once more", key, client)
		case word.Decision != nil && word.Ref != key:
			w.wrong("%s: %s was told of %s", key, client, word.Ref)
		case word.Decision != nil:
			wait.Return, wait.Verdict = word.At, proof.VerdictOf(word.Decision)
			w.counts.add("await: " + string(word.Decision.Outcome))
		case word.Error != "":
			w.wrong("%s: %s: ask: %s", key, client, word.Error)
		}
	})
	if err != nil {
		w.wrong("%s: %s cannot be started: %w", key, client, err)
		return false
	}
	w.counts.add("worker: started")
	if s.Life.Dies > 0 && generation == 1 {
		select {
		case <-opened:
			killed = run.Pause(ctx, s.Life.Dies)
		case <-p.Done():
		case <-ctx.Done():
		}
	} else {
		select {
		case <-p.Done():
		case <-ctx.Done():
			w.wrong("%s: %s was told nothing in %s", key, client, scenarioLimit)
		}
	}
	p.Kill()
	if killed {
		w.counts.add("worker: killed")
		if s.Life.Back == 0 {
			w.h.Gone(key, proof.Now())
		}
	}
	w.h.Add(key, ask)
	w.counts.add("ask: " + ask.Saw)
	if wait.Verdict.ID != "" {
		w.h.Add(key, wait)
	} else {
		w.counts.add(awaitStopped)
	}
	return killed
}
