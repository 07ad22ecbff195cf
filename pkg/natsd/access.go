package natsd

import (
	"cmp"
	"maps"
	"slices"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/subject"
)

// The names of the streams that identities outside CORE have a narrow part in.
const (
	streamRequests    = "HITL_REQUESTS"
	streamMailbox     = "HITL_MAILBOX"
	streamDecisions   = "HITL_DECISIONS"
	streamEvents      = "HITL_EVENTS"
	streamTranscripts = "HITL_TRANSCRIPTS"
	streamWork        = "HITL_WORK"
)

const (
	// coreAccount holds the streams; only gateways live there.
	coreAccount = "CORE"
	// provisionerAccount reaches the sealed API of CORE.
	provisionerAccount = "PROVISION"
	// systemAccount is the server's own; it has no users.
	systemAccount = "SYS"
)

const (
	// replySubjects are what the server puts in place of the reply subject of
	// a request that crosses accounts. A user that may publish only these
	// answers such requests and no others.
	replySubjects = "_R_.>"
	inboxes       = "_INBOX.>"
)

// call is a service of CORE that another account may call.
type call struct {
	subject string
	// options of the export, in configuration syntax.
	options string
	// as is the subject in the calling account, if it is another one there.
	as string
}

const (
	// manyReplies lets a pull request be answered by many messages.
	manyReplies = "response_type: stream"
	// slowReply covers a handler that takes its full 25 s, and the way back.
	slowReply = `response_threshold: "40s"`
)

// access is everything an identity outside CORE can do. Exports, imports and
// the user's permissions all follow from it, so they cannot drift apart.
type access struct {
	account string
	keys    []string // public NKeys; several during a rotation
	calls   []call   // services of CORE it may call
	hears   []string // streams of CORE it receives
	serves  []string // services it offers to CORE
	sends   []string // streams it sends to CORE
	// answers are services it offers to the account asker.
	answers []string
	asker   string
	// asks are the services of callers that it may call, by their account.
	asks map[string]string
	// ownJetStream: it has a JetStream of its own.
	ownJetStream bool
	// publish is what it may also publish inside its own account.
	publish []string
}

// The separator in account names is no token character: two identities never
// share an account name.
func accountName(role bus.Role, tenant, name string) string {
	if role == bus.RoleNotifier {
		return "notifier+" + tenant
	}
	return string(role) + "+" + tenant + "+" + name
}

func ownerAccess(o Owner, keys []string) access {
	to := o.Tenant + "." + o.Name
	a := access{
		account: accountName(bus.RoleOwner, o.Tenant, o.Name),
		keys:    keys,
		calls: []call{
			// All owners share a stream, and a gateway sees to it that each has its turn.
			// Where none is there, what is asked is left for the next one.
			relayed("hitl.req." + to + ".*"),
			relayed("hitl.cxl." + to + ".*"),
			{subject: "hitl.box." + to + ".*.*"},
			// What is said of sessions has no other bound than a gateway's word, so
			// that it does not get into the stream without one.
			relayed("hitl.ack." + to + ".*.*"),
			relayed("hitl.evt." + to + ".*"),
			relayed("hitl.ses." + to + ".*"),
			{subject: directGet(streamDecisions, "hitl.dec."+to+".*")},
			{subject: directGet(streamRequests, "hitl.req."+to+".*")},
			{subject: directGet(streamMailbox, "hitl.box."+to+".*.req")},
			// A session claim that timed out may have landed. Only the stored
			// state tells whose claim it is.
			{subject: directGet(streamTranscripts, "hitl.ses."+to+".*")},
			// The same for the claim of an approval's use.
			{subject: directGet(streamTranscripts, "hitl.ack."+to+".*."+subject.Taken)},
		},
		hears:   []string{"hitl.inbox." + to + ".*"},
		serves:  []string{"hitl.cmd." + to + ".*"},
		sends:   []string{"hitl.live." + to + ".*", "hitl.beat." + to + ".*"},
		publish: []string{replySubjects},
	}
	if o.Pool {
		a.calls = append(a.calls, pullAndAck(streamWork, subject.WorkConsumer(o.Tenant, o.Name))...)
	}
	if o.Caller {
		a.addCaller(o.Tenant, o.Name)
	}
	return a
}

func relayed(sub string) call { return call{subject: subject.Said(sub), as: sub} }

func callerAccess(c Caller, keys []string) access {
	a := access{
		account: accountName(bus.RoleCaller, c.Tenant, c.Name), keys: keys,
		answers: []string{subject.Decider(c.Tenant, c.Name)}, asker: accountName(bus.RoleNotifier, c.Tenant, ""),
		publish: []string{replySubjects},
	}
	a.addCaller(c.Tenant, c.Name)
	return a
}

func (a *access) addCaller(tenant, name string) {
	a.calls = append(a.calls, serviceCall(tenant, name))
	a.hears = append(a.hears, "hitl.feed."+name+"."+tenant)
}

