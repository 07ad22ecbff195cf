package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/services/notifier"
)

// partWord as the first argument makes the binary a part.
const partWord = "bench-notify-part"

// The parts.
const (
	partServer   = "server"   // the product's NATS server
	partNotifier = "notifier" // a replica
	partProvider = "provider" // takes messages and notes when
	partFloor    = "floor"    // in place of a notifier: posts a body for each event
)

type partConfig struct {
	Part   string `json:"part"`
	Dir    string `json:"dir,omitempty"`    // data directory
	Config string `json:"config,omitempty"` // of a notifier, a file
	URL    string `json:"url,omitempty"`    // where the floor posts
	Body   string `json:"body,omitempty"`   // and what
}

// hello is what a part says once it works.
type hello struct {
	URL string `json:"url,omitempty"` // of the provider
}

// job is for the provider: it waits until it has had so many messages, for the time
// given at most, and tells of them all.
type job struct {
	Want int           `json:"want"`
	For  time.Duration `json:"for"`
	Take bool          `json:"take"` // forget them then
}

// hit is a message that the provider got.
type hit struct {
	Key string    `json:"key"`
	ID  string    `json:"id"`
	At  time.Time `json:"at"`
}

// told is the provider's answer. Body is that of the last message.
type told struct {
	Hits []hit  `json:"hits"`
	N    int    `json:"n"`
	Body string `json:"body"`
}

func isPart(args []string) bool { return len(args) > 2 && args[1] == partWord }

func partMain(ctx context.Context, args []string) int {
	var cfg partConfig
	err := json.Unmarshal([]byte(args[0]), &cfg)
	if err == nil {
		err = runPart(ctx, cfg, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench-notify: %s: %v\n", cfg.Part, err)
		return 1
	}
	return 0
}

func runPart(ctx context.Context, cfg partConfig, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	say := json.NewEncoder(out)
	if cfg.Part == partProvider {
		return runProvider(bufio.NewScanner(in), say)
	}
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, in)
		cancel() // the parent is gone or wants no more
	}()
	switch cfg.Part {
	case partServer:
		srv, err := natsd.Start(ctx, natsd.StartOptions{ConfigFile: natsd.ConfigFile(cfg.Dir)})
		if err != nil {
			return err
		}
		defer srv.Shutdown()
		if err := say.Encode(hello{}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	case partNotifier:
		c, err := notifier.LoadConfig(cfg.Config)
		if err != nil {
			return err
		}
		cred, err := credentials(cfg.Dir, bus.RoleNotifier)
		if err != nil {
			return err
		}
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
		n, err := notifier.New(ctx, notifier.Options{Logger: log, Credentials: cred, Config: c, BaseURL: "https://banksman.example.com"})
		if err != nil {
			return err
		}
		if err := say.Encode(hello{}); err != nil {
			n.Close()
			return err
		}
		return n.Run(ctx)
	case partFloor:
		return runFloor(ctx, cfg, say)
	}
	return fmt.Errorf("no part %q", cfg.Part)
}

// provider keeps what it is sent.
type provider struct {
	mu   sync.Mutex
	hits []hit
	body string
	more chan struct{} // closed at the next hit
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(r.Body)
	var ev struct{ Subject string }
	if err == nil {
		err = json.Unmarshal(body, &ev)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	key := ev.Subject
	if r.Header.Get("bench-key") != "" {
		key = r.Header.Get("bench-key") // of the floor, whose body is always the same
	}
	p.mu.Lock()
	p.hits = append(p.hits, hit{key, r.Header.Get("webhook-id"), at})
	p.body = string(body)
	close(p.more)
	p.more = make(chan struct{})
	p.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (p *provider) wait(j job) told {
	late := time.NewTimer(j.For)
	defer late.Stop()
	for over := false; ; {
		p.mu.Lock()
		n, more := len(p.hits), p.more
		if over || n >= j.Want {
			t := told{Hits: p.hits, N: n, Body: p.body}
			if j.Take {
				p.hits = nil
			} else {
				t.Hits = nil
			}
			p.mu.Unlock()
			return t
		}
		p.mu.Unlock()
		select {
		case <-more:
		case <-late.C:
			over = true
		}
	}
}

func runProvider(in *bufio.Scanner, say *json.Encoder) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p := &provider{more: make(chan struct{})}
	srv := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	err = say.Encode(hello{URL: "http://" + l.Addr().String() + "/hook"})
	for err == nil && in.Scan() {
		var j job
		if err = json.Unmarshal(in.Bytes(), &j); err == nil {
			err = say.Encode(p.wait(j))
		}
	}
	err = errors.Join(err, srv.Close())
	<-done
	return err
}

// floorWorkers is how many posts the floor has under way, as a channel of the notifier.
const floorWorkers = 8

func runFloor(ctx context.Context, cfg partConfig, say *json.Encoder) error {
	nc, err := connect(cfg.Dir, bus.RoleGateway)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	c, err := js.CreateConsumer(ctx, journal.Events, jetstream.ConsumerConfig{
		Name: "floor", FilterSubject: "hitl.ixe.>", AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverNewPolicy,
	})
	if err != nil {
		return err
	}
	msgs := make(chan jetstream.Msg) // never closed; the workers end with ctx
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: floorWorkers}}
	for range floorWorkers {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case m := <-msgs:
					if err := post(ctx, client, cfg, m); err != nil && ctx.Err() == nil {
						fmt.Fprintln(os.Stderr, "floor:", err)
					}
				}
			}
		})
	}
	run, err := c.Consume(func(m jetstream.Msg) {
		select {
		case msgs <- m:
		case <-ctx.Done():
		}
	})
	if err == nil {
		err = say.Encode(hello{})
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	run.Stop()
	wg.Wait()
	return nil
}

func post(ctx context.Context, client *http.Client, cfg partConfig, m jetstream.Msg) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cfg.URL, bytes.NewReader([]byte(cfg.Body)))
	if err != nil {
		return err
	}
	t := strings.Split(m.Subject(), ".") // hitl.ixe.tenant.owner.session.id.open
	req.Header.Set("bench-key", t[2]+"."+t[3]+"."+t[5])
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // it has none
	return m.Ack()
}

func credentials(dir string, role bus.Role) (*bus.Credentials, error) {
	return bus.LoadCredentials(natsd.CredentialsFile(dir, role, bus.DefaultTenant, ""))
}

func connect(dir string, role bus.Role) (*nats.Conn, error) {
	cred, err := credentials(dir, role)
	if err != nil {
		return nil, err
	}
	auth, err := cred.Auth()
	if err != nil {
		return nil, err
	}
	return nats.Connect(cred.URLs[0], auth, nats.ReconnectBufSize(-1))
}
