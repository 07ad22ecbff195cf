package door_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/api"
	"github.com/banksman/banksman/services/gateway/internal/cursor"
)

// fake is an engine in memory. It judges answers by the product's own rules,
// knows one winner for each interaction, and numbers its updates.
type fake struct {
	mu       sync.Mutex
	ready    chan struct{}
	seq      int64
	moved    chan struct{} // closed at the next seq
	behind   chan struct{} // capacity 1: somebody waits for a seq
	list     []*asked
	sessions map[string]*wire.ProcessState
	events   map[string][]wire.Event
	ring     []api.Update
	watchers map[int]func(api.Update)
	nextID   int
	now      time.Time
	started  []*hitl.Start
	commands []hitl.Command
	attempts int
	// reply answers commands; runtimes are what workers run.
	reply    func(hitl.Command) (hitl.CommandReply, error)
	runtimes []string
	// mute drops the broadcast of what is decided.
	mute bool
	// forbid refuses every decision; stall holds it until it is closed.
	forbid bool
	stall  chan struct{}
	broken error // of Healthy and Transcript
	// asked answers what is asked over HTTP.
	asked func(tenant string, by hitl.Principal, raw []byte, wait time.Duration) (*wire.AskReply, *wire.Error)
}

var _ api.Engine = (*fake)(nil)

type asked struct {
	req      *hitl.Request
	raw      []byte
	summary  wire.Summary
	session  string
	deadline time.Time
	decision *hitl.Decision
}

func (f *fake) Ask(_ context.Context, tenant string, by hitl.Principal, raw []byte, wait time.Duration) (*wire.AskReply, *wire.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked(tenant, by, raw, wait)
}

func (a *asked) pending(still bool) wire.PendingData {
	s := &a.summary
	return wire.PendingData{
		ToolCallID: s.ToolCallID, InteractionID: s.RequestID, Key: s.Key, ToolName: s.ToolName,
		Pending: still, Presentation: s.Presentation, ProjectID: s.ProjectID,
	}
}

func newFake() *fake {
	f := &fake{
		ready: make(chan struct{}), moved: make(chan struct{}), behind: make(chan struct{}, 1), sessions: map[string]*wire.ProcessState{}, events: map[string][]wire.Event{},
		watchers: map[int]func(api.Update){}, now: time.Now(), runtimes: []string{"claude", "demo"},
		reply: func(hitl.Command) (hitl.CommandReply, error) { return hitl.CommandReply{Status: "ok"}, nil },
	}
	close(f.ready)
	return f
}

// cursorAt has the form of the engine's cursors, which Update.After reads.
func cursorAt(n int64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "1.%d.1.0", n))
}

func cursorSeq(c string) (n int64, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil {
		return 0, false
	}
	got, _ := fmt.Sscanf(string(raw), "1.%d.1.0", &n)
	return n, got == 1
}

// ask opens an interaction and tells everybody.
func (f *fake) ask(r hitl.Request) *asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.V, r.Tenant, r.Owner = 1, "default", "agents"
	if r.Title == "" {
		r.Title = "something"
	}
	if r.Key == "" {
		r.Key = uuid.NewString()
	}
	if r.ID == "" {
		r.ID = hitl.ID(r.Tenant, r.Owner, r.Key, 1)
	}
	raw, err := hitl.Marshal(&r)
	if err != nil {
		panic(err)
	}
	if _, err := hitl.ParseRequest(raw); err != nil {
		panic(err)
	}
	ref := subject.NewRef(r.Tenant, r.Owner, r.ID)
	a := &asked{req: &r, raw: raw, session: subject.NewSession(r.Tenant, r.Owner, r.SessionID).String()}
	a.summary = wire.Summary{
		RequestID: r.ID, Key: ref.String(), RequestType: hitl.RequestTypeOf(r.Kind), Kind: r.Kind,
		Presentation: hitl.PresentationOf(r.Kind), SessionID: r.SessionID, SessionKey: a.session,
		Tenant: r.Tenant, Owner: r.Owner, ProjectID: r.ProjectID, ToolCallID: r.ToolCallID, Headline: hitl.Headline(&r), Title: r.Title,
		Digest: hitl.Digest(raw), Risk: "low", CreatedAt: f.now, ServerTime: f.now,
		Body: &wire.Body{Blocks: hitl.View(&r), Verbs: []string{}, Scopes: []string{}},
	}
	if r.Tool != nil {
		a.summary.ToolName = r.Tool.Name
	}
	if d := r.Expiry(); d > 0 {
		a.deadline = f.now.Add(d)
	}
	f.list = append(f.list, a)
	f.publish(a.session, []wire.Event{
		{Type: hitl.EventInteractionPending, Data: text(a.pending(true))},
		{Type: hitl.EventInteractionRequest, Data: text(a.summary)},
		{Type: hitl.EventApprovalRequired, Data: text(wire.ApprovalData{InteractionID: r.ID, ToolCallID: r.ToolCallID, ProjectID: r.ProjectID})},
	}, true, nil)
	return a
}

