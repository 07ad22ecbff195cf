package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/pkg/wire"
	"github.com/banksman/banksman/services/gateway/internal/ticket"
)

// asksOf is the caller's name, and where what it asks under a key lies.
func asksOf(caller, key string) subject.Ref {
	owner := "service:" + caller
	return subject.NewRef(bus.DefaultTenant, owner, hitl.ID(bus.DefaultTenant, owner, key, 1))
}

// call makes one call of the service API with the attacker's own name and returns the
// reply. What waits for people by it is denied.
func (a *arena) call(t *testing.T, by *attacker, name, verb string, body []byte, h nats.Header, waits ...subject.Ref) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	type answer struct {
		m   *nats.Msg
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		m, err := by.RequestMsgWithContext(ctx, &nats.Msg{Subject: "hitl.svc.default." + name + "." + verb, Data: body, Header: h})
		answered <- answer{m, err}
	}()
	for {
		select {
		case err := <-by.refused:
			require.ErrorIs(t, err, nats.ErrPermissionViolation)
			cancel()
			<-answered
			return err.Error()
		case got := <-answered:
			require.NoError(t, got.err, "%s: a call is answered", verb)
			return string(got.m.Data)
		case <-time.After(5 * time.Millisecond):
		}
		for _, ref := range waits {
			status, raw := a.g.call(http.MethodGet, "/api/interactions/"+ref.String(), a.g.token, "")
			var ix wire.Interaction
			if status != 200 || json.Unmarshal(raw, &ix) != nil || ix.State != wire.StatePending {
				continue
			}
			status, raw = a.g.call(http.MethodPost, "/api/interactions/"+ref.String()+"/decision", a.g.token, fmt.Sprintf(`{"decision":"deny","digest":%q}`, ix.Digest))
			require.Equal(t, 200, status, string(raw))
		}
	}
}

// refusal requires that a reply says what is wrong, shortly.
func refusal(t *testing.T, reply string) {
	t.Helper()
	var rec struct {
		Status hitl.Status
		Error  json.RawMessage
		Fields []hitl.Field
	}
	require.NoError(t, json.Unmarshal([]byte(reply), &rec), reply)
	e := wire.Error{Code: string(rec.Status), Fields: rec.Fields}
	if strings.HasPrefix(string(rec.Error), "{") {
		require.NoError(t, json.Unmarshal(rec.Error, &e), reply)
	} else {
		require.NoError(t, json.Unmarshal(rec.Error, &e.Error), reply)
	}
	require.NotContains(t, []string{"", string(hitl.Accepted), string(hitl.Duplicate)}, e.Code, reply)
	require.NotEmpty(t, e.Error, reply)
	if e.Code == string(hitl.BadInput) {
		require.NotEmpty(t, e.Fields, reply)
	}
	size := len(e.Error) // a receipt repeats what it is about, and its words do not
	for _, f := range e.Fields {
		size += len(f.Field) + len(f.Problem)
	}
	require.Less(t, size, 1000, "what is wrong is said without saying it all again")
}

var requestOf = `{"key":%q,"kind":"approval","title":"Run make test","tool":{"name":"Bash","input":{"command":"make test"}}%s}`

