// Package crowd is many people who decide one interaction at the same moment,
// half of them by WebSocket and half by HTTP, spread over some gateways.
package crowd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

const (
	gatherLimit = time.Minute // until everybody is signed in
	tellLimit   = time.Minute // until everybody is told, on the busiest machine
	tryAgain    = 50 * time.Millisecond
	atOnce      = 32 // people who sign in at a time
)

// Crowd is people who are signed in. Close signs nobody out, it only leaves.
type Crowd struct {
	voices   []voice
	gateways int
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

// voice is how one person decides: it returns what the gateway said.
type voice interface {
	say(ctx context.Context, r hitl.Response) (hitl.Receipt, error)
	leave()
}

// Gather signs everybody in: person i at gateway i modulo the number of addrs,
// by socket where i is even in its gateway's row.
func Gather(ctx context.Context, addrs []string, people []Person) (*Crowd, error) {
	c := &Crowd{voices: make([]voice, len(people)), gateways: len(addrs)}
	life, stop := context.WithCancel(ctx)
	c.stop = stop
	limit, cancel := context.WithTimeout(life, gatherLimit)
	defer cancel()
	errs := make([]error, len(people))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, p := range people {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			addr := addrs[i%len(addrs)]
			var err error
			if i/len(addrs)%2 == 0 {
				err = c.socket(limit, life, i, addr, p)
			} else {
				err = c.client(limit, i, addr, p)
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s at %s: %w", p.ID, addr, err)
			}
		})
	}
	wg.Wait()
	if err := some(errs); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// some is at most three of the errors.
