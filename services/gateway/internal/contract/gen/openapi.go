package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/wire"
)

type object = map[string]any

// failures are the codes of errors by their status, with what they mean.
var failures = map[int]struct {
	codes []string
	doc   string
}{
	400: {[]string{"invalid", "digest_mismatch"}, "The input cannot be used; fields says which parts. Nothing was decided, what waits still waits."},
	401: {[]string{"unauthorized"}, "No token, or one that is not good any more."},
	403: {[]string{"forbidden"}, "Not for this principal; or the request comes from another site."},
	404: {[]string{"not_found"}, "Nothing of that name is there, or nothing of this kind waits."},
	405: {[]string{"method_not_allowed"}, "The address takes another method; Allow says which."},
	409: {[]string{"already_decided", "conflict", "taken"}, "Somebody was first: decision is the winner's. Or the key stands for a request that says something else. Or the id of a user is taken. Or a rule was changed in the meantime."},
	410: {[]string{"expired"}, "Nobody decided in time."},
	413: {[]string{"too_large"}, "The body is too large."},
	421: {[]string{"misdirected"}, "The Host header is not a name of this gateway."},
	426: {[]string{"upgrade_required"}, "The address speaks WebSocket."},
	429: {[]string{"too_many"}, "Too many of these are open of one person."},
	500: {[]string{"internal"}, "A fault of the gateway."},
	503: {[]string{"unavailable"}, "Not now: still loading, no worker, or the server cannot be reached. It is safe to try again."},
}

// codes are all codes of errors.
func codes() []string {
	var list []string
	for _, f := range failures {
		list = append(list, f.codes...)
	}
	slices.Sort(list)
	return list
}

// route is an operation. Whoever is signed in may use what is not public.
type route struct {
	method, path string
	id, doc      string
	public       bool
	anyHost      bool // it is served by whatever name
	query        []object
	body         *schema
	optional     bool    // the body
	ok           *schema // of 200
	document     bool    // in place of ok
	stream       bool    // server-sent events in place of ok
	frames       bool    // with a stream: its events are the frames of the WebSocket
	errs         []int   // beside those that all have
}

func openAPI(docs map[string]string) any {
	b := newBook("#/components/schemas/", docs)
	event(b)
	answers(b)
	paths := object{}
	for _, r := range routes(b) {
		item, _ := paths[r.path].(object)
		if item == nil {
			item = object{}
			paths[r.path] = item
		}
		item[strings.ToLower(r.method)] = r.operation(b)
	}
	responses := object{}
	failure := of[wire.Error](b)
	for status, f := range failures {
		responses["E"+strconv.Itoa(status)] = object{
			"description": f.doc + " Codes: " + strings.Join(f.codes, ", ") + ".",
			"content":     object{"application/json": object{"schema": failure}},
			"x-codes":     f.codes,
		}
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Banksman gateway", "version": strconv.Itoa(wire.Protocol),
			"description": "Bodies are JSON in UTF-8; an object that has a key twice is refused. Fields that are not listed may appear and are to be ignored.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"jsonSchemaDialect": draft,
		"servers":           []object{{"url": "/"}},
		"security":          []object{{"session": []string{}}},
		"paths":             paths,
		"components": object{
			"schemas": b.defs, "responses": responses,
			"securitySchemes": object{"session": object{
				"type": "http", "scheme": "bearer", "description": "A session token, as a sign-in returns it, or a token of a program. Over TLS a browser has its session in a cookie, and sends the token cookie.",
			}},
		},
	}
}

