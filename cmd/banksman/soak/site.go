package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/banksman/banksman/cmd/banksman/soak/internal/rig"

	"github.com/coder/websocket"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
)

// site is what the clients talk to: the product, or in tests something that
// claims to be as good.
type site interface {
	// encode gives the exact request of an owner and its place.
	encode(owner int, r *hitl.Request) (subject.Ref, []byte, error)
	// ask asks and waits; opened is called once the request is stored.
	ask(ctx context.Context, owner, worker int, r *hitl.Request, opened func(), opts ...bus.AskOption) (*bus.Answer, error)
	// principal is who a person is in the record.
	principal(person int) hitl.Principal
	// decide is one attempt. errNotSent means that nothing left this process;
	// any other error leaves open what happened.
	decide(ctx context.Context, d decidePlan, r hitl.Response) (hitl.Receipt, error)
	// start starts a worker; heard is called for what it says.
	start(job rig.Job, heard func(rig.Word)) (worker, error)
	// get reads one interaction at a gateway.
	get(ctx context.Context, gateway, person int, key string) (*wire.Interaction, error)
}

// worker is a process that asks.
type worker interface {
	Done() <-chan struct{} // closed when it has ended
	Kill()                 // ends it at once and waits; the end of one that has ended, too
}

var (
	errNotSent = errors.New("not sent")
	errAbsent  = errors.New("no such interaction")
)

// attemptLimit bounds one attempt; it is longer than a gateway's own.
const attemptLimit = 15 * time.Second

// product is the site of a cluster.
type product struct {
	*rig.Cluster
	asking  [rig.Owners][workers]*bus.Client
	calling [rig.Callers]*bus.Client
	http    [rig.Gateways]*http.Client
}

func openProduct(ctx context.Context, c *rig.Cluster, log *slog.Logger) (*product, error) {
	p := &product{Cluster: c}
	open := func(role bus.Role, name string) (*bus.Client, error) {
		id, err := c.Identity(role, name)
		if err != nil {
			return nil, err
		}
		return bus.Connect(ctx, id, bus.Options{Logger: log})
	}
	var err error
	for i := range rig.Owners {
		for k := range workers {
			if p.asking[i][k], err = open(bus.RoleOwner, rig.OwnerName(i)); err != nil {
				p.close()
				return nil, err
			}
		}
	}
	for i := range rig.Callers {
		if p.calling[i], err = open(bus.RoleCaller, rig.CallerName(i)); err != nil {
			p.close()
			return nil, err
		}
	}
	for i := range rig.Gateways {
		p.http[i] = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: attemptLimit}
	}
	return p, nil
}

func (p *product) close() {
	var wg sync.WaitGroup
	end := func(c *bus.Client) {
		if c != nil {
			wg.Go(c.Close)
		}
	}
	for _, row := range p.asking {
		for _, c := range row {
			end(c)
		}
	}
	for _, c := range p.calling {
		end(c)
	}
	wg.Wait()
	for _, h := range p.http {
		if h != nil {
			h.CloseIdleConnections()
		}
	}
}

func (p *product) start(job rig.Job, heard func(rig.Word)) (worker, error) {
	return p.StartWorker(job, heard)
}

func (p *product) principal(person int) hitl.Principal { return p.Staff[person].Principal }

func (p *product) encode(owner int, r *hitl.Request) (subject.Ref, []byte, error) {
	return p.asking[owner][0].Encode(r, 1)
}

func (p *product) ask(ctx context.Context, owner, worker int, r *hitl.Request, opened func(), opts ...bus.AskOption) (*bus.Answer, error) {
	return p.asking[owner][worker].Ask(ctx, r, append(opts, bus.OnOpen(func(bus.Opened) { opened() }))...)
}

func (p *product) decide(ctx context.Context, d decidePlan, r hitl.Response) (hitl.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	switch d.Door {
	case doorWS:
		return p.overSocket(ctx, d, r)
	case doorBus:
		rec, err := p.calling[d.Person%rig.Callers].Decide(ctx, wire.DecideCall{ID: r.RequestID, Token: p.Staff[d.Person].Token, Response: r})
		if err != nil {
			return hitl.Receipt{}, err
		}
		return rec.Receipt, nil
	}
	return p.overHTTP(ctx, d, r)
}