func some(all []error) error {
	var errs []error
	for _, err := range all {
		if err != nil && len(errs) < 3 {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Shown waits until every gateway shows the interaction to who has the token.
func Shown(ctx context.Context, addrs []string, token, key string) error {
	for _, addr := range addrs {
		v := newClient(addr, token)
		defer v.leave()
		for {
			res, err := v.do(ctx, http.MethodGet, "/api/interactions/"+key, nil)
			if err == nil && res.status == http.StatusOK {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s never showed %s: %w", addr, key, errors.Join(err, ctx.Err()))
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	return nil
}

// Close ends all connections and waits for their readers.
func (c *Crowd) Close() {
	c.stop()
	for _, v := range c.voices {
		if v != nil {
			v.leave()
		}
	}
	c.wg.Wait()
}

// Verdict is what one person was told.
type Verdict struct {
	hitl.Receipt
	Took time.Duration // from the common start to the receipt
	Err  error
}

// Decide has everybody decide the approval at once, every third denying it, and
// returns what each was told and how long it took until the last one was.
func (c *Crowd) Decide(ctx context.Context, key, session, digest string) ([]Verdict, time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	out := make([]Verdict, len(c.voices))
	var ready, done sync.WaitGroup
	ready.Add(len(c.voices))
	start := make(chan struct{}) // closed once everybody is ready
	var began time.Time
	for i, v := range c.voices {
		r := hitl.Response{
			Ref: key, RequestID: key, SessionID: session, RequestType: hitl.RequestTypeOf(hitl.KindApproval),
			Digest: digest, Decision: hitl.VerbAllow,
		}
		if i%3 == 2 {
			r.Decision = hitl.VerbDeny
		}
		done.Go(func() {
			ready.Done()
			<-start
			rec, err := untilTold(ctx, v, r)
			out[i] = Verdict{Receipt: rec, Took: time.Since(began), Err: err}
		})
	}
	ready.Wait()
	began = time.Now()
	close(start)
	done.Wait()
	return out, time.Since(began)
}

// untilTold says it again as long as the gateway cannot say what became of it.
func untilTold(ctx context.Context, v voice, r hitl.Response) (hitl.Receipt, error) {
	for {
		rec, err := v.say(ctx, r)
		if err != nil || rec.Status != hitl.Unavailable {
			return rec, err
		}
		select {
		case <-ctx.Done():
			return rec, nil
		case <-time.After(tryAgain):
		}
	}
}

// Check holds the verdicts against the decision that the asker got: one person
// was accepted, and everybody else was told that decision: who, what and when.
func Check(verdicts []Verdict, d *hitl.Decision) error {
	var errs []error
	accepted := 0
	for i, v := range verdicts {
		switch {
		case v.Err != nil:
			errs = append(errs, fmt.Errorf("person %d was told nothing: %w", i, v.Err))
		case v.Status != hitl.Accepted && v.Status != hitl.Duplicate && v.Status != hitl.AlreadyDecided:
			errs = append(errs, fmt.Errorf("person %d was told %s: %s", i, v.Status, v.Error))
		case v.Decision == nil:
			errs = append(errs, fmt.Errorf("person %d was told %s, but not what was decided", i, v.Status))
		case v.Decision.DecisionID != d.DecisionID || v.Decision.Principal != d.Principal ||
			v.Decision.Outcome != d.Outcome || !v.Decision.DecidedAt.Equal(d.DecidedAt):
			errs = append(errs, fmt.Errorf("person %d was told of decision %s (%s by %s at %s), the asker has %s (%s by %s at %s)",
				i, v.Decision.DecisionID, v.Decision.Outcome, v.Decision.Principal.ID, v.Decision.DecidedAt,
				d.DecisionID, d.Outcome, d.Principal.ID, d.DecidedAt))
		case v.Status != hitl.AlreadyDecided: // duplicate where the first receipt was "unknown"
			accepted++
			if want := personID(i); d.Principal.ID != want {
				errs = append(errs, fmt.Errorf("%s was accepted, the record says %s", want, d.Principal.ID))
			}
		}
	}
	if accepted != 1 {
		errs = append(errs, fmt.Errorf("%d people were accepted", accepted))
	}
	return some(errs)
}

// client is a person at the HTTP routes, with a connection that is open.
type client struct {
	addr, token string
	http        *http.Client
}

func newClient(addr, token string) *client {
	return &client{addr, token, &http.Client{Transport: &http.Transport{MaxIdleConns: 1}}}
}

func (c *Crowd) client(ctx context.Context, i int, addr string, p Person) error {
	v := newClient(addr, p.Token)
	c.voices[i] = v
	res, err := v.do(ctx, http.MethodGet, "/api/interactions?state=pending&limit=1", nil)
	if err != nil {
		return err
	}
	if res.status != http.StatusOK {
		return fmt.Errorf("the list says %d: %s", res.status, res.body)
	}
	return nil
}

type result struct {
	status int
	body   []byte
}

func (v *client) do(ctx context.Context, method, path string, body []byte) (result, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+v.addr+path, bytes.NewReader(body))
	if err != nil {
		return result{}, err
	}
	req.Header.Set("Authorization", "Bearer "+v.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := v.http.Do(req)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = res.Body.Close() }()
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(res.Body); err != nil {
		return result{}, err
	}
	return result{res.StatusCode, buf.Bytes()}, nil
}

func (v *client) say(ctx context.Context, r hitl.Response) (rec hitl.Receipt, err error) {
	body, err := hitl.Marshal(r)
	if err != nil {
		return rec, err
	}
	res, err := v.do(ctx, http.MethodPost, "/api/interactions/"+r.RequestID+"/decision", body)
	if err != nil {
		return rec, err
	}
	if res.status == http.StatusOK {
		var w wire.Receipt
		err = json.Unmarshal(res.body, &w)
		return w.Receipt, err
	}
	var w wire.Error
	err = json.Unmarshal(res.body, &w)
	return hitl.Receipt{Status: hitl.Status(w.Code), Error: w.Error, Fields: w.Fields, Decision: w.Decision}, err
}

func (v *client) leave() { v.http.CloseIdleConnections() }

// socket is a person at a WebSocket.
type socket struct {
	conn     *websocket.Conn
	receipts chan wire.Receipt // closed by the reader
	failed   error             // of the reader; read after receipts is closed
}

func (c *Crowd) socket(ctx, life context.Context, i int, addr string, p Person) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+addr+"/api/ws", nil)
	if err != nil {
		return err
	}
	conn.SetReadLimit(64 << 20)
	v := &socket{conn: conn, receipts: make(chan wire.Receipt, 1)}
	c.voices[i] = v
	if err := v.send(ctx, wire.Client{Type: wire.TypeAuth, Token: p.Token}); err != nil {
		return err
	}
	for { // until the snapshot is here
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		if bytes.Contains(raw, []byte(wire.TypeActiveProcesses)) {
			break
		}
	}
	c.wg.Go(func() {
		defer close(v.receipts)
		v.failed = v.read(life)
	})
	return nil
}

func (v *socket) send(ctx context.Context, f wire.Client) error {
	raw, err := hitl.Marshal(f)
	if err != nil {
		return err
	}
	return v.conn.Write(ctx, websocket.MessageText, raw)
}

func (v *socket) read(ctx context.Context) error {
	for {
		_, raw, err := v.conn.Read(ctx)
		if err != nil {
			return err
		}
		if bytes.Contains(raw, []byte(`"`+wire.TypePing+`"`)) {
			_ = v.send(ctx, wire.Client{Type: wire.TypePong}) // what fails, the next read tells
		}
		if !bytes.Contains(raw, []byte(`"`+wire.TypeReceipt+`"`)) {
			continue
		}
		list := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &list); err != nil {
				return err
			}
		}
		for _, one := range list {
			var rec wire.Receipt
			if err := json.Unmarshal(one, &rec); err != nil {
				return err
			}
			if rec.Type != wire.TypeReceipt {
				continue
			}
			select {
			case v.receipts <- rec:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func (v *socket) say(ctx context.Context, r hitl.Response) (hitl.Receipt, error) {
	if err := v.send(ctx, wire.Client{Type: wire.TypeResponse, Response: r}); err != nil {
		return hitl.Receipt{}, err
	}
	for {
		select {
		case rec, ok := <-v.receipts:
			if !ok {
				return hitl.Receipt{}, fmt.Errorf("the socket is gone: %w", v.failed)
			}
			if rec.Ref == r.Ref {
				return rec.Receipt, nil
			}
		case <-ctx.Done():
			return hitl.Receipt{}, ctx.Err()
		}
	}
}

func (v *socket) leave() { _ = v.conn.CloseNow() }