// Whatever stands in the headers of a call: it is answered as if nothing stood there, and
// nothing of it is stored with what the call asks.
func TestAttacksByHeadersOfCalls_B56(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	ci := a.attacker(t, bus.RoleCaller, "ci")
	n := 0
	for name, h := range hostile {
		a.attack(t, "header "+name, func(t *testing.T) {
			for verb, body := range map[string]string{
				"list": `{}`, "get": `{"id":"default.victim.` + keptID + `"}`, "decide": `{"id":"default.victim.` + keptID + `","decision":"allow"}`, "ticket": `{}`, "push": `{}`, "export": `{}`, "login": `{}`, "cancel": `{}`, "none": `{}`,
			} {
				reply := a.call(t, ci, "ci", verb, []byte(body), h)
				if h.Get("Nats-Trace-Dest") != "" {
					require.Contains(t, reply, "Permissions Violation", "the server takes no such call")
					continue
				}
				switch verb {
				case "list":
					require.Contains(t, reply, `"interactions"`)
				case "get":
					require.Contains(t, reply, keptID)
				default:
					refusal(t, reply)
				}
			}
			if h.Get("Nats-Trace-Dest") != "" {
				return
			}
			n++
			key := fmt.Sprintf("header-%d", n)
			at := asksOf("ci", key)
			reply := a.call(t, ci, "ci", "ask", fmt.Appendf(nil, requestOf, key, ""), h, at)
			require.Contains(t, reply, `"decided"`)
			require.Contains(t, reply, `"denied"`)
			m, err := a.prov.Request("$JS.API.DIRECT.GET.HITL_DECISIONS."+subject.Decision(at), nil, patience)
			require.NoError(t, err)
			var d hitl.Decision
			require.NoError(t, json.Unmarshal(m.Data, &d))
			require.Equal(t, at.ID, d.InteractionID)
			for k, v := range m.Header {
				switch k {
				case hitl.HeaderSigner, hitl.HeaderSignature:
				case "Nats-Expected-Last-Subject-Sequence":
					require.Equal(t, []string{"0"}, v, "the gateway's own")
				case "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence": // the server's, once
					require.Len(t, v, 1, k)
				default:
					require.Contains(t, strings.ToLower(k), "trace", "no header of the caller is stored")
					require.NotEqual(t, "Nats-Trace-Dest", k)
				}
			}
			require.Equal(t, "HITL_DECISIONS", m.Header.Get("Nats-Stream"))
			require.Equal(t, subject.Decision(at), m.Header.Get("Nats-Subject"))
		})
	}
	a.finish()
}

// Whatever a caller calls what it asks, and its session: it is its own, beside whatever
// else has that name.
func TestAttacksByNamesInCalls_B56(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	ci := a.attacker(t, bus.RoleCaller, "ci")
	for name, more := range map[string]string{
		"another's session":         `,"session_id":"s1"`,
		"another's session and key": `,"session_id":"s1","tool_call_id":"call-kept","turn_id":"t"`,
		"the session's key":         `,"session_id":"default.victim.s1"`,
		"the parent of another":     `,"parent_session":"s1","session_id":"s2"`,
		"a wildcard for a session":  `,"session_id":"*"`,
		"all sessions":              `,"session_id":">"`,
		"another's name":            `,"agent_name":"victim","source":{"agent":"victim"}`,
		"a subject for a session":   `,"session_id":"s1.` + keptID + `.closed"`,
		"a control sign":            `,"session_id":"s\u0000\r\n1"`,
		"a turned name":             `,"session_id":"\u202es1"`,
	} {
		a.attack(t, "a caller names "+name, func(t *testing.T) {
			key := "name " + name
			at := asksOf("ci", key)
			reply := a.call(t, ci, "ci", "ask", fmt.Appendf(nil, requestOf, key, more), nil, at)
			if !strings.Contains(reply, `"decided"`) {
				refusal(t, reply)
				return
			}
			status, raw := a.g.call(http.MethodGet, "/api/interactions/"+at.String(), a.g.token, "")
			require.Equal(t, 200, status)
			var ix wire.Interaction
			require.NoError(t, json.Unmarshal(raw, &ix))
			require.Equal(t, "service:ci", ix.Owner)
			require.NotEqual(t, "default.victim.s1", ix.SessionKey)
		})
	}
	for _, key := range []string{"kept", keptID, "default.victim." + keptID} {
		a.attack(t, "a caller asks by another's key "+key, func(t *testing.T) {
			require.Contains(t, a.call(t, ci, "ci", "ask", fmt.Appendf(nil, requestOf, key, ""), nil, asksOf("ci", key)), `"denied"`)
		})
	}
	for name, more := range map[string]string{"an owner": `,"owner":"victim"`, "a tenant": `,"tenant":"other"`, "an id": `,"id":"` + keptID + `"`, "two keys": `,"Key":"kept"`} {
		a.attack(t, "a caller names "+name, func(t *testing.T) {
			refusal(t, a.call(t, ci, "ci", "ask", fmt.Appendf(nil, requestOf, "more "+name, more), nil))
		})
	}
	for name, id := range map[string]string{
		"any": "*", "all": ">", "all of an owner": "default.victim.*", "all of a tenant": "default.>", "any owner's": "default.*." + keptID, "nothing": ".", "dots": "....", "a path": "../../" + keptID, "a subject": "hitl.dec.default.victim." + keptID,
		"a zero byte": keptID + "\x00", "a line": keptID + "\r\nPUB x 0\r\n", "another tenant's": "other.evil." + keptID, "4,000 bytes": strings.Repeat("a", 4000), "4,000 dots": strings.Repeat(".", 4000), "a turned id": "\u202e" + keptID,
	} {
		a.attack(t, "an id that is "+name, func(t *testing.T) {
			for _, verb := range []string{"get", "decide", "export"} {
				body, err := hitl.Marshal(map[string]any{"id": id, "decision": "allow", "token": strings.Repeat("A", 43)})
				require.NoError(t, err)
				refusal(t, a.call(t, ci, "ci", verb, body, nil))
			}
		})
	}
	a.finish()
}

