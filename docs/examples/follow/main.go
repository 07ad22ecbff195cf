// Command follow is an example of a service with a NATS account of its own: it follows
// what waits, decides what it has a rule for by its own token, and leaves the rest to
// people. It speaks NATS and JSON alone, so that it can be written the same way in any
// language; a Go program would rather use Follow, Get and Decide of pkg/bus.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// credentials is the part of creds/caller-NAME.json that a connection needs.
type credentials struct {
	Tenant string   `json:"tenant"`
	Name   string   `json:"name"`
	URLs   []string `json:"urls"`
	Seed   string   `json:"seed"`
}

// interaction is the part of one that this program looks at.
type interaction struct {
	Key     string `json:"key"`
	State   string `json:"state"`
	Outcome string `json:"outcome"`
	Tool    string `json:"tool_name"`
	Risk    string `json:"risk"`
	Digest  string `json:"digest"`
	Body    struct {
		Input string `json:"input"`
		Shown string `json:"shown"`
	} `json:"body"`
}

type service struct {
	creds credentials
	token string
	nc    *nats.Conn
	done  map[string]bool // looked at; a service that runs for long would forget some day
}

// call calls a verb of the service API.
func (s *service) call(verb string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	m, err := s.nc.Request(fmt.Sprintf("hitl.svc.%s.%s.%s", s.creds.Tenant, s.creds.Name, verb), raw, 30*time.Second)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	var refused struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(m.Data, &refused) == nil && len(refused.Error) > 0 && refused.Error[0] == '{' {
		return fmt.Errorf("%s: %s", verb, refused.Error)
	}
	return json.Unmarshal(m.Data, out)
}

// look decides an interaction that waits, if it is one for this program.
func (s *service) look(ix *interaction) error {
	if ix.State != "pending" {
		log.Printf("%s is over: %s", ix.Key, ix.Outcome)
		return nil
	}
	if s.done[ix.Key] {
		return nil
	}
	s.done[ix.Key] = true
	if ix.Tool != "Read" || ix.Risk != "low" {
		log.Printf("%s waits for people: %s, risk %s", ix.Key, ix.Tool, ix.Risk)
		return nil
	}
	var whole interaction
	if err := s.call("get", map[string]string{"id": ix.Key}, &whole); err != nil {
		return err
	}
	var receipt struct {
		Status string `json:"status"`
		Error  any    `json:"error"`
	}
	// digest and shown name what was looked at: if it is something else by now, nothing is decided.
	err := s.call("decide", map[string]string{
		"id": whole.Key, "token": s.token, "digest": whole.Digest, "shown": whole.Body.Shown, "decision": "allow", "comment": "reading is allowed",
	}, &receipt)
	if err == nil {
		log.Printf("%s: allow %s: %s", whole.Key, whole.Body.Input, receipt.Status)
	}
	return err
}

// catchUp lists what waits, and asks to be told of what comes.
func (s *service) catchUp() error {
	var list struct {
		Interactions []interaction `json:"interactions"`
	}
	if err := s.call("list", map[string]any{"follow": true}, &list); err != nil {
		return err
	}
	for i := range list.Interactions {
		if err := s.look(&list.Interactions[i]); err != nil {
			log.Print(err)
		}
	}
	return nil
}

func (s *service) run(ctx context.Context) error {
	words := make(chan *nats.Msg, 1024)
	if _, err := s.nc.ChanSubscribe(fmt.Sprintf("hitl.feed.%s.%s", s.creds.Name, s.creds.Tenant), words); err != nil {
		return err
	}
	// The first list comes after the subscription, so that nothing falls in between; the
	// later ones tell what was lost, and that this program is there still.
	every := time.NewTicker(30 * time.Second)
	defer every.Stop()
	for {
		if err := s.catchUp(); err != nil {
			log.Print(err)
		}
	waiting:
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-every.C:
				break waiting
			case m := <-words:
				var ix interaction
				if err := json.Unmarshal(m.Data, &ix); err != nil {
					log.Print(err)
					continue
				}
				if err := s.look(&ix); err != nil {
					log.Print(err)
				}
			}
		}
	}
}

func main() {
	file := flag.String("creds", "", "credential `file` of a caller")
	flag.Parse()
	s := &service{token: os.Getenv("BANKSMAN_TOKEN"), done: map[string]bool{}}
	raw, err := os.ReadFile(*file)
	if err == nil {
		err = json.Unmarshal(raw, &s.creds)
	}
	if err != nil {
		log.Fatal("-creds: ", err)
	}
	pair, err := nkeys.FromSeed([]byte(s.creds.Seed))
	if err != nil {
		log.Fatal("-creds: ", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		log.Fatal("-creds: ", err)
	}
	s.nc, err = nats.Connect(s.creds.URLs[0], nats.Nkey(public, pair.Sign), nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	defer s.nc.Close()
	log.Print("following")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := s.run(ctx); err != nil {
		log.Print(err)
	}
}