// say publishes a stored text of a session, delta a live one.
func (f *fake) say(session, words string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publish(session, []wire.Event{{Type: hitl.EventText, Data: text(map[string]string{"role": "assistant", "text": words})}}, true, nil)
}

func (f *fake) delta(session, words string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := api.Update{SessionKey: session, Events: []wire.Event{
		{Type: hitl.EventTextDelta, At: f.now, Data: text(map[string]string{"text": words})},
	}}
	for _, fn := range f.watchers {
		fn(u)
	}
}

// open begins to know a session without asking anything in it.
func (f *fake) open(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := subject.NewSession("default", "agents", id).String()
	f.session(key, id)
	return key
}

func (f *fake) session(key, id string) *wire.ProcessState {
	s := f.sessions[key]
	if s == nil {
		s = &wire.ProcessState{SessionKey: key, SessionState: hitl.SessionState{
			V: 1, SessionID: id, Tenant: "default", Owner: "agents", Runtime: "demo", State: hitl.StateAssistantTurn, StartedAt: f.now,
		}}
		f.sessions[key] = s
	}
	return s
}

// publish numbers events, stores them and tells the watchers, the session's
// state with them. Called with the lock held.
func (f *fake) publish(session string, events []wire.Event, stored bool, closed []wire.Closed) {
	f.seq++
	close(f.moved)
	f.moved = make(chan struct{})
	cursor := cursorAt(f.seq)
	for i := range events {
		events[i].Cursor, events[i].At = cursor, f.now
	}
	f.events[session] = append(f.events[session], events...)
	st := f.state(session)
	st.Type, st.Cursor, st.Closed = wire.TypeProcessState, cursor, closed
	u := api.Update{Cursor: cursor, SessionKey: session, All: text(st), Events: events, Stored: stored}
	f.ring = append(f.ring, u)
	for _, fn := range f.watchers {
		fn(u)
	}
}

func (f *fake) state(key string) wire.ProcessState {
	id := key
	for _, a := range f.list {
		if a.session == key {
			id = a.req.SessionID
		}
	}
	st := *f.session(key, id)
	st.PendingRequests = []wire.Summary{}
	for _, a := range f.list {
		if a.session == key && a.decision == nil {
			st.PendingRequests = append(st.PendingRequests, a.summary)
		}
	}
	if len(st.PendingRequests) > 0 {
		p := st.PendingRequests[0]
		st.PendingRequest = &p
	}
	return st
}

func text(v any) json.RawMessage {
	raw, err := hitl.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func (f *fake) Ready() <-chan struct{} { return f.ready }

func (f *fake) Healthy() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken
}

func (f *fake) Watch(cursor string, fn func(api.Update)) api.Watch {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := api.Watch{Cursor: cursorAt(f.seq)}
	if n, ok := cursorSeq(cursor); ok && n <= f.seq {
		w.Recovered = true
		for _, u := range f.ring {
			if u.After(cursor) {
				w.Missed = append(w.Missed, u.All)
			}
		}
	} else {
		w.Snapshot = f.states()
	}
	id := f.nextID
	f.nextID++
	f.watchers[id] = fn
	w.Stop = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, id)
	}
	return w
}