func (r route) operation(b *book) object {
	op := object{"operationId": r.id, "summary": r.doc}
	params := slices.Clone(r.query)
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			params = append(params, object{
				"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"},
			})
		}
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	errs := slices.Clone(r.errs)
	if !r.anyHost {
		errs = append(errs, 421)
	}
	if r.public {
		op["security"] = []object{}
	} else {
		errs = append(errs, 401, 503)
	}
	if r.method != "GET" {
		errs = append(errs, 403)
	}
	if r.body != nil {
		op["requestBody"] = object{"required": !r.optional, "content": object{"application/json": object{"schema": r.body}}}
		errs = append(errs, 400, 413)
	}
	replies := object{}
	if r.id == "websocket" {
		replies["101"] = object{"description": "The WebSocket."}
		for _, status := range []string{"400", "403"} { // in the words of the WebSocket library
			replies[status] = object{"description": "The handshake is not good, or comes from another site.", "content": object{"text/plain": object{"schema": object{"type": "string"}}}}
		}
	}
	for _, status := range errs {
		replies[strconv.Itoa(status)] = object{"$ref": "#/components/responses/E" + strconv.Itoa(status)}
	}
	switch {
	case r.stream:
		kinds, doc := object{}, "Events: the id is a cursor, the event is the type of a frame, the data is the frame."
		if r.frames {
			for _, f := range serverFrames(b) {
				kinds[(*b.defs[strings.TrimPrefix(f.Ref, b.prefix)].Properties["type"].Const).(string)] = f
			}
		} else {
			doc = "Events: the id is a cursor, the event is the type of a step, the data is that step's. The field at is its time. Only the last event of a cursor has an id. reset says that what follows is the whole."
			kinds["reset"] = object{"type": "object"}
			for _, st := range steps {
				kinds[st.typ] = ref(b, st.data.Name())
			}
		}
		replies["200"] = object{
			"description": doc,
			"content":     object{"text/event-stream": object{"schema": object{"type": "string"}, "x-events": kinds}},
		}
	case r.document:
		replies["200"] = object{"description": "The document.", "content": object{"application/json": object{"schema": object{"type": "object"}}}}
		replies["304"] = object{"description": "It is the one that If-None-Match names."}
	case r.ok != nil:
		replies["200"] = object{"description": "Done.", "content": object{"application/json": object{"schema": r.ok}}}
	}
	op["responses"] = replies
	return op
}

func query(name, doc string, s object) object {
	return object{"name": name, "in": "query", "description": doc, "schema": s}
}

// searches are what decided ones are searched by. One search reads a bounded
// part of the record.
func searches() []object {
	word := object{"type": "string", "maxLength": 256}
	outcomes := object{"type": "array", "items": object{"$ref": "#/components/schemas/Outcome"}}
	at := object{"type": "string", "format": "date-time"}
	return []object{
		query("q", "Of decided: words that must all appear in what is shown of it, in any case; \"in quotes\" together. At most 200 characters and 8 words.", object{"type": "string"}),
		query("outcome", "Of decided: one of these; may be repeated.", outcomes),
		query("kind", "Of decided: the kind.", word),
		query("tool", "Of decided: the tool's name.", word),
		query("project", "Of decided: the project.", word),
		query("agent", "Of decided: the agent's name, or its owner.", word),
		query("who", "Of decided: id or name of who decided.", word),
		query("session", "Of decided: id or key of the session.", word),
		query("rule", "Of decided: id of a rule that decided.", word),
		query("from", "Of decided: not before.", at),
		query("until", "Of decided: before.", at),
		query("before", "Of decided: the next of an earlier answer, to go on.", word),
	}
}

