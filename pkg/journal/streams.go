package journal

import (
	"maps"
	"slices"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/subject"
)

// The buckets: of people's sessions and links, which end; of people and tokens, which stay; of rules, which end;
// of the tokens in alerts, which end, and of which a full bucket forgets the oldest;
// of the browsers that want pushes, a key for each person.
const (
	SessionsBucket, UsersBucket = "hitl_sessions", "hitl_users"
	RulesBucket, TicketsBucket  = "hitl_rules", "hitl_tickets"
	PushBucket                  = "hitl_push"
)

// Sizes, in bytes.
const (
	// MaxRequestMsg is the largest message of Requests: a request and headers.
	MaxRequestMsg = hitl.MaxRequest + 64<<10
	// MaxDecisionMsg fits every decision that can be made: the largest request
	// in base64, the largest content, and the rest.
	MaxDecisionMsg = (hitl.MaxRequest+2)/3*4 + hitl.MaxContent + 128<<10
	// MaxEventMsg fits a closed event with the largest content.
	MaxEventMsg = hitl.MaxContent + 512<<10
)

// Retention.
const (
	// DefaultRecordAge is how long decisions are kept.
	DefaultRecordAge = 365 * 24 * time.Hour
	// LogAge is how long events and conversations are kept.
	LogAge = 30 * 24 * time.Hour
	// SessionAge is how long an entry of SessionsBucket lasts at most.
	SessionAge = 30 * 24 * time.Hour
	// RuleAge is how long a rule is kept after its last change: longer than it may last.
	RuleAge = 90 * 24 * time.Hour
	// TicketAge is how long the token of an alert shows how it ended.
	TicketAge = 30 * 24 * time.Hour
)

// AckWait is after which time a message that a gateway took is given to another
// one, unless it says in the meantime that it has it still. HoldLimit is for how
// long it says so: while the message waits for its turn, and again while it is
// worked on.
const (
	AckWait   = 2 * time.Second
	HoldLimit = 10 * time.Second
)

// tellEvery is how often the server hears of a message in hand; several times in
// AckWait, so that a busy process is not taken for a dead one.
const tellEvery = AckWait / 5

// otherAckWait is the same for those who do not say so.
const otherAckWait = 10 * time.Second

// defaultMaxBytes keeps every stream from starving another one.
var defaultMaxBytes = map[string]int64{
	Requests:               2 << 30,
	Mailbox:                1 << 30,
	Decisions:              8 << 30,
	Events:                 4 << 30,
	Transcripts:            32 << 30, // an owner may fill 31 GiB of it in LogAge, see the gateway's quota
	Work:                   256 << 20,
	"KV_" + SessionsBucket: 64 << 20,
	"KV_" + UsersBucket:    64 << 20,
	"KV_" + RulesBucket:    64 << 20,
	"KV_" + TicketsBucket:  128 << 20,
	"KV_" + PushBucket:     64 << 20,
}

// Pool names a pool of workers.
type Pool struct{ Tenant, Pool string }

// Config is what an operator decides about the streams.
type Config struct {
	// Replicas of every stream; default 1, 3 in a cluster.
	Replicas int
	// MaxBytes by stream name. Provision creates a stream that is not named
	// with a default and leaves an existing one's size alone; Check accepts
	// any limit there.
	MaxBytes map[string]int64
	// RecordAge is how long decisions are kept; default DefaultRecordAge for a
	// new stream, what it is for an existing one.
	RecordAge time.Duration
	// Tenants get a notifier consumer each. The tenants of Pools are added; the
	// tenant "default" stands where there is none.
	Tenants []string
	// Pools get a consumer of Work each.
	Pools []Pool
}

// NotifierDurable names the notifier consumer of a tenant.
func NotifierDurable(tenant string) string {
	if tenant == defaultTenant {
		return NotifierConsumer
	}
	return NotifierConsumer + "-" + subject.Token(tenant)
}

const defaultTenant = "default"

// spec is a stream's or consumer's configuration in the server's own words.
type spec map[string]any

func (s spec) with(more spec) spec {
	maps.Copy(s, more)
	return s
}

// stream is the part that all streams share. What is not named here must be
// off: rollup, schedules, per-message TTL, counters, batches, mirrors, sources.
func stream(name string, maxMsg int, maxAge time.Duration, subjects ...string) spec {
	return spec{
		"name": name, "subjects": subjects, "storage": "file", "retention": "limits",
		"max_consumers": -1, "max_msgs": -1, "max_msgs_per_subject": -1,
		"max_bytes": defaultMaxBytes[name], "max_age": maxAge, "max_msg_size": maxMsg,
		"discard": "old", "num_replicas": 1, "compression": "none", "allow_direct": true,
		"duplicate_window": 2 * time.Minute,
	}
}

// once makes the server refuse a second message on a subject, whoever sends it.
var once = spec{"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": true}

var keyed = spec{"max_msgs_per_subject": 1, "discard": "new", "deny_delete": true, "allow_rollup_hdrs": true} // as key-value clients expect it

