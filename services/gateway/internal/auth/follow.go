package auth

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Notice is something that happened to the tokens, on whichever gateway.
type Notice struct {
	// SignedIn is a session that began.
	SignedIn *Session
	// Ended is the hash of a session, or of a token, that was revoked.
	Ended string
	// Waiting is a terminal that wants to be confirmed, Settled the code of
	// one that no longer does.
	Waiting *CLIRequest
	Settled string
}

// Follow calls fn for what happens from now on, until ctx ends. What happens
// while the connection is away is told when it is back.
func (s *Store) Follow(ctx context.Context, fn func(Notice)) error {
	sessions, err := watch(ctx, s.kv, sessionKey+"*", cliKey+"*")
	if err != nil {
		return err
	}
	defer stop(sessions)
	tokens, err := watch(ctx, s.users, tokenKey+"*")
	if err != nil {
		return err
	}
	defer stop(tokens)
	for {
		var e jetstream.KeyValueEntry
		var ok bool
		select {
		case <-ctx.Done():
			return nil
		case e, ok = <-sessions.Updates():
		case e, ok = <-tokens.Updates():
		}
		if !ok && ctx.Err() != nil {
			return nil // the end of ctx closes the channels too
		}
		if !ok {
			return fmt.Errorf("auth: follow: %w", ErrUnavailable)
		}
		if e == nil {
			continue
		}
		if n, ok := notice(e); ok {
			fn(n)
		}
	}
}

func watch(ctx context.Context, kv jetstream.KeyValue, keys ...string) (jetstream.KeyWatcher, error) {
	w, err := kv.WatchFiltered(ctx, keys, jetstream.UpdatesOnly())
	if err != nil {
		return nil, fmt.Errorf("auth: follow: %w", err)
	}
	return w, nil
}

func stop(w jetstream.KeyWatcher) {
	// Where Stop fails the connection is gone, and nothing closes Updates.
	if w.Stop() == nil {
		for range w.Updates() {
		}
	}
}

func notice(e jetstream.KeyValueEntry) (n Notice, ok bool) {
	gone := e.Operation() != jetstream.KeyValuePut
	if hash, is := strings.CutPrefix(e.Key(), sessionKey); is {
		if gone {
			return Notice{Ended: hash}, true
		}
		n.SignedIn = &Session{Hash: hash}
		return n, decode(e.Value(), n.SignedIn) == nil && !n.SignedIn.Again
	}
	if hash, is := strings.CutPrefix(e.Key(), tokenKey); is {
		var t apiToken
		ended := gone || decode(e.Value(), &t) != nil || t.RevokedAt != nil
		return Notice{Ended: tokenMark + hash}, ended
	}
	code := strings.TrimPrefix(e.Key(), cliKey)
	var rec cliRecord
	if gone || decode(e.Value(), &rec) == nil && rec.Allowed != nil {
		return Notice{Settled: code}, true
	}
	return Notice{Waiting: &rec.CLIRequest}, rec.Code != ""
}
