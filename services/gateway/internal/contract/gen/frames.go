package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

const draft = "https://json-schema.org/draft/2020-12/schema"

// clientFrames are the fields of wire.Client by the type of the frame.
var clientFrames = []struct {
	typ, name, doc     string
	required, optional []string
}{
	{
		wire.TypeAuth, "Auth", "The first frame of a client. Without a cursor, or with one that is not good any more, a snapshot follows.",
		[]string{"token"},
		[]string{"cursor"},
	},
	{
		wire.TypeSubscribe, "Subscribe", "Asks for the events of a session, after from or from its beginning.",
		[]string{"session_id"},
		[]string{"ref", "from"},
	},
	{wire.TypeUnsubscribe, "Unsubscribe", "Ends a subscription.", []string{"session_id"}, []string{"ref"}},
	{
		wire.TypeResponse, "PendingRequestResponse", "An attempt to decide. It has exactly one of decision or option_id, answers, content and action.",
		[]string{"session_id", "request_id", "request_type", "digest"},
		slices.Concat([]string{"ref"}, said),
	},
	{
		wire.TypeStartSession, "StartSession", "Asks for a new session.",
		[]string{"runtime"},
		[]string{"ref", "command_id", "prompt", "attachments", "cwd", "mode", "model", "project_id", "tenant", "pool"},
	},
	{
		wire.TypeSendMessage, "SendMessage", "Hands a session a person's words: a text, attachments, or both.",
		[]string{"session_id"},
		[]string{"ref", "command_id", "text", "attachments"},
	},
	{wire.TypeInterrupt, "Interrupt", "Ends the turn that a session is in.", []string{"session_id"}, []string{"ref", "command_id"}},
	{wire.TypeStopSession, "StopSession", "Ends a session.", []string{"session_id"}, []string{"ref", "command_id"}},
	{wire.TypeSetMode, "SetMode", "Changes how a session asks.", []string{"session_id", "mode"}, []string{"ref", "command_id"}},
	{wire.TypeSeen, "Seen", "Says which interactions a person has before their eyes now, by ids or keys, at most 50: on a page that is visible and has the focus. It has a receipt where it has a ref, or cannot be used.", []string{"requests"}, []string{"ref"}},
	{wire.TypePong, "Pong", "Answers a ping.", nil, nil},
}

// said is what an attempt to decide says, whatever door it comes by.
var said = []string{"shown", "decision", "option_id", "answers", "content", "action", "message", "comment", "updated_input", "scope", "interrupt"}

// steps are the data of events by their type. Those of told come from workers.
var steps = []struct {
	typ  string
	data reflect.Type
	told bool
}{
	{hitl.EventTextDelta, reflect.TypeFor[wire.TextData](), true},
	{hitl.EventText, reflect.TypeFor[wire.TextData](), true},
	{hitl.EventToolCallStart, reflect.TypeFor[wire.ToolCallData](), true},
	{hitl.EventToolCallDelta, reflect.TypeFor[wire.ToolCallData](), true},
	{hitl.EventToolCallEnd, reflect.TypeFor[wire.ToolCallEndData](), false},
	{hitl.EventToolResult, reflect.TypeFor[wire.ToolResultData](), true},
	{hitl.EventError, reflect.TypeFor[wire.ErrorData](), true},
	{hitl.EventDone, reflect.TypeFor[wire.DoneData](), true},
	{hitl.EventSessionStatus, reflect.TypeFor[wire.StatusData](), true},
	{hitl.EventInteractionPending, reflect.TypeFor[wire.PendingData](), false},
	{hitl.EventInteractionRequest, reflect.TypeFor[wire.Summary](), false},
	{hitl.EventApprovalRequired, reflect.TypeFor[wire.ApprovalData](), false},
	{hitl.EventQuestionPrompt, reflect.TypeFor[wire.QuestionData](), false},
	{hitl.EventInteractionResponse, reflect.TypeFor[wire.Closed](), false},
}

// event defines the steps of a session, and Event as any of them.
func event(b *book) {
	whole := b.define(reflect.TypeFor[wire.Event]())
	var list []*schema
	for _, st := range steps {
		data := b.of(st.data)
		if st.told {
			b.loosen(st.data.Name())
		}
		s := &schema{
			Type: "object", Properties: map[string]*schema{"at": whole.Properties["at"], "cursor": whole.Properties["cursor"], "data": data},
			Required: []string{"type", "at", "data"}, PropertyOrder: []string{"type", "at", "cursor", "data"},
		}
		constant(s, st.typ)
		name := pascal(st.typ) + "Event"
		b.defs[name] = s
		list = append(list, ref(b, name))
	}
	b.defs["Event"] = oneOf(list...)
	b.defs["Event"].Description = b.docs["wire.Event"]
}

// loosen lets what a worker told be null: the gateway checks no more than that.
func (b *book) loosen(name string) {
	s := b.defs[name]
	s.AdditionalProperties = &schema{} // a worker may tell more
	for _, p := range s.Properties {
		if p.Type != "" {
			p.Types, p.Type = []string{p.Type, "null"}, ""
		}
		if p.Items != nil && p.Items.Ref != "" {
			b.loosen(strings.TrimPrefix(p.Items.Ref, b.prefix))
			p.Items = &schema{AnyOf: []*schema{p.Items, {Type: "null"}}}
		}
	}
}

