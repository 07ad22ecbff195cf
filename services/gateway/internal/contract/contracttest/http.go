package contracttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

type operation struct {
	route       string // as a pattern of a ServeMux
	RequestBody *struct {
		Required bool
		Content  map[string]struct{ Schema *schema }
	}
	Parameters []struct {
		Name, In string
		Schema   *schema
	}
	Responses map[string]response
}

type response struct {
	Ref     string   `json:"$ref"`
	Codes   []string `json:"x-codes"`
	Content map[string]struct {
		Schema *schema
		Events map[string]*schema `json:"x-events"`
	}
}

func (c *Contract) loadRoutes(raw []byte) error {
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]*operation
		Components struct {
			Schemas   map[string]*schema
			Responses map[string]response
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return err
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		return fmt.Errorf("version %q", doc.OpenAPI)
	}
	c.bodies = shelf{defs: doc.Components.Schemas, compiled: map[string]*jsonschema.Resolved{}}
	c.ops = doc.Paths
	for path, ops := range c.ops {
		for method, op := range ops {
			op.route = strings.ToUpper(method) + " " + path
			for status, r := range op.Responses {
				if r.Ref == "" {
					continue
				}
				shared, ok := doc.Components.Responses[strings.TrimPrefix(r.Ref, "#/components/responses/")]
				if !ok {
					return fmt.Errorf("%s %s %s: nothing is at %s", method, path, status, r.Ref)
				}
				op.Responses[status] = shared
			}
		}
	}
	return nil
}

// Routes are the operations, as patterns of a ServeMux.
func (c *Contract) Routes() []string {
	var list []string
	for _, ops := range c.ops {
		for _, op := range ops {
			list = append(list, op.route)
		}
	}
	slices.Sort(list)
	return list
}

// Refusals are the statuses from 400 on that the document names for a route.
func (c *Contract) Refusals(route string) []int {
	method, path, _ := strings.Cut(route, " ")
	var list []int
	for text := range c.ops[path][strings.ToLower(method)].Responses {
		if status, err := strconv.Atoi(text); err == nil && status >= 400 {
			list = append(list, status)
		}
	}
	slices.Sort(list)
	return list
}

// find is the operation for a request; known says that the path is there.
func (c *Contract) find(method, path string) (op *operation, known bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	parts := strings.Split(path, "/")
	best := -1 // of what fits, the one with the most literal parts
	for pattern, ops := range c.ops {
		want := strings.Split(pattern, "/")
		literal := 0
		fits := len(want) == len(parts)
		for i := 0; fits && i < len(want); i++ {
			if strings.HasPrefix(want[i], "{") {
				fits = parts[i] != ""
				continue
			}
			literal++
			fits = want[i] == parts[i]
		}
		if fits && literal > best {
			best = literal
			op, known = ops[strings.ToLower(method)], true
		}
	}
	return op, known
}

// exchange is one request with its answer, bodies included.
type exchange struct {
	method string
	url    *url.URL
	header http.Header
	body   []byte
	status int
	kind   string // media type of the answer
	reply  []byte
}

var errUndocumented = errors.New("the document does not name this")

func (c *Contract) check(x *exchange) error {
	if !strings.HasPrefix(x.url.Path, "/api/") && x.url.Path != "/healthz" && x.url.Path != "/readyz" {
		return nil // the web app
	}
	op, _ := c.find(x.method, x.url.EscapedPath())
	if op == nil {
		if x.status != http.StatusNotFound && x.status != http.StatusMethodNotAllowed && x.status != http.StatusMisdirectedRequest && x.status != http.StatusForbidden {
			return fmt.Errorf("%w: %d of a route that is not there", errUndocumented, x.status)
		}
		return c.failure(x, nil)
	}
	r, ok := op.Responses[strconv.Itoa(x.status)]
	if !ok {
		return fmt.Errorf("%w: status %d", errUndocumented, x.status)
	}
	if x.status < 300 {
		if err := c.taken(op, x); err != nil {
			return fmt.Errorf("the gateway took what the document refuses: %w", err)
		}
	}
	content, ok := r.Content[x.kind]
	switch {
	case len(r.Content) == 0 && len(x.reply) == 0:
		return nil
	case !ok:
		return fmt.Errorf("%w: content of type %q", errUndocumented, x.kind)
	case x.kind != "application/json" || x.method == http.MethodHead:
		return nil
	case x.status >= 400:
		return c.failure(x, r.Codes)
	}
	v, err := decode(x.reply)
	if err != nil {
		return err
	}
	return c.bodies.check(content.Schema, v, true)
}