// Each field of each call, filled to 4,000 bytes: it is refused in few words, or it is
// the caller's own that waits, and can be settled.
func TestAttacksByLongFieldsOfCalls_B56(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	ci, notifier := a.attacker(t, bus.RoleCaller, "ci"), a.attacker(t, bus.RoleNotifier, "")
	long := strings.Repeat("a", 4000)
	for verb, fields := range map[string][]string{
		"list":   {"state", "after"},
		"get":    {"id"},
		"decide": {"id", "token", "person", "ref", "session_id", "request_id", "tool_call_id", "request_type", "digest", "shown", "decision", "option_id", "answers", "content", "action", "message", "comment", "updated_input", "scope"},
		"export": {"id", "token"},
		"login":  {"poll", "name"},
		"ticket": {"key", "people", "recipient", "channel", "via", "token"},
		"push":   {"user", "gone"},
		"cancel": {"id"},
		"ask":    {"key", "session_id", "project_id", "parent_session", "agent_name", "turn_id", "tool_call_id", "title", "message", "reason", "risk", "kind", "audience", "expires_in", "url"},
	} {
		a.attack(t, "long fields of "+verb, func(t *testing.T) {
			for _, field := range fields {
				for _, v := range []any{long, []string{long}, map[string]string{long: long}} {
					in := map[string]any{}
					key := fmt.Sprintf("long %s %T", field, v)
					if verb == "ask" {
						require.NoError(t, json.Unmarshal(fmt.Appendf(nil, requestOf, key, ""), &in))
					}
					in[field] = v
					body, err := hitl.Marshal(in)
					require.NoError(t, err)
					by, name := ci, "ci"
					if verb == "ticket" || verb == "push" {
						by, name = notifier, "notifier"
					}
					reply := a.call(t, by, name, verb, body, nil, asksOf(name, key))
					switch {
					case verb == "ask" && strings.Contains(reply, `"decided"`):
						require.Contains(t, reply, `"denied"`)
					default:
						refusal(t, reply)
					}
				}
			}
		})
	}
	a.finish()
}