// routes is every route there is.
func routes(b *book) []route {
	// What is decided by a body: all of it, or what the simple routes take.
	part := func(name, doc string, required, optional []string) *schema {
		s := pick[hitl.Response](b, name, doc, required, optional)
		decide(b, b.defs[name])
		return s
	}
	decision := part("DecisionBody", "An attempt to decide. It has exactly one of decision or option_id, answers, content and action.",
		[]string{"digest"}, slices.Concat(said, []string{"ref", "session_id", "request_id", "request_type"}))
	names := []string{"request_id", "tool_call_id"}
	simple := []string{"ref", "session_id", "request_type", "digest", "decision", "message", "comment"}
	approve := part("ApprovalBody", "Names what is decided, by request_id or tool_call_id.", nil, slices.Concat(names, simple))
	submit := part("AnswersBody", "Names what is answered, by request_id or tool_call_id.", []string{"answers"},
		slices.Concat(names, slices.DeleteFunc(slices.Clone(simple), func(s string) bool { return s == "decision" })))
	for _, name := range []string{"ApprovalBody", "AnswersBody"} {
		b.defs[name].AnyOf = []*schema{{Required: names[:1]}, {Required: names[1:]}}
	}
	start := pick[wire.Client](b, "StartBody", "A session to start.", []string{"runtime"},
		[]string{"ref", "command_id", "prompt", "attachments", "cwd", "mode", "model", "project_id", "tenant", "pool"})
	message := pick[wire.Client](b, "MessageBody", "A person's words: a text, attachments, or both.", nil,
		[]string{"ref", "session_id", "command_id", "text", "attachments"})
	command := pick[wire.Client](b, "CommandBody", "An id that makes a repetition harmless.", nil, []string{"ref", "session_id", "command_id"})
	mode := pick[wire.Client](b, "ModeBody", "The mode to change to.", []string{"mode"}, []string{"ref", "session_id", "command_id"})
	ask := pick[hitl.Request](b, "AskBody", "What is asked. The gateway fills in v, id, tenant and owner.", []string{"key", "kind", "title"},
		[]string{
			"session_id", "project_id", "parent_session", "agent_name", "turn_id", "tool_call_id", "message", "reason", "risk", "tool", "questions",
			"schema", "data", "url", "options", "suggestions", "allowed", "audience", "expires_in", "attention_in", "source",
		})
	ok, end, rule := of[wire.OK](b), of[wire.CeremonyEnd](b), of[wire.NewRule](b)
	return []route{
		{method: "GET", path: "/healthz", id: "health", doc: "Says that the process answers.", public: true, anyHost: true, ok: ok},
		{method: "GET", path: "/readyz", id: "ready", doc: "Says whether decisions can be taken.", public: true, anyHost: true, ok: ok, errs: []int{503}},
		{method: "GET", path: "/api/openapi.json", id: "openapi", doc: "This document.", public: true, document: true},
		{method: "GET", path: "/api/frames.schema.json", id: "frames", doc: "The JSON Schema of the WebSocket frames.", public: true, document: true},
		{method: "POST", path: "/api/login", id: "login", doc: "Takes a link's token for a session's.", public: true, body: of[wire.LinkToken](b), ok: of[wire.SessionToken](b), errs: []int{401, 503}},
		{method: "POST", path: "/api/logout", id: "logout", doc: "Ends the session.", ok: ok},
		{method: "POST", path: "/api/logout/everywhere", id: "logoutEverywhere", doc: "Ends all sessions of the person.", ok: ok},
		{method: "POST", path: "/api/logout/others", id: "logoutOthers", doc: "Ends all sessions of the person but this one.", ok: ok, errs: []int{403}},
		{method: "GET", path: "/api/sign-ins", id: "listSignIns", doc: "Lists where the person is signed in, the one used last first.", ok: of[wire.SignInList](b), errs: []int{403}},
		{method: "DELETE", path: "/api/sign-ins/{id}", id: "endSignIn", doc: "Ends one of them.", ok: ok, errs: []int{403, 404}},
		{method: "GET", path: "/api/push", id: "listPushBrowsers", doc: "Lists the browsers in which the person wants pushes, and tells the key that a browser subscribes with.", ok: of[wire.PushBrowsers](b), errs: []int{403}},
		{method: "POST", path: "/api/push", id: "addPushBrowser", doc: "Has a browser told what the notifier's configuration sends to the person. Signing out ends it. The answer has the secret by which the browser renews itself.", body: of[wire.PushSubscription](b), ok: of[wire.PushBrowsers](b), errs: []int{403}},
		{method: "DELETE", path: "/api/push/{id}", id: "removePushBrowser", doc: "Forgets one of them.", ok: ok, errs: []int{403, 404}},
		{method: "POST", path: "/api/push/renewal", id: "renewPushBrowser", doc: "Tells a browser's new subscription, by the secret that it was given when it was added.", public: true, body: of[wire.PushRenewal](b), ok: ok, errs: []int{404, 503}},
		{method: "POST", path: "/api/push/decision", id: "decideByPush", doc: "Decides by the one-use token of a notification, and answers with the receipt.", public: true, body: of[wire.TicketUse](b), ok: of[wire.Receipt](b), errs: []int{403, 404, 409, 410, 503}},
		{method: "GET", path: "/api/me", id: "me", doc: "Tells who is signed in.", ok: of[wire.Me](b)},
		{method: "GET", path: "/api/cli-logins", id: "listCLILogins", doc: "Lists the terminals that wait to be confirmed, to the one person who uses an installation alone on its own machine. Everybody else brings the code that the terminal shows.", ok: of[wire.CLIRequests](b), errs: []int{403}},
		{method: "GET", path: "/api/cli-logins/{code}", id: "findCLILogin", doc: "Tells of the terminal that shows this code. A terminal's own session may not ask.", ok: of[wire.CLIRequest](b), errs: []int{403, 404}},
		{method: "POST", path: "/api/cli-logins/{code}", id: "answerCLILogin", doc: "Answers the terminal that shows this code. A terminal's own session may not.", body: of[wire.CLIAnswer](b), ok: ok, errs: []int{404}},
		{method: "GET", path: "/api/sign-in", id: "signInWays", doc: "Tells how people can sign in here.", public: true, ok: of[wire.SignInWays](b)},
		{method: "POST", path: "/api/sign-in/passkey/begin", id: "beginPasskeySignIn", doc: "Begins a sign-in with a passkey.", public: true, ok: of[wire.Ceremony](b), errs: []int{400, 503}},
		{method: "POST", path: "/api/sign-in/passkey/finish", id: "finishPasskeySignIn", doc: "Signs in whoever used the passkey.", public: true, body: end, ok: of[wire.SessionToken](b), errs: []int{401, 503}},
		{method: "POST", path: "/api/sign-in/invite/begin", id: "beginInvitation", doc: "Begins to register a passkey by an invitation.", public: true, body: end, ok: of[wire.Ceremony](b), errs: []int{401, 503}},
		{method: "POST", path: "/api/sign-in/invite/finish", id: "finishInvitation", doc: "Registers the passkey and signs in. The invitation is used up.", public: true, body: end, ok: of[wire.SessionToken](b), errs: []int{401, 503}},
		{method: "POST", path: "/api/sign-in/oidc/begin", id: "beginIssuerSignIn", doc: "Begins a sign-in through the issuer.", public: true, ok: of[wire.Ceremony](b), errs: []int{404, 503}},
		{method: "POST", path: "/api/sign-in/oidc/finish", id: "finishIssuerSignIn", doc: "Signs in whom the issuer vouches for.", public: true, body: end, ok: of[wire.SessionToken](b), errs: []int{401, 404, 503}},
		{method: "POST", path: "/api/passkeys/begin", id: "beginPasskey", doc: "Begins to register one more passkey of one's own.", body: end, optional: true, ok: of[wire.Ceremony](b)},
		{method: "POST", path: "/api/passkeys/finish", id: "finishPasskey", doc: "Registers the passkey.", body: end, ok: ok},
		{method: "POST", path: "/api/proof/begin", id: "beginProof", doc: "Begins to prove presence with a passkey.", ok: of[wire.Ceremony](b), errs: []int{400}},
		{method: "POST", path: "/api/proof/finish", id: "finishProof", doc: "Proves presence; it counts for five minutes.", body: end, ok: ok},
		{method: "GET", path: "/api/users", id: "listUsers", doc: "Lists the users, by id.", ok: of[wire.UserList](b), errs: []int{403}},
		{method: "POST", path: "/api/users", id: "addUser", doc: "Adds a user, who signs in by an invitation.", body: of[wire.NewUser](b), ok: of[wire.User](b), errs: []int{409}},
		{method: "POST", path: "/api/users/{id}", id: "changeUser", doc: "Changes a user and ends the user's sessions.", body: of[wire.ChangeUser](b), ok: of[wire.User](b), errs: []int{404}},
		{method: "POST", path: "/api/users/{id}/logout", id: "logoutUser", doc: "Ends the user's sessions.", ok: ok},
		{method: "POST", path: "/api/users/{id}/invite", id: "inviteUser", doc: "Makes a link by which the user registers a passkey, once.", ok: of[wire.Invitation](b), errs: []int{400, 404}},
		{method: "GET", path: "/api/tokens", id: "listTokens", doc: "Lists the tokens of programs, newest first.", ok: of[wire.APITokenList](b), errs: []int{403}},
		{method: "POST", path: "/api/tokens", id: "addToken", doc: "Makes a token for a program. The secret is told this once.", body: of[wire.NewAPIToken](b), ok: of[wire.CreatedAPIToken](b)},
		{method: "DELETE", path: "/api/tokens/{id}", id: "revokeToken", doc: "Revokes a token. It stays listed.", ok: ok, errs: []int{404}},
		{method: "GET", path: "/api/ws", id: "websocket", doc: "Upgrades to a WebSocket, see frames.schema.json. The token comes in its first frame.", public: true, errs: []int{426}},
		{
			method: "GET", path: "/api/interactions", id: "listInteractions", doc: "Lists interactions: pending ones, oldest first; closed ones that are in memory, newest first; or decided ones out of the record, newest first, searched.",
			query: append([]object{
				query("state", "Which; default pending.", object{"type": "string", "enum": []string{wire.StatePending, wire.StateClosed, wire.StateDecided}}),
				query("limit", "How many at most; default 200, of decided 50 and at most 200.", object{"type": "integer", "minimum": 1, "maximum": 1000}),
				query("after", "The next of a list of pending or closed ones: go on behind it.", object{"type": "string"}),
			}, searches()...),
			ok: of[wire.ListReply](b), errs: []int{400},
		},
		{
			method: "POST", path: "/api/interactions", id: "ask", doc: "Asks, and waits for the decision. The same key with the same content is the same interaction: who is told pending asks again.",
			query: []object{query("wait", "How long to wait, at most 25s, the default; 0s only asks.", object{"type": "string", "default": "25s"})},
			body:  ask, ok: of[wire.AskReply](b), errs: []int{409, 429},
		},
		{method: "GET", path: "/api/interactions/{id}", id: "getInteraction", doc: "Reads one, by its id or key.", ok: of[wire.Interaction](b), errs: []int{400, 404}},
		{method: "POST", path: "/api/interactions/{id}/decision", id: "decide", doc: "Decides one. Every attempt gets a receipt; who was too late gets the winner's decision.", body: decision, ok: of[wire.Receipt](b), errs: []int{404, 409, 410}},
		{method: "GET", path: "/api/interactions/{id}/audience", id: "getAudience", doc: "Tells whoever may decide it who else may, by their roles.", ok: of[wire.Audience](b), errs: []int{400, 403, 404}},
		{method: "GET", path: "/api/interactions/{id}/alerts", id: "getAlerts", doc: "Tells whoever may decide it who was alerted elsewhere, when and by what, what the providers said, why somebody was not, and what comes next.", ok: of[wire.Alerts](b), errs: []int{400, 403, 404}},
		{method: "POST", path: "/api/seen", id: "seen", doc: "Says what a person has before their eyes; a notifier waits a little with it then. What the person may not answer, and what does not wait, is passed over.", body: of[wire.Seen](b), ok: ok},
		{method: "GET", path: "/api/rules", id: "listRules", doc: "Lists the rules, those in force first.", ok: of[wire.RuleList](b)},
		{method: "POST", path: "/api/rules/preview", id: "previewRule", doc: "Says what a rule would be and what it would decide. Nothing is made.", body: rule, ok: of[wire.RulePreview](b), errs: []int{404}},
		{method: "POST", path: "/api/rules", id: "makeRule", doc: "Makes a rule like a request that was shown, and lets it decide those that apply names.", body: rule, ok: of[wire.MadeRule](b), errs: []int{404}},
		{method: "POST", path: "/api/rules/{id}", id: "changeRule", doc: "Changes a rule's end, how often it may be used, or what it matches. Whoever made it may.", body: of[wire.ChangeRule](b), ok: of[wire.ChangedRule](b), errs: []int{404, 409}},
		{method: "DELETE", path: "/api/rules/{id}", id: "revokeRule", doc: "Revokes a rule. It stays listed.", ok: ok, errs: []int{404}},
		{
			method: "GET", path: "/api/events", id: "events", doc: "Streams what waits: hello, the snapshot or what was missed, then every change.", stream: true, frames: true,
			query: []object{{
				"name": "Last-Event-ID", "in": "header", "description": "The cursor to go on from.", "schema": object{"type": "string"},
			}},
			errs: []int{429},
		},
		{method: "GET", path: "/api/services", id: "services", doc: "Tells which runtimes can be started, whether a notifier listens, and by which channels it tells people.", ok: of[wire.Services](b)},
		{method: "GET", path: "/api/sessions", id: "listSessions", doc: "Lists the sessions with what waits in them.", ok: of[wire.SessionList](b)},
		{method: "POST", path: "/api/sessions", id: "startSession", doc: "Starts a session.", body: start, ok: of[wire.SessionStarted](b)},
		{method: "POST", path: "/api/demo", id: "startDemo", doc: "Starts a session that needs no model.", ok: of[wire.SessionStarted](b), errs: []int{400}},
		{
			method: "GET", path: "/api/sessions/{id}/events", id: "sessionEvents", doc: "Streams a session: what is stored, then what happens.", stream: true,
			query: []object{{
				"name": "Last-Event-ID", "in": "header", "description": "Resumes after this event.", "schema": object{"type": "string"},
			}},
			errs: []int{400, 404, 429},
		},
		{method: "POST", path: "/api/sessions/{id}/approve", id: "approve", doc: "Allows a tool call that waits.", body: approve, ok: ok, errs: []int{404, 409, 410}},
		{method: "POST", path: "/api/sessions/{id}/deny", id: "deny", doc: "Denies a tool call that waits.", body: approve, ok: ok, errs: []int{404, 409, 410}},
		{method: "POST", path: "/api/sessions/{id}/submit-answers", id: "submitAnswers", doc: "Answers a question that waits.", body: submit, ok: ok, errs: []int{404, 409, 410}},
		{method: "POST", path: "/api/sessions/{id}/message", id: "sendMessage", doc: "Hands the session a person's words.", body: message, ok: ok, errs: []int{404}},
		{method: "POST", path: "/api/sessions/{id}/interrupt", id: "interrupt", doc: "Ends the turn.", body: command, optional: true, ok: ok, errs: []int{404}},
		{method: "POST", path: "/api/sessions/{id}/stop", id: "stopSession", doc: "Ends the session.", body: command, optional: true, ok: ok, errs: []int{404}},
		{method: "POST", path: "/api/sessions/{id}/mode", id: "setMode", doc: "Changes how the session asks.", body: mode, ok: ok, errs: []int{404}},
	}
}