// failure checks an error. codes, if there are any, are those that may come.
func (c *Contract) failure(x *exchange, codes []string) error {
	if x.method == http.MethodHead {
		return nil
	}
	v, err := decode(x.reply)
	if err != nil {
		return err
	}
	if err := c.bodies.check(&schema{Ref: "#/$defs/Error"}, v, true); err != nil {
		return err
	}
	code, _ := v.(map[string]any)["code"].(string)
	if len(codes) > 0 && !slices.Contains(codes, code) {
		return fmt.Errorf("%w: code %q with status %d", errUndocumented, code, x.status)
	}
	return nil
}

// taken checks what a request brought that was not refused.
func (c *Contract) taken(op *operation, x *exchange) error {
	for _, p := range op.Parameters {
		text := ""
		switch p.In {
		case "query":
			text = x.url.Query().Get(p.Name)
		case "header":
			text = x.header.Get(p.Name)
		}
		if text == "" {
			continue
		}
		var v any = text
		switch p.Schema.Type {
		case "array": // each value comes under the name again
			list := []any{}
			for _, each := range x.url.Query()[p.Name] {
				list = append(list, each)
			}
			v = list
		case "integer":
			n, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			v = n
		}
		if err := c.bodies.check(p.Schema, v, false); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	if op.RequestBody == nil {
		return nil
	}
	if len(x.body) == 0 {
		if op.RequestBody.Required {
			return errors.New("no body")
		}
		return nil
	}
	v, err := decode(x.body)
	if err != nil {
		return err
	}
	return c.bodies.check(op.RequestBody.Content["application/json"].Schema, v, false)
}

// Transport checks what passes it.
type Transport struct {
	*Contract
	Base http.RoundTripper
	// Report is told what does not fit; it may be called concurrently, also
	// while a stream is read.
	Report func(error)
	// Seen, if set, is told the status that a route answered with.
	Seen func(route string, status int)
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodOptions && req.Header.Get("Access-Control-Request-Method") != "" {
		return t.Base.RoundTrip(req) // a preflight is between browser and server
	}
	x := &exchange{method: req.Method, url: req.URL, header: req.Header}
	if req.Body != nil {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close() // it was read whole
		x.body = raw
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(raw))
	}
	res, err := t.Base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.status = res.StatusCode
	if op, _ := t.find(x.method, x.url.EscapedPath()); op != nil && t.Seen != nil {
		t.Seen(op.route, x.status)
	}
	x.kind, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type"))
	report := func(err error) {
		if err != nil {
			t.Report(fmt.Errorf("%s %s: %d: %w\nsent %.300s\ngot  %.1000s", x.method, x.url.Path, x.status, err, x.body, x.reply))
		}
	}
	switch {
	case x.status == http.StatusSwitchingProtocols:
	case x.kind == "text/event-stream":
		report(t.check(x))
		op, _ := t.find(x.method, x.url.EscapedPath())
		if op != nil {
			res.Body = &stream{ReadCloser: res.Body, events: op.Responses["200"].Content[x.kind].Events, shelf: &t.bodies, report: report}
		}
	default:
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return nil, err
		}
		x.reply = raw
		res.Body = io.NopCloser(bytes.NewReader(raw))
		report(t.check(x))
	}
	return res, nil
}

// stream checks the events that are read from it.
type stream struct {
	io.ReadCloser
	events map[string]*schema
	shelf  *shelf
	report func(error)

	mu        sync.Mutex
	rest      []byte // of a line that is not whole yet
	typ, data string
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p[:n]...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			return n, err
		}
		s.rest = rest
		s.line(string(line))
	}
}

func (s *stream) line(line string) {
	name, value, _ := strings.Cut(line, ": ")
	switch {
	case name == "event":
		s.typ = value
	case name == "data":
		s.data = value
	case name == "id" || name == "at" || strings.HasPrefix(line, ":"):
	case line == "" && s.typ != "":
		want, ok := s.events[s.typ]
		v, err := decode([]byte(s.data))
		if !ok {
			err = fmt.Errorf("%w: event %q", errUndocumented, s.typ)
		}
		if err == nil {
			err = s.shelf.check(want, v, true)
		}
		if err != nil {
			s.report(fmt.Errorf("event %s: %w\nin %s", s.typ, err, s.data))
		}
		s.typ, s.data = "", ""
	case line != "":
		s.report(fmt.Errorf("%w: the line %q", errUndocumented, line))
	}
}