// A flood of calls of one tenant's caller, or of its notifier: a bystander of another
// tenant asks and is answered meanwhile, a person decides at the gateway, and another
// caller's call is answered.
func TestFloodsOfCallsLeaveOtherTenantsAlone_B56(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	other := a.client("other/evil")
	waits := ask(t, other, "told")
	waiting := subject.NewRef("other", "evil", hitl.ID("other", "evil", "told", 1)).String()
	require.Eventually(t, func() bool { return a.pending(waiting) }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return a.count(a.prov, journal.Events, "hitl.ixe.other.evil.>") == 1 }, patience, 5*time.Millisecond)
	ci := a.attacker(t, bus.RoleCaller, "ci")
	link := mint(t, a.notifier(), "default.victim."+keptID, "owner")
	for _, f := range []struct {
		verb, name string
		role       bus.Role
		body       func(i int) string
	}{
		{"list", "ci", bus.RoleCaller, func(i int) string { return fmt.Sprintf(`{"state":"closed","limit":%d}`, i%1000) }},
		{"get", "ci", bus.RoleCaller, func(i int) string { return fmt.Sprintf(`{"id":"other.evil.none%d"}`, i) }},
		{"decide", "ci", bus.RoleCaller, func(i int) string {
			return fmt.Sprintf(`{"id":%q,"token":"%043d","decision":"allow","digest":"d"}`, waiting, i)
		}},
		{"export", "ci", bus.RoleCaller, func(i int) string { return fmt.Sprintf(`{"id":%q,"token":"%043d"}`, waiting, i) }},
		{"ask", "ci", bus.RoleCaller, func(i int) string { return fmt.Sprintf(requestOf, fmt.Sprint("flood-", i), "") }},
		{"ticket", "notifier", bus.RoleNotifier, func(int) string {
			return fmt.Sprintf(`{"key":%q,"people":["owner"],"recipient":"r","channel":"c","via":"link"}`, waiting)
		}},
		{"decide", "notifier", bus.RoleNotifier, func(i int) string {
			return fmt.Sprintf(`{"id":%q,"token":"ticket_%043d","person":"owner","as_told":true,"decision":"allow"}`, waiting, i)
		}},
		{"login", "ci", bus.RoleCaller, func(i int) string { return fmt.Sprintf(`{"name":"terminal %d","poll":"%043d"}`, i, i) }},
		{"push", "notifier", bus.RoleNotifier, func(i int) string { return fmt.Sprintf(`{"user":"owner","gone":["%d"]}`, i) }},
	} {
		a.attack(t, "flood of "+f.verb+" by the "+f.name+" of another tenant", func(t *testing.T) {
			who := "other/ci"
			if f.role == bus.RoleNotifier {
				who = "other/"
			}
			began, end := a.floodUntil(f.role, who, 2000, func(i int) *nats.Msg {
				return &nats.Msg{Subject: "hitl.svc.other." + f.name + "." + f.verb, Reply: fmt.Sprintf("_INBOX.x.%d", i), Data: []byte(f.body(i))}
			})
			select {
			case <-began:
			case <-time.After(patience):
				t.Fatal("the flood did not begin: ", end())
			}
			for range 3 {
				a.trips++
				roundTrip(t, a.agents, a.g, fmt.Sprintf("calls-%d", a.trips))
			}
			require.Contains(t, a.call(t, ci, "ci", "list", nil, nil), keptID, "another caller is answered")
			require.NoError(t, end(), "the flood ended before the bystander was done")
			require.True(t, a.pending(waiting), "nothing of it decided anything")
			page := visit(t, a.g, http.MethodGet, ticket.Page+link.Token, nil)
			require.Equal(t, 200, page.status, "the tickets of others are as good as before")
			require.Contains(t, page.text, `name="word"`)
		})
	}
	// And the flooded tenant's own go on.
	status, raw := a.g.call(http.MethodGet, "/api/interactions/"+waiting, a.g.token, "")
	require.Equal(t, 200, status)
	var ix wire.Interaction
	require.NoError(t, json.Unmarshal(raw, &ix))
	status, raw = a.g.call(http.MethodPost, "/api/interactions/"+waiting+"/decision", a.g.token, fmt.Sprintf(`{"decision":"allow","digest":%q}`, ix.Digest))
	require.Equal(t, 200, status, string(raw))
	require.Equal(t, hitl.Allowed, take(t, waits).Decision.Outcome)
	a.finish()
}