// streams lists all streams as Config wants them.
func (c Config) streams() []spec {
	all := []spec{
		stream(Requests, MaxRequestMsg, 0, "hitl.req.>", "hitl.cxl.>").with(once),
		stream(Mailbox, MaxRequestMsg, 0, "hitl.box.>").with(once).with(spec{
			"retention": "workqueue", "duplicate_window": 100 * time.Millisecond, // the server keeps ids so long, and nobody needs them
		}),
		stream(Decisions, MaxDecisionMsg, DefaultRecordAge, "hitl.dec.>").with(once).with(spec{
			"deny_delete": true, "deny_purge": true,
			"republish": spec{"src": "hitl.dec.>", "dest": "hitl.inbox.>"},
		}),
		stream(Events, MaxEventMsg, LogAge, "hitl.ixe.>", "hitl.sgw.>").with(spec{"deny_delete": true}),
		stream(Transcripts, MaxRequestMsg, LogAge, "hitl.evt.>", "hitl.ses.>", "hitl.ack.>"),
		stream(Work, 7<<20, LogAge, "hitl.work.>").with(spec{"retention": "workqueue"}),
		stream("KV_"+SessionsBucket, 64<<10, SessionAge, "$KV."+SessionsBucket+".>").with(keyed),
		stream("KV_"+UsersBucket, 64<<10, 0, "$KV."+UsersBucket+".>").with(keyed),
		stream("KV_"+RulesBucket, 64<<10, RuleAge, "$KV."+RulesBucket+".>").with(keyed),
		stream("KV_"+TicketsBucket, 64<<10, TicketAge, "$KV."+TicketsBucket+".>").with(keyed).with(spec{"discard": "old"}),
		stream("KV_"+PushBucket, 64<<10, 0, "$KV."+PushBucket+".>").with(keyed),
	}
	for _, s := range all {
		if n := c.MaxBytes[s.name()]; n > 0 {
			s["max_bytes"] = n
		}
		if c.Replicas > 0 {
			s["num_replicas"] = c.Replicas
		}
		if s.name() == Decisions && c.RecordAge > 0 {
			s["max_age"] = c.RecordAge
		}
	}
	return all
}

// Streams names all streams, those of buckets included.
func Streams() []string { return slices.Sorted(maps.Keys(defaultMaxBytes)) }

// Refusing names the streams that take nothing more when they are full.
func Refusing() (names []string) {
	for _, s := range (Config{}).streams() {
		if s["discard"] == "new" {
			names = append(names, s.name())
		}
	}
	return names
}

// open lists the fields of a stream that Config leaves open.
func (c Config) open(stream string) []string {
	var keys []string
	if c.MaxBytes[stream] <= 0 {
		keys = append(keys, "max_bytes")
	}
	if c.Replicas <= 0 {
		keys = append(keys, "num_replicas")
	}
	if stream == Decisions && c.RecordAge <= 0 {
		keys = append(keys, "max_age")
	}
	return keys
}

func (s spec) name() string { return s["name"].(string) }

// consumer is a shared durable.
type consumer struct {
	stream, name string
	spec         spec
}

func durable(stream, name string, ackWait time.Duration, ackPending int, filters ...string) consumer {
	s := spec{
		"durable_name": name, "deliver_policy": "all", "ack_policy": "explicit", "replay_policy": "instant",
		"ack_wait": ackWait, "max_deliver": -1, "max_ack_pending": ackPending, "max_waiting": 512,
		"num_replicas": 0,
	}
	if len(filters) == 1 {
		s["filter_subject"] = filters[0]
	} else {
		s["filter_subjects"] = filters
	}
	return consumer{stream, name, s}
}

// consumers lists the shared durables.
func (c Config) consumers() []consumer {
	all := []consumer{
		durable(Requests, IntakeConsumer, AckWait, 4096, "hitl.req.>", "hitl.cxl.>"),
		durable(Mailbox, MailboxConsumer, otherAckWait, 1024, "hitl.box.>"),
		durable(Decisions, SweeperConsumer, AckWait, 4096, "hitl.dec.>"),
	}
	seen := map[string]bool{}
	notifier := func(tenant string) {
		if name := NotifierDurable(tenant); !seen[name] {
			seen[name] = true
			all = append(all, durable(Events, name, otherAckWait, 1024, "hitl.ixe."+subject.Token(tenant)+".>"))
		}
	}
	for _, t := range c.Tenants {
		notifier(t)
	}
	for _, p := range c.Pools {
		notifier(p.Tenant)
		if name := subject.WorkConsumer(p.Tenant, p.Pool); !seen[Work+" "+name] {
			seen[Work+" "+name] = true
			all = append(all, durable(Work, name, otherAckWait, 1024, subject.Work(p.Tenant, p.Pool)))
		}
	}
	if len(c.Tenants) == 0 && len(c.Pools) == 0 {
		notifier(defaultTenant)
	}
	return all
}