func pascal(s string) string {
	var out []byte
	up := true
	for i := range len(s) {
		c := s[i]
		if c == '_' {
			up = true
			continue
		}
		if up && c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		out, up = append(out, c), false
	}
	return string(out)
}

// answers are the two forms that answers may have.
func answers(b *book) {
	of[hitl.Answer](b)
	one := &schema{
		Type: "object", Description: "An answer in parts: chosen values or labels, free text, or both.",
		Properties: map[string]*schema{
			"values": {Types: []string{"array", "null"}, Items: &schema{Type: "string"}},
			"other":  {Type: "string"}, "notes": {Type: "string"},
		},
		PropertyOrder: []string{"values", "other", "notes"},
	}
	b.defs["AnswerParts"] = one
	listed := one.CloneSchemas()
	listed.Description = "An answer in parts that names its question."
	listed.Properties["question_id"] = &schema{Type: "string"}
	listed.PropertyOrder = append([]string{"question_id"}, listed.PropertyOrder...)
	listed.Required = []string{"question_id"}
	b.defs["ListedAnswer"] = listed
	b.defs["Answers"] = &schema{
		Description: "A list, or a map by question id, index or text. A text is one option's value or label, free text, or, where several may be chosen, labels joined by \", \" or a JSON list.",
		AnyOf: []*schema{
			{Type: "array", Items: ref(b, "ListedAnswer")},
			{Type: "object", AdditionalProperties: &schema{AnyOf: []*schema{
				{Type: "string"}, {Type: "array", Items: &schema{Type: "string"}}, ref(b, "AnswerParts"),
			}}},
		},
	}
}

// decide sets what the fields of an attempt hold that are JSON of its own.
func decide(b *book, def *schema) {
	for name, s := range map[string]*schema{
		"answers":       ref(b, "Answers"),
		"content":       {AnyOf: []*schema{{Type: "object"}, {Type: "string"}}, Description: "Of a form: an object, or the JSON of one."},
		"updated_input": {AnyOf: []*schema{{Type: "object"}, {Type: "string"}}, Description: "With allow: what shall run instead, an object or the JSON of one."},
	} {
		if def.Properties[name] != nil {
			def.Properties[name] = s
		}
	}
}

// serverFrames defines what a gateway sends.
func serverFrames(b *book) []*schema {
	b.of(reflect.TypeFor[wire.Events]())
	b.defs["Events"].Properties["events"].Items = ref(b, "Event")
	return []*schema{
		frame[wire.Hello](b, wire.TypeHello),
		frame[wire.ActiveProcesses](b, wire.TypeActiveProcesses),
		frame[wire.ProcessState](b, wire.TypeProcessState),
		frame[wire.Events](b, wire.TypeEvent),
		frame[wire.Delivery](b, wire.TypeDelivery),
		frame[wire.Receipt](b, wire.TypeReceipt),
		frame[wire.Ping](b, wire.TypePing),
		frame[wire.SignedIn](b, wire.TypeSignedIn),
		frame[wire.CLILogin](b, wire.TypeCLILogin),
		frame[wire.CLILoginSettled](b, wire.TypeCLILoginSettled),
		frame[wire.RulesChanged](b, wire.TypeRulesChanged),
	}
}

func frames(docs map[string]string) any {
	b := newBook("#/$defs/", docs)
	event(b)
	answers(b)
	server := serverFrames(b)
	var client []*schema
	for _, f := range clientFrames {
		r := pick[wire.Client](b, f.name, f.doc, f.required, f.optional)
		def := b.defs[f.name]
		decide(b, def)
		constant(def, f.typ)
		def.Required = append([]string{"type"}, def.Required...)
		def.PropertyOrder = append([]string{"type"}, def.PropertyOrder...)
		client = append(client, r)
	}
	typed := func(doc string, list []*schema) *schema {
		s := oneOf(list...)
		s.Description, s.Type, s.Required = doc, "object", []string{"type"}
		return s
	}
	b.defs["ServerFrame"] = typed("A frame that a gateway sends.", server)
	b.defs["ClientFrame"] = typed("A frame that a client sends, one in a message.", client)
	b.defs["ServerMessage"] = &schema{
		Description: "A message of a gateway: one frame, or several.",
		OneOf:       []*schema{ref(b, "ServerFrame"), {Type: "array", Items: ref(b, "ServerFrame")}},
	}
	return &schema{
		Schema: draft, ID: "urn:banksman:frames:1", Title: "Banksman WebSocket frames",
		Description: "What travels over /api/ws. Fields that are not listed may appear and are to be ignored.",
		OneOf:       []*schema{ref(b, "ServerMessage"), ref(b, "ClientFrame")},
		Defs:        b.defs,
		Extra: map[string]any{
			"x-protocol": wire.Protocol,
			"x-close-codes": map[string]int{
				"slow": wire.CloseSlow, "restart": wire.CloseRestart, "stale": wire.CloseStale, "late": wire.CloseLate, "bad_auth": wire.CloseBadAuth,
				"bad_frame": wire.CloseBadFrame, "too_many": wire.CloseTooMany, "no_auth": wire.CloseNoAuth,
				"reconnect_max": wire.CloseReconnectX,
			},
		},
	}
}
