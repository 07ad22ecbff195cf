package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/banksman/banksman/pkg/hitl"
)

// provisionTimeout bounds one call of Provision and Check.
const provisionTimeout = 10 * time.Second

// safeStream and safeConsumer are the fields that Provision may change on what
// exists already: sizes, times and compression. Whatever carries a guarantee is never
// changed silently, because a stream that had lost it has proven nothing
// meanwhile.
var (
	safeStream   = []string{"max_bytes", "max_age", "max_msg_size", "num_replicas", "duplicate_window", "compression"}
	safeConsumer = []string{"ack_wait", "max_ack_pending", "max_deliver"}
	// ignored fields never matter here.
	ignored = []string{"metadata", "description", "placement", "name"}
)

// Provision creates the streams, durables and buckets that are missing and
// brings sizes, times and compression of existing ones to cfg. nc needs the provisioner's
// rights. Anything else that differs is left as it is and reported as ErrDrift.
func Provision(ctx context.Context, nc *nats.Conn, cfg Config) error {
	a := api{nc, provisionTimeout}
	var drift []string
	for _, s := range cfg.streams() {
		diff, err := a.stream(ctx, cfg, s)
		if err != nil {
			return err
		}
		switch {
		case diff == nil:
		case diff.missing:
			if err := a.call(ctx, "STREAM.CREATE."+s.name(), s, nil); err != nil {
				return fmt.Errorf("create stream %s: %w", s.name(), err)
			}
		case diff.safe(safeStream):
			if err := a.call(ctx, "STREAM.UPDATE."+s.name(), diff.merged(s), nil); err != nil {
				return fmt.Errorf("update stream %s: %w", s.name(), err)
			}
		default:
			drift = append(drift, diff.lines()...)
		}
	}
	for _, c := range cfg.consumers() {
		diff, err := a.consumer(ctx, c)
		if err != nil {
			return err
		}
		req := spec{"stream_name": c.stream, "config": c.spec}
		call := "CONSUMER.DURABLE.CREATE." + c.stream + "." + c.name
		switch {
		case diff == nil:
		case diff.missing:
			if err := a.call(ctx, call, req.with(spec{"action": "create"}), nil); err != nil {
				return fmt.Errorf("create consumer %s of %s: %w", c.name, c.stream, err)
			}
		case diff.safe(safeConsumer):
			if err := a.call(ctx, call, req.with(spec{"action": "update"}), nil); err != nil {
				return fmt.Errorf("update consumer %s of %s: %w", c.name, c.stream, err)
			}
		default:
			drift = append(drift, diff.lines()...)
		}
	}
	return driftErr(drift)
}

// Check compares what the server has with cfg, without changing anything. The
// error is ErrDrift and names every difference. Sizes, replicas and retention
// that cfg leaves at zero are the operator's and are not compared; that every
// stream has a size limit is.
func Check(ctx context.Context, nc *nats.Conn, cfg Config) error {
	a := api{nc, provisionTimeout}
	var drift []string
	for _, s := range cfg.streams() {
		diff, err := a.stream(ctx, cfg, s)
		if err != nil {
			return err
		}
		drift = append(drift, diff.lines()...)
	}
	for _, c := range cfg.consumers() {
		diff, err := a.consumer(ctx, c)
		if err != nil {
			return err
		}
		drift = append(drift, diff.lines()...)
	}
	return driftErr(drift)
}

func driftErr(drift []string) error {
	if len(drift) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrDrift, strings.Join(drift, "; "))
}

// difference is how a stream or consumer deviates. Nil is none.
type difference struct {
	what    string
	missing bool
	got     map[string]json.RawMessage
	fields  map[string]string // field: how it differs
}

func (d *difference) lines() []string {
	if d == nil {
		return nil
	}
	if d.missing {
		return []string{d.what + " is missing"}
	}
	var lines []string
	for _, how := range slices.Sorted(maps.Values(d.fields)) {
		lines = append(lines, d.what+": "+how)
	}
	return lines
}

func (d *difference) safe(fields []string) bool {
	for k := range d.fields {
		if !slices.Contains(fields, k) {
			return false
		}
	}
	return true
}

// merged is the server's configuration with the fields that differ set to
// want's: what the operator decided elsewhere stays.
func (d *difference) merged(want spec) spec {
	m := spec{}
	for k, v := range d.got {
		m[k] = v
	}
	for k := range d.fields {
		m[k] = want[k]
	}
	return m
}

func (a api) stream(ctx context.Context, cfg Config, want spec) (*difference, error) {
	name := want.name()
	what := "stream " + name
	var info streamInfo
	err := a.call(ctx, "STREAM.INFO."+name, nil, &info)
	if apiCode(err) == codeStreamNotFound {
		return &difference{what: what, missing: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", name, err)
	}
	d, err := compare(what, want, info.Config, cfg.open(name))
	if err != nil {
		return nil, err
	}
	var size struct {
		MaxBytes int64 `json:"max_bytes"`
	}
	if err := json.Unmarshal(info.Config, &size); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if size.MaxBytes <= 0 && d.fields["max_bytes"] == "" {
		d.fields["max_bytes"] = "max_bytes is without limit"
	}
	return d.orNil(), nil
}

func (a api) consumer(ctx context.Context, c consumer) (*difference, error) {
	what := "consumer " + c.name + " of " + c.stream
	var info consumerInfo
	err := a.call(ctx, "CONSUMER.INFO."+c.stream+"."+c.name, nil, &info)
	if code := apiCode(err); code == codeConsumerNotFound || code == codeStreamNotFound {
		return &difference{what: what, missing: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	d, err := compare(what, c.spec, info.Config, nil)
	if err != nil {
		return nil, err
	}
	return d.orNil(), nil
}

func (d *difference) orNil() *difference {
	if len(d.fields) == 0 {
		return nil
	}
	return d
}

// compare holds the server's configuration against want. A field that want
// does not name must be off, so that features of later servers count too.
func compare(what string, want spec, raw json.RawMessage, skip []string) (*difference, error) {
	d := &difference{what: what, fields: map[string]string{}}
	if err := json.Unmarshal(raw, &d.got); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	var errs []error
	for k, v := range want {
		if slices.Contains(skip, k) || slices.Contains(ignored, k) {
			continue
		}
		w, err := canonical(v)
		errs = append(errs, err)
		g := []byte("null")
		if raw, ok := d.got[k]; ok {
			g, err = canonical(raw)
			errs = append(errs, err)
		}
		if string(w) != string(g) && !(off(w) && off(g)) {
			d.fields[k] = fmt.Sprintf("%s is %s, not %s", k, g, w)
		}
	}
	for k, raw := range d.got {
		if _, named := want[k]; named || slices.Contains(ignored, k) {
			continue
		}
		g, err := canonical(raw)
		errs = append(errs, err)
		if !off(g) {
			d.fields[k] = fmt.Sprintf("%s is %s, not off", k, g)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("compare %s: %w", what, err)
	}
	return d, nil
}

func canonical(v any) ([]byte, error) {
	raw, err := hitl.Marshal(v)
	if err != nil {
		return nil, err
	}
	return hitl.Canonical(raw)
}

// off reports whether a canonical value says that a feature is not used.
func off(v []byte) bool {
	switch string(v) {
	case "null", "false", "0", `""`, "[]", "{}":
		return true
	}
	return false
}