func (f *fake) Reach(ctx context.Context, from string) {
	n, ok := cursorSeq(from)
	for ok && ctx.Err() == nil {
		f.mu.Lock()
		seq, moved := f.seq, f.moved
		f.mu.Unlock()
		if n <= seq {
			return
		}
		select {
		case f.behind <- struct{}{}:
		default:
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

func (f *fake) states() []wire.ProcessState {
	var keys []string
	for key := range f.sessions {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	out := []wire.ProcessState{}
	for _, key := range keys {
		out = append(out, f.state(key))
	}
	return out
}

func (f *fake) Sessions() []wire.ProcessState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.states()
}

func (f *fake) Session(key string) (wire.ProcessState, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sessions[key] == nil {
		return wire.ProcessState{}, false
	}
	return f.state(key), true
}

func (f *fake) Transcript(_ context.Context, session, from, upto string) ([]wire.Event, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return nil, false, f.broken
	}
	start, ok := cursorSeq(from)
	reset := from != "" && (!ok || start > f.seq)
	if reset {
		start = 0
	}
	end, _ := cursorSeq(upto)
	var out []wire.Event
	for _, ev := range f.events[session] {
		if n, _ := cursorSeq(ev.Cursor); n > start && n <= end {
			out = append(out, ev)
		}
	}
	return out, reset, nil
}

func (f *fake) Cursor() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cursorAt(f.seq)
}

func (f *fake) find(id string) (*asked, error) {
	var hits []*asked
	for _, a := range f.list {
		if a.summary.Key == id {
			return a, nil
		}
		if a.req.ID == id {
			hits = append(hits, a)
		}
	}
	return sole(hits)
}

func (f *fake) interaction(a *asked, body bool) wire.Interaction {
	ix := wire.Interaction{ID: a.req.ID, Summary: a.summary, State: wire.StatePending}
	if !body {
		ix.Body = nil
	}
	if a.decision != nil {
		ix.State, ix.Outcome, ix.Decision = wire.StateClosed, a.decision.Outcome, a.decision.WithoutRequest()
	}
	return ix
}

func (f *fake) Interaction(_ context.Context, id string) (*wire.Interaction, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, err := f.find(id)
	if err != nil {
		return nil, err
	}
	ix := f.interaction(a, true)
	return &ix, nil
}

func (f *fake) Waiting(id string) (wire.Summary, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, err := f.find(id)
	if err != nil || a.decision != nil {
		return wire.Summary{}, false
	}
	return a.summary, true
}

func (f *fake) Asked(_ context.Context, id string) (*api.Asked, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, err := f.find(id)
	if err != nil {
		return nil, err
	}
	ref, _ := subject.ParseRef(a.summary.Key)
	return &api.Asked{
		Ref: ref, Request: a.req, Digest: a.summary.Digest, Policy: hitl.Policy{Risk: a.summary.Risk}, RequestedAt: a.summary.CreatedAt, Decided: a.decision != nil,
	}, nil
}

func (f *fake) List(_ context.Context, q api.List) (out []wire.Interaction, more bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	behind := q.After == cursor.Row{}
	for _, a := range f.list {
		ix := f.interaction(a, false)
		switch {
		case !behind:
			behind = cursor.RowOf(&ix) == q.After
		case ix.State != q.State || q.Sees != nil && !q.Sees(&ix.Summary):
		case len(out) == q.Limit:
			return out, true, nil
		default:
			out = append(out, ix)
		}
	}
	return out, false, nil
}

func (f *fake) Decide(_ context.Context, at api.Attempt) wire.Receipt {
	f.mu.Lock()
	stall := f.stall
	f.attempts++
	f.mu.Unlock()
	if stall != nil {
		<-stall
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rec := f.decide(&at)
	if rec.Decision != nil {
		rec.Decision = rec.Decision.WithoutRequest()
	}
	return wire.Receipt{RequestID: at.RequestID, SessionID: at.SessionID, Receipt: rec}
}

func refused(status hitl.Status, words string) hitl.Receipt {
	return hitl.Receipt{Status: status, Error: words}
}

func invalid(err error) hitl.Receipt {
	var inv *hitl.InvalidError
	if !errors.As(err, &inv) {
		return refused(hitl.BadInput, err.Error())
	}
	return hitl.Receipt{Status: hitl.BadInput, Error: inv.Error(), Fields: inv.Fields}
}

func (f *fake) decide(at *api.Attempt) hitl.Receipt {
	var a *asked
	if at.RequestID != "" {
		var err error
		if a, err = f.find(at.RequestID); err != nil {
			return refused(hitl.NotFound, "no such interaction")
		}
		if at.SessionID != "" && at.SessionID != a.session && at.SessionID != a.req.SessionID {
			return refused(hitl.NotFound, "no such interaction")
		}
	} else {
		for _, o := range f.list {
			if (o.session == at.SessionID || o.req.SessionID == at.SessionID) && o.req.ToolCallID == at.ToolCallID {
				a = o
			}
		}
		if a == nil {
			return refused(hitl.NotFound, "no such interaction")
		}
	}
	if at.Kind != "" && at.Kind != a.req.Kind {
		return refused(hitl.NotFound, "nothing of this kind")
	}
	if f.forbid {
		return refused(hitl.Forbidden, "you may not decide this")
	}
	if at.Principal.Kind != "person" && at.Principal.Kind != "rule" {
		return refused(hitl.Forbidden, "only people and rules decide here")
	}
	content, err := hitl.Evaluate(a.req, &at.Response)
	if err != nil && a.decision == nil {
		return invalid(err)
	}
	digest := hitl.Digest(a.raw)
	switch {
	case at.Digest == "" && !at.WaiveDigest:
		return invalid(hitl.Invalid("digest", "is missing"))
	case at.Digest != "" && at.Digest != digest:
		return refused(hitl.DigestMismatch, "this is not what was shown")
	}
	if a.decision == nil && !a.deadline.IsZero() && !f.now.Before(a.deadline) {
		f.close(a, hitl.Content{Outcome: hitl.Expired}, hitl.Principal{Kind: "system", ID: "gateway"}, "deadline")
	}
	if a.decision != nil {
		if content != nil {
			mine := hitl.Decision{Digest: digest, Content: *content, Principal: at.Principal}
			if mine.SameAnswer(a.decision) {
				return hitl.Receipt{Status: hitl.Duplicate, Decision: a.decision}
			}
		}
		if a.decision.Outcome == hitl.Expired {
			return hitl.Receipt{Status: hitl.TooLate, Error: "nobody decided in time", Decision: a.decision}
		}
		return hitl.Receipt{Status: hitl.AlreadyDecided, Error: "decided already", Decision: a.decision}
	}
	f.close(a, *content, at.Principal, at.Channel)
	return hitl.Receipt{Status: hitl.Accepted, Decision: a.decision}
}

func (f *fake) close(a *asked, c hitl.Content, p hitl.Principal, channel string) {
	a.decision = &hitl.Decision{
		V: 1, DecisionID: uuid.NewString(), InteractionID: a.req.ID, Digest: hitl.Digest(a.raw), Content: c,
		Principal: p, Channel: channel, DecidedAt: f.now, RequestB64: base64.StdEncoding.EncodeToString(a.raw),
	}
	if f.mute {
		return
	}
	closed := wire.Closed{Summary: a.summary, State: wire.StateClosed, Outcome: c.Outcome, Decision: a.decision.WithoutRequest()}
	f.publish(a.session, []wire.Event{
		{Type: hitl.EventInteractionResponse, Data: text(closed)},
		{Type: hitl.EventInteractionPending, Data: text(a.pending(false))},
	}, true, []wire.Closed{closed})
}

func (f *fake) pending(a *asked) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return a.decision == nil
}

func (f *fake) decided(a *asked) *hitl.Decision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return a.decision
}

func (f *fake) Start(_ context.Context, s *hitl.Start) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.runtimes) == 0 {
		return "", api.ErrNoWorker
	}
	f.started = append(f.started, s)
	return subject.NewSession(s.Tenant, s.Pool, s.SessionID).String(), nil
}

func (f *fake) Command(_ context.Context, session string, c hitl.Command) (hitl.CommandReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.resolve(session); err != nil {
		return hitl.CommandReply{}, err
	}
	f.commands = append(f.commands, c)
	return f.reply(c)
}

func (f *fake) Runtimes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runtimes
}

func (f *fake) ResolveSession(id string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resolve(id)
}

func (f *fake) resolve(id string) (string, error) {
	var hits []string
	for key, s := range f.sessions {
		if key == id {
			return key, nil
		}
		if s.SessionID == id {
			hits = append(hits, key)
		}
	}
	return sole(hits)
}

// reset forgets what was asked.
func (f *fake) reset() {
	f.set(func(f *fake) { f.list = nil })
}

func (f *fake) set(fn func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(f)
}

func (f *fake) later(d time.Duration) {
	f.set(func(f *fake) { f.now = f.now.Add(d) })
}
