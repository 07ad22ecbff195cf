package natsd

import (
	"slices"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/subject"
)

// The names of the streams that identities outside CORE have a narrow part in.
const (
	streamRequests    = "HITL_REQUESTS"
	streamDecisions   = "HITL_DECISIONS"
	streamEvents      = "HITL_EVENTS"
	streamTranscripts = "HITL_TRANSCRIPTS"
	streamWork        = "HITL_WORK"
)

// CORE holds the streams; its only user is the provisioner. Gateways share an
// account of their own: a user inside CORE could name a stream management call
// as the reply subject of a read, and the server would execute it.
const (
	coreAccount    = "CORE"
	gatewayAccount = "GATEWAY"
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
}

const (
	// manyReplies lets a pull request be answered by many messages.
	manyReplies = "response_type: stream"
	// slowReply covers a handler that takes its full 25 s, and the way back.
	slowReply = `response_threshold: "40s"`
)

// peer is the account at the other end of an export.
type peer struct {
	calls []call   // services of the peer that may be called
	hears []string // streams of the peer that are received
}

// access is everything an identity outside CORE can do. Exports, imports and
// the user's permissions all follow from it, so they cannot drift apart.
type access struct {
	account string
	key     string   // public NKey
	core    peer     // what it may use of CORE
	gateway peer     // what it may use of the gateways
	serves  []string // services it offers to the gateways
	sends   []string // streams it sends to the gateways
	// ownJetStream: it has a JetStream of its own.
	ownJetStream bool
	// publish and subscribe are what it may also do inside its own account.
	publish, subscribe []string
}

// The separator in account names is no token character: two identities never
// share an account name.
func accountName(role bus.Role, tenant, name string) string {
	if role == bus.RoleNotifier {
		return "notifier+" + tenant
	}
	return string(role) + "+" + tenant + "+" + name
}

func ownerAccess(o Owner, key string) access {
	to := o.Tenant + "." + o.Name
	a := access{
		account: accountName(bus.RoleOwner, o.Tenant, o.Name),
		key:     key,
		core: peer{
			calls: []call{
				{subject: "hitl.req." + to + ".*"},
				{subject: "hitl.cxl." + to + ".*"},
				{subject: "hitl.ack." + to + ".*.*"},
				{subject: "hitl.evt." + to + ".*"},
				{subject: "hitl.ses." + to + ".*"},
				{subject: directGet(streamDecisions, "hitl.dec."+to+".*")},
				{subject: directGet(streamRequests, "hitl.req."+to+".*")},
				// A session claim that timed out may have landed. Only the
				// stored state tells whose claim it is.
				{subject: directGet(streamTranscripts, "hitl.ses."+to+".*")},
			},
			hears: []string{"hitl.inbox." + to + ".*"},
		},
		serves:  []string{"hitl.cmd." + to + ".*"},
		sends:   []string{"hitl.live." + to + ".*", "hitl.beat." + to + ".*"},
		publish: []string{replySubjects},
	}
	if o.Pool {
		a.core.calls = append(a.core.calls, pullAndAck(streamWork, subject.WorkConsumer(o.Tenant, o.Name))...)
	}
	if o.Caller {
		a.gateway = callerPeer(o.Tenant, o.Name)
	}
	return a
}

func callerAccess(c Caller, key string) access {
	return access{
		account: accountName(bus.RoleCaller, c.Tenant, c.Name),
		key:     key,
		gateway: callerPeer(c.Tenant, c.Name),
	}
}

func callerPeer(tenant, name string) peer {
	return peer{
		calls: []call{serviceCall(tenant, name)},
		hears: []string{"hitl.feed." + name + "." + tenant},
	}
}

// notifierAccess: one durable of the event stream, the service API under a
// name of its own, and a ledger in a JetStream of its own.
func notifierAccess(tenant, key string) access {
	return access{
		account:      accountName(bus.RoleNotifier, tenant, ""),
		key:          key,
		core:         peer{calls: pullAndAck(streamEvents, notifierDurable(tenant))},
		gateway:      peer{calls: []call{serviceCall(tenant, reservedName)}},
		ownJetStream: true,
		publish:      []string{"$JS.API.>", "$JS.ACK.>", "$JS.FC.>", "$KV.>"},
	}
}

// gatewayAccess: the records of gateways, what they store on behalf of callers
// of the service API, and the parts of the JetStream API that read and consume.
// Nothing here creates, changes, purges or deletes a stream, and single messages
// are deleted in the request stream only. Every bucket in CORE is a gateway's.
//
// Across accounts the server ends the replies to a pull at the first message
// that has neither headers nor body. Askers may store such a message, so a
// gateway pulls from the streams they write with a batch of one, as many pulls
// at a time as it likes.
func gatewayAccess(key string) access {
	return access{
		account: gatewayAccount,
		key:     key,
		core: peer{
			calls: []call{
				{subject: "hitl.dec.*.*.*"},
				{subject: "hitl.ixe.*.*.*.*.*"},
				{subject: "hitl.sgw.*.*.*"},
				{subject: "hitl.work.*.*"},
				{subject: "hitl.req.*.*.*"},
				{subject: "hitl.cxl.*.*.*"},
				{subject: "hitl.ack.*.*.*.*"},
				{subject: "$KV.*.>"},
				{subject: "$JS.ACK.>"},
				{subject: "$JS.FC.>"},
				{subject: "$JS.API.INFO"},
				{subject: "$JS.API.STREAM.INFO.*"},
				{subject: "$JS.API.STREAM.NAMES"},
				{subject: "$JS.API.STREAM.LIST"},
				{subject: "$JS.API.STREAM.MSG.GET.*"},
				{subject: "$JS.API.STREAM.MSG.DELETE." + streamRequests},
				{subject: "$JS.API.DIRECT.GET.*", options: manyReplies},
				{subject: "$JS.API.DIRECT.GET.*.>"},
				{subject: "$JS.API.CONSUMER.CREATE.*"},
				{subject: "$JS.API.CONSUMER.CREATE.*.>"},
				{subject: "$JS.API.CONSUMER.DURABLE.CREATE.*.*"},
				{subject: "$JS.API.CONSUMER.INFO.*.*"},
				{subject: "$JS.API.CONSUMER.NAMES.*"},
				{subject: "$JS.API.CONSUMER.LIST.*"},
				{subject: "$JS.API.CONSUMER.MSG.NEXT.*.*", options: manyReplies},
				{subject: "$JS.API.CONSUMER.DELETE.*.*"},
			},
			// Watching a bucket makes a consumer that delivers to an inbox in
			// the account of the stream.
			hears: []string{"hitl.inbox.*.*.*", inboxes},
		},
		publish:   []string{"hitl.feed.*.*", "hitl.cmd.*.*.*", replySubjects},
		subscribe: []string{"hitl.svc.*.*.*", "hitl.live.*.*.*", "hitl.beat.*.*.*", "$SRV.>"},
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
	for _, c := range slices.Concat(a.core.calls, a.gateway.calls) {
		s = append(s, c.subject)
	}
	return slices.Concat(s, a.sends, a.publish)
}

func (a *access) canSubscribe() []string {
	s := slices.Concat([]string{inboxes}, a.core.hears, a.gateway.hears, a.serves, a.subscribe)
	slices.Sort(s)
	return slices.Compact(s)
}