// notifierAccess: one durable of the event stream, what people have before their
// eyes, the service API under a name of its own, and a ledger in a JetStream of its own.
// It answers what gateways ask of the ledger, and may ask each caller of the tenant
// whether that one decides something. Owners are not asked: none decides its own.
func notifierAccess(tenant string, callers []Caller, keys []string) access {
	asks := map[string]string{}
	for _, c := range callers {
		if c.Tenant == tenant {
			asks[accountName(bus.RoleCaller, tenant, c.Name)] = subject.Decider(tenant, c.Name)
		}
	}
	return access{
		account: accountName(bus.RoleNotifier, tenant, ""),
		keys:    keys,
		calls: append(
			pullAndAck(streamEvents, notifierDurable(tenant)),
			serviceCall(tenant, reservedName),
		),
		hears:        []string{"hitl.seen." + tenant + ".*.*"},
		serves:       []string{subject.Alerts(tenant, "explain")},
		asks:         asks,
		ownJetStream: true,
		publish:      []string{replySubjects, "$JS.API.>", "$JS.ACK.>", "$JS.FC.>", "$KV.>"},
	}
}

// notifierDurable is the consumer of the event stream that the tenant's
// notifiers share. The provisioner makes it.
func notifierDurable(tenant string) string {
	if tenant == bus.DefaultTenant {
		return "notifier"
	}
	return "notifier-" + tenant
}

func serviceCall(tenant, name string) call {
	return call{subject: "hitl.svc." + tenant + "." + name + ".*", options: slowReply}
}

func directGet(stream, subject string) string {
	return "$JS.API.DIRECT.GET." + stream + "." + subject
}

func pullAndAck(stream, durable string) []call {
	return []call{
		{subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + durable, options: manyReplies},
		{subject: "$JS.ACK." + stream + "." + durable + ".>"},
	}
}

// canPublish and canSubscribe are the user's permissions.
func (a *access) canPublish() []string {
	var s []string
	for _, c := range a.calls {
		s = append(s, cmp.Or(c.as, c.subject))
	}
	return slices.Concat(s, slices.Sorted(maps.Values(a.asks)), a.sends, a.publish)
}

func (a *access) canSubscribe() []string {
	return slices.Concat([]string{inboxes}, a.hears, a.serves, a.answers)
}

// openAPI is the part of the JetStream API that CORE offers under its usual
// subjects. The server checks the subject of a publish and not its reply
// subject, and it executes an API call that arrives as its own reply to
// another one. So whatever CORE offers, a gateway can reach.
var openAPI = []string{
	"$JS.API.INFO",
	"$JS.API.STREAM.INFO.*",
	"$JS.API.STREAM.NAMES",
	"$JS.API.STREAM.LIST",
	"$JS.API.STREAM.MSG.GET.*",
	"$JS.API.STREAM.MSG.DELETE." + streamRequests,
	"$JS.API.CONSUMER.CREATE.*",
	"$JS.API.CONSUMER.CREATE.*.>",
	"$JS.API.CONSUMER.DURABLE.CREATE.*.*",
	"$JS.API.CONSUMER.INFO.*.*",
	"$JS.API.CONSUMER.NAMES.*",
	"$JS.API.CONSUMER.LIST.*",
	"$JS.API.CONSUMER.DELETE.*.*",
}

// provisionerAccess: the whole JetStream API of CORE, and everything that can
// be written or seen there. CORE offers the management of streams below seal, a
// subject that is a secret of the configuration: no client knows it, so none
// can name it as a reply subject.
func provisionerAccess(keys []string, seal string) access {
	return access{
		account: provisionerAccount,
		keys:    keys,
		calls: []call{
			{subject: seal + ".STREAM.>", as: "$JS.API.STREAM.>"},
			{subject: seal + ".CONSUMER.>", as: "$JS.API.CONSUMER.>"},
			{subject: "$JS.API.INFO"},
			{subject: "$JS.API.DIRECT.GET.*", options: manyReplies},
			{subject: "$JS.API.DIRECT.GET.*.>"},
			{subject: "$JS.API.CONSUMER.MSG.NEXT.*.*", options: manyReplies},
			{subject: "$JS.ACK.>"},
			{subject: "$KV.>"},
			{subject: "hitl.>"},
		},
		hears: []string{"hitl.>", "$JS.API.>"},
	}
}

// gatewayPublish is what a gateway may publish in CORE: its own records, what
// it stores on behalf of callers of the service API, commands, answers, and
// the calls that read and consume. Every bucket in CORE is a gateway's.
func gatewayPublish() []string {
	return append([]string{
		"hitl.dec.*.*.*",
		"hitl.ixe.*.*.*.*.*",
		"hitl.inbox.*.*.*", // that a request was turned away; a decision comes from the server
		"hitl.sgw.*.*.*",
		"hitl.feed.*.*",
		"hitl.seen.*.*.*",
		"hitl.cmd.*.*.*",
		"hitl.alerts.*.*", // what it asks notifiers
		"hitl.work.*.*",
		"hitl.req.*.*.*",
		"hitl.cxl.*.*.*",
		"hitl.ack.*.*.*.*",
		"hitl.evt.*.*.*", // what it lets pass of what owners say, as acks and states
		"hitl.ses.*.*.*",
		replySubjects,
		"$KV.*.>",
		"$JS.ACK.>",
		"$JS.FC.>",
		"$JS.API.DIRECT.GET.*",
		"$JS.API.DIRECT.GET.*.>",
		"$JS.API.CONSUMER.MSG.NEXT.*.*",
	}, openAPI...)
}

func gatewaySubscribe() []string {
	return []string{
		inboxes,
		"hitl.svc.*.*.*",
		"hitl.inbox.*.*.*",
		"hitl.live.*.*.*",
		"hitl.beat.*.*.*",
		subject.Said("hitl.>"),
		"$SRV.>",
	}
}