// call makes an HTTP request at a gateway.
func (p *product) call(ctx context.Context, gateway, person int, method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.Addrs[gateway]+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.Staff[person].Token)
	resp, err := p.http[gateway].Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return 0, nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, err
}

func (p *product) overHTTP(ctx context.Context, d decidePlan, r hitl.Response) (hitl.Receipt, error) {
	body, err := hitl.Marshal(r)
	if err != nil {
		return hitl.Receipt{}, err
	}
	status, raw, err := p.call(ctx, d.Gateway, d.Person, http.MethodPost, "/api/interactions/"+url.PathEscape(r.RequestID)+"/decision", body)
	if err != nil {
		return hitl.Receipt{}, err
	}
	if status == http.StatusOK {
		var rec wire.Receipt
		err := json.Unmarshal(raw, &rec)
		return rec.Receipt, err
	}
	var e wire.Error
	if err := json.Unmarshal(raw, &e); err != nil {
		return hitl.Receipt{}, fmt.Errorf("status %d: %w", status, err)
	}
	return hitl.Receipt{Status: hitl.Status(e.Code), Error: e.Error, Fields: e.Fields, Decision: e.Decision}, nil
}

func (p *product) overSocket(ctx context.Context, d decidePlan, r hitl.Response) (hitl.Receipt, error) {
	conn, _, err := websocket.Dial(ctx, "ws://"+p.Addrs[d.Gateway]+"/api/ws", nil)
	if err != nil {
		return hitl.Receipt{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(64 << 20)
	send := func(v any) error {
		raw, err := hitl.Marshal(v)
		if err != nil {
			return err
		}
		return conn.Write(ctx, websocket.MessageText, raw)
	}
	if err := send(wire.Client{Type: wire.TypeAuth, Token: p.Staff[d.Person].Token}); err != nil {
		return hitl.Receipt{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	if _, _, err := conn.Read(ctx); err != nil { // the greeting
		return hitl.Receipt{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	r.Ref = "answer"
	if err := send(wire.Client{Type: wire.TypeResponse, Response: r}); err != nil {
		return hitl.Receipt{}, err
	}
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return hitl.Receipt{}, err
		}
		if rec, ok := receiptIn(raw, r.Ref); ok {
			return rec, nil
		}
	}
}

// receiptIn finds a receipt in a message of one frame or several.
func receiptIn(raw []byte, ref string) (hitl.Receipt, bool) {
	if !bytes.Contains(raw, []byte(`"`+wire.TypeReceipt+`"`)) {
		return hitl.Receipt{}, false
	}
	frames := []json.RawMessage{raw}
	if raw[0] == '[' && json.Unmarshal(raw, &frames) != nil {
		return hitl.Receipt{}, false
	}
	for _, f := range frames {
		var rec wire.Receipt
		if json.Unmarshal(f, &rec) == nil && rec.Type == wire.TypeReceipt && rec.Ref == ref {
			return rec.Receipt, true
		}
	}
	return hitl.Receipt{}, false
}

func (p *product) get(ctx context.Context, gateway, person int, key string) (*wire.Interaction, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	status, raw, err := p.call(ctx, gateway, person, http.MethodGet, "/api/interactions/"+url.PathEscape(key), nil)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, errAbsent
	case status != http.StatusOK:
		return nil, fmt.Errorf("status %d: %s", status, raw)
	}
	var ix wire.Interaction
	return &ix, json.Unmarshal(raw, &ix)
}

// list is what a gateway shows.
func (p *product) list(ctx context.Context, gateway, person int, state string) ([]wire.Interaction, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	limit := "200" // the newest
	if state == wire.StatePending {
		limit = "1000"
	}
	status, raw, err := p.call(ctx, gateway, person, http.MethodGet, "/api/interactions?limit="+limit+"&state="+state, nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", status, raw)
	}
	var out wire.ListReply
	err = json.Unmarshal(raw, &out)
	return out.Interactions, err
}
