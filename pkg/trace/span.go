package trace

import (
	"context"
	"regexp"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// scope names the instrumentation in what is exported.
const scope = "github.com/banksman/banksman"

// Step is something that gets a span.
type Step struct {
	name      string
	kind      trace.SpanKind
	operation string // of OpenTelemetry's conventions for messages; "" is none
	subject   string // with placeholders
}

// The steps of an interaction, in their order.
var (
	Ask     = Step{"ask", trace.SpanKindProducer, "send", "hitl.req.{tenant}.{owner}.{id}"}
	Intake  = Step{"intake", trace.SpanKindConsumer, "process", "hitl.req.{tenant}.{owner}.{id}"}
	Cancel  = Step{"cancel", trace.SpanKindConsumer, "process", "hitl.cxl.{tenant}.{owner}.{id}"}
	Notify  = Step{"notify", trace.SpanKindClient, "", ""}
	Decide  = Step{"decide", trace.SpanKindProducer, "send", "hitl.dec.{tenant}.{owner}.{id}"}
	Deliver = Step{"deliver", trace.SpanKindConsumer, "process", "hitl.inbox.{tenant}.{owner}.{id}"}
	Run     = Step{"run", trace.SpanKindInternal, "", ""}
	Close   = Step{"close", trace.SpanKindProducer, "send", "hitl.ixe.{tenant}.{owner}.{session}.{id}.closed"}
)

// Tracer makes spans. A nil one makes none, at the cost of looking.
type Tracer struct{ t trace.Tracer }

// New is the Tracer of a provider; nil for none.
func New(p trace.TracerProvider) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{p.Tracer(scope)}
}

// Start begins the span of a step below where ctx is. The caller ends it. ref may
// be zero and told later.
func (t *Tracer) Start(ctx context.Context, s Step, ref subject.Ref) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	ctx, span := t.t.Start(ctx, s.name, trace.WithSpanKind(s.kind))
	out := &Span{span}
	if s.operation != "" && span.IsRecording() {
		span.SetAttributes(
			attribute.String("messaging.system", "nats"),
			attribute.String("messaging.operation.name", s.name),
			attribute.String("messaging.operation.type", s.operation),
			attribute.String("messaging.destination.template", s.subject),
		)
	}
	out.Of(ref)
	return ctx, out
}

// Join is Start for who only goes on with a trace: without one in ctx it begins none.
func (t *Tracer) Join(ctx context.Context, s Step, ref subject.Ref) (context.Context, *Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, nil
	}
	return t.Start(ctx, s, ref)
}

// Span is a step under way. All of a nil one does nothing.
type Span struct{ s trace.Span }

// Of names the interaction.
func (s *Span) Of(ref subject.Ref) {
	if s.set() && ref.ID != "" {
		s.s.SetAttributes(
			attribute.String("banksman.tenant", ref.Tenant),
			attribute.String("banksman.owner", ref.Owner),
			attribute.String("banksman.interaction.id", ref.ID),
		)
	}
}

// Asks says what kind of request it is, and which tool asks.
func (s *Span) Asks(r *hitl.Request) {
	if !s.set() {
		return
	}
	s.s.SetAttributes(attribute.String("banksman.kind", name(r.Kind)))
	if r.Tool != nil {
		s.s.SetAttributes(attribute.String("gen_ai.tool.name", name(r.Tool.Name)))
	}
}

// Attempt is which asking of the same key it is.
func (s *Span) Attempt(n int) {
	if s.set() {
		s.s.SetAttributes(attribute.Int("banksman.attempt", n))
	}
}

// Outcome is how the interaction ended.
func (s *Span) Outcome(o hitl.Outcome) {
	if s.set() {
		s.s.SetAttributes(attribute.String("banksman.outcome", name(string(o))))
	}
}

// Stage is what became of a decision at the asker.
func (s *Span) Stage(stage string) {
	if s.set() {
		s.s.SetAttributes(attribute.String("banksman.stage", name(stage)))
	}
}

// Channel is the way a decision came, or the type of channel a message goes by.
func (s *Span) Channel(c string) {
	if s.set() {
		s.s.SetAttributes(attribute.String("banksman.channel", name(c)))
	}
}

// Sent ends it: a message went by a type of channel, or failed to.
func (s *Span) Sent(channel string, failure error) {
	s.Channel(channel)
	if failure != nil {
		s.Fail("not_sent")
	}
	s.End()
}

// Link joins it with another place, of another trace or of this one.
func (s *Span) Link(p Point) {
	if s.set() && p.at != nil && !p.at.Equal(s.s.SpanContext().WithRemote(true)) {
		s.s.AddLink(trace.Link{SpanContext: *p.at})
	}
}

// Fail says that the step failed, with a word of the program's own: an error's text
// may quote people, and what they look at.
func (s *Span) Fail(why string) {
	if s.set() {
		s.s.SetAttributes(attribute.String("error.type", why))
		s.s.SetStatus(codes.Error, "")
	}
}

// End ends it.
func (s *Span) End() {
	if s != nil {
		s.s.End()
	}
}

func (s *Span) set() bool { return s != nil && s.s.IsRecording() }

var plain = regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,128}$`)

// name lets names through, and no text.
func name(v string) string {
	if plain.MatchString(v) {
		return v
	}
	return "other"
}
