// Command decider is an example of a service that Banksman asks before it asks
// people: it answers by rules in CEL (https://cel.dev), and leaves to people what no
// rule is about. It needs nothing of Banksman's code: an event comes in, by a signed
// HTTP request or over NATS, and a small JSON object goes out.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Rule decides what its condition is about.
type Rule struct {
	Name string `json:"name"`
	When string `json:"when"` // a CEL expression
	Then string `json:"then"` // allow, deny or pass
	Say  string `json:"say"`  // to the agent, with a denial

	program cel.Program
}

// Policy is the rules in their order: the first whose condition holds decides.
type Policy struct {
	Rules []*Rule `json:"rules"`
}

// event is the part of a request that is looked at.
type event struct {
	Type string `json:"type"`
	Data struct {
		Interaction struct {
			Key     string `json:"key"`
			Kind    string `json:"kind"`
			Tool    string `json:"tool_name"`
			Risk    string `json:"risk"`
			Project string `json:"project_id"`
			Agent   string `json:"agent_name"`
			Owner   string `json:"owner"`
			Digest  string `json:"digest"`
			Body    struct {
				Input string `json:"input"`
			} `json:"body"`
		} `json:"interaction"`
	} `json:"data"`
}

type answer struct {
	Decision string `json:"decision"`
	Digest   string `json:"digest"`
	Message  string `json:"message,omitempty"`
	Comment  string `json:"comment,omitempty"`
}

func load(path string) (*Policy, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var p Policy
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	env, err := cel.NewEnv(
		cel.Variable("kind", cel.StringType), cel.Variable("tool", cel.StringType), cel.Variable("risk", cel.StringType),
		cel.Variable("project", cel.StringType), cel.Variable("agent", cel.StringType), cel.Variable("owner", cel.StringType),
		cel.Variable("input", cel.MapType(cel.StringType, cel.DynType)),
	)
	if err != nil {
		return nil, err
	}
	for _, r := range p.Rules {
		if r.Then != "allow" && r.Then != "deny" && r.Then != "pass" {
			return nil, fmt.Errorf("%s: rule %q: then must be allow, deny or pass", path, r.Name)
		}
		ast, issues := env.Compile(r.When)
		if issues.Err() != nil {
			return nil, fmt.Errorf("%s: rule %q: %w", path, r.Name, issues.Err())
		}
		if ast.OutputType() != cel.BoolType {
			return nil, fmt.Errorf("%s: rule %q: the condition is no bool", path, r.Name)
		}
		if r.program, err = env.Program(ast); err != nil {
			return nil, fmt.Errorf("%s: rule %q: %w", path, r.Name, err)
		}
	}
	return &p, nil
}

// decide answers by the first rule that holds. A condition that cannot be computed,
// of a field that is not there for example, does not hold.
func (p *Policy) decide(e *event) answer {
	ix := &e.Data.Interaction
	input := map[string]any{}
	if ix.Body.Input != "" {
		if err := json.Unmarshal([]byte(ix.Body.Input), &input); err != nil {
			return answer{Decision: "pass", Digest: ix.Digest}
		}
	}
	for _, r := range p.Rules {
		out, _, err := r.program.Eval(map[string]any{
			"kind": ix.Kind, "tool": ix.Tool, "risk": ix.Risk, "project": ix.Project, "agent": ix.Agent, "owner": ix.Owner, "input": input,
		})
		if err != nil {
			continue
		}
		if yes, ok := out.Value().(bool); ok && yes {
			a := answer{Decision: r.Then, Digest: ix.Digest, Comment: "rule " + r.Name}
			if r.Then == "deny" {
				a.Message = r.Say
			}
			return a
		}
	}
	return answer{Decision: "pass", Digest: ix.Digest}
}

// verify checks a signature as https://www.standardwebhooks.com describes.
func verify(key []byte, head http.Header, body []byte) error {
	id, stamp := head.Get("webhook-id"), head.Get("webhook-timestamp")
	sec, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || time.Since(time.Unix(sec, 0)).Abs() > 5*time.Minute {
		return errors.New("the timestamp is not of now")
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, have := range strings.Fields(head.Get("webhook-signature")) {
		if hmac.Equal([]byte(have), []byte(want)) {
			return nil
		}
	}
	return errors.New("no signature holds")
}

func (p *Policy) handler(key []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		if err := verify(key, r.Header, body); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		var e event
		if err := json.Unmarshal(body, &e); err != nil {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		reply := p.answer(&e)
		if reply == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write(reply); err != nil {
			log.Print(err)
		}
	}
}

// answer is what is said to an event; nil where it only tells how something ended.
func (p *Policy) answer(e *event) []byte {
	if e.Type != "banksman.interaction.ask" {
		return nil
	}
	a := p.decide(e)
	log.Printf("%s %s: %s (%s)", e.Data.Interaction.Key, e.Data.Interaction.Tool, a.Decision, a.Comment)
	raw, err := json.Marshal(a)
	if err != nil {
		log.Print(err)
		return nil
	}
	return raw
}

// serveHTTP answers at an address.
func (p *Policy) serveHTTP(listen string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("DECIDER_SECRET"), "whsec_"))
	if err != nil || len(key) < 24 {
		return errors.New("DECIDER_SECRET must be the secret of the notifier's configuration (whsec_...)")
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	log.Printf("asked at http://%s", l.Addr())
	s := &http.Server{Handler: p.handler(key), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	return s.Serve(l)
}

// serveNATS answers in the account of a caller. Nobody but the notifier of its tenant
// can ask there, so nothing is signed. It is a queue group: several of these share the
// work.
func (p *Policy) serveNATS(file string) error {
	var creds struct {
		Tenant string   `json:"tenant"`
		Name   string   `json:"name"`
		URLs   []string `json:"urls"`
		Seed   string   `json:"seed"`
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &creds); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	pair, err := nkeys.FromSeed([]byte(creds.Seed))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return err
	}
	closed := make(chan struct{})
	nc, err := nats.Connect(strings.Join(creds.URLs, ","), nats.Nkey(public, pair.Sign), nats.MaxReconnects(-1),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		return err
	}
	subject := fmt.Sprintf("hitl.decider.%s.%s", creds.Tenant, creds.Name)
	_, err = nc.QueueSubscribe(subject, "deciders", func(m *nats.Msg) {
		var e event
		if err := json.Unmarshal(m.Data, &e); err != nil {
			return // silence leaves it to people
		}
		if err := m.Respond(p.answer(&e)); err != nil {
			log.Print(err)
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		return err
	}
	log.Printf("asked on %s", subject)
	<-closed
	return errors.New("the connection is closed")
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8090", "`address` to be asked at")
	creds := flag.String("creds", "", "credential `file` of a caller, to be asked over NATS in place of HTTP")
	rules := flag.String("rules", "rules.json", "`file` of rules")
	flag.Parse()
	policy, err := load(*rules)
	if err != nil {
		log.Fatal(err)
	}
	if *creds != "" {
		log.Fatal(policy.serveNATS(*creds))
	}
	log.Fatal(policy.serveHTTP(*listen))
}
