package natsd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/subject"
)

// Durability says when the server flushes what it has acknowledged.
type Durability string

const (
	// DurabilityAlways flushes before every acknowledgement: an acknowledged
	// request survives a power loss. The default.
	DurabilityAlways Durability = "always"
	// DurabilityRelaxed flushes every two minutes: faster; a killed process
	// loses nothing, a power loss up to the last two minutes.
	DurabilityRelaxed Durability = "relaxed"
)

const (
	// DefaultPort is taken for clients when it is free.
	DefaultPort = 4222
	// RandomPort as Plan.Port chooses any free port and never DefaultPort.
	RandomPort = -1
	// MaxPayload is the largest message of our server configurations, in bytes.
	MaxPayload = 8 << 20
	// MaxBuffered and maxBufferedBytes are how much a stream takes in before it has
	// stored it; more is refused with error 10167. The server stores in the order of
	// arrival, and takes up all that waits at once, so whoever is admitted waits
	// behind twice as much at most, however much one sender has sent.
	MaxBuffered      = 1000
	maxBufferedBytes = 32 << 20
	// DefaultMaxStore bounds what all streams together may take on disk, bytes.
	DefaultMaxStore = 64 << 30
	// notifierMaxStore bounds a notifier's own ledger, bytes.
	notifierMaxStore = 1 << 30
	// MaxConnections is how many connections each owner, caller and notifier
	// may have.
	MaxConnections = 1024
	// maxSubscriptions is the same for the subscriptions of one connection; an
	// ask that waits has one.
	maxSubscriptions = 100_000
	// maxMemStore bounds streams and buckets kept in memory, bytes.
	maxMemStore = 256 << 20
)

// Plan is what Write turns into a server configuration and credential files.
// Writing the same plan again changes nothing; a zero field keeps what was
// written before, and owners, callers and tenants only ever add up (Remove
// takes one away).
type Plan struct {
	// Dir is the data directory. Write puts nats/server.conf,
	// nats/accounts.conf, nats/plan.json and creds/*.json into it, mode 0700.
	Dir string `json:"-"`
	// Host is the address clients connect to; default 127.0.0.1.
	Host string `json:"host"`
	// Port is the client port. 0 takes DefaultPort if it is free, else a free
	// one; RandomPort a free one. Chosen once, then kept.
	Port int `json:"port"`
	// StoreDir holds the streams; default Dir/nats/store.
	StoreDir string `json:"store_dir"`
	// Tenants get a notifier identity each; those of owners and callers are
	// added. Default: bus.DefaultTenant.
	Tenants []string `json:"tenants"`
	Owners  []Owner  `json:"owners"`
	Callers []Caller `json:"callers"`
	// Durability defaults to DurabilityAlways.
	Durability Durability `json:"durability"`
	// URLs replaces the address derived from Host and Port in the credential
	// files, for clients that reach the server by another name.
	URLs []string `json:"urls,omitempty"`
	// Cluster, if set, makes this server a node of a cluster.
	Cluster *Cluster `json:"cluster,omitempty"`
	// MonitorPort, if not 0, serves the server's HTTP monitoring on 127.0.0.1.
	MonitorPort int `json:"monitor_port,omitempty"`
	// MaxStore bounds the disk that all streams together may reserve, in
	// bytes; default DefaultMaxStore.
	MaxStore int64 `json:"max_store"`
}

// Owner is the stable identity of an asker: a pool of workers or one program.
type Owner struct {
	Tenant string `json:"tenant"` // default bus.DefaultTenant
	Name   string `json:"name"`
	Caller bool   `json:"caller"` // may use the service API under its name
	Pool   bool   `json:"pool"`   // takes work from the pool of its name
}

// Caller is a program that only uses the service API.
type Caller struct {
	Tenant string `json:"tenant"` // default bus.DefaultTenant
	Name   string `json:"name"`
}

// Cluster makes the server one node of a cluster. Every node needs the same
// accounts and keys: write the plan once, copy the data directory (without the
// store) to the others, and write it there again with their own ServerName.
type Cluster struct {
	Name       string `json:"name"`
	ServerName string `json:"server_name"` // unique in the cluster
	Host       string `json:"host"`        // default Plan.Host
	Port       int    `json:"port"`
	// Routes are nats://user:password@host:port of the other nodes. What a node shows
	// them is what stands there, and nothing else.
	Routes []string `json:"routes"`
	// User and Password are what a node asks of the others. Needed as soon as the
	// cluster listens beyond loopback, because a node may do anything.
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

// FieldError names the field of a Plan that cannot be used.
type FieldError struct {
	Field   string
	Problem string
}

func (e *FieldError) Error() string { return "plan: " + e.Field + ": " + e.Problem }

func badField(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// checkToken accepts what appears unchanged as a subject token. Names that
// begin with "h_" are refused because the subject grammar keeps that prefix
// for hashes.
func checkToken(field, s string) error {
	if !subject.ValidToken(s) {
		return badField(field, "%q is not a token of 1 to 64 letters, digits, - or _", s)
	}
	if strings.HasPrefix(s, "h_") {
		return badField(field, "%q begins with h_, which is kept for hashed names", s)
	}
	return nil
}

// reservedName is the caller name of every tenant's notifier.
const reservedName = "notifier"

// validate checks a plan whose defaults are filled in.
func (p *Plan) validate() error {
	if p.Dir == "" {
		return badField("dir", "missing")
	}
	if err := checkPlainText("host", p.Host); err != nil {
		return err
	}
	for field, port := range map[string]int{"port": p.Port, "monitor_port": p.MonitorPort} {
		if port < 0 || port > 65535 {
			return badField(field, "%d is not a port", port)
		}
	}
	for field, dir := range map[string]string{"dir": p.Dir, "store_dir": p.StoreDir} {
		if err := checkPlainText(field, dir); err != nil {
			return err
		}
	}
	if p.MaxStore < 0 {
		return badField("max_store", "%d is negative", p.MaxStore)
	}
	if p.Durability != DurabilityAlways && p.Durability != DurabilityRelaxed {
		return badField("durability", "%q is neither %s nor %s", p.Durability, DurabilityAlways, DurabilityRelaxed)
	}
	for i, t := range p.Tenants {
		if err := checkToken(fmt.Sprintf("tenants[%d]", i), t); err != nil {
			return err
		}
	}
	taken := map[Caller]string{}
	identity := func(field, tenant, name string) error {
		if err := checkToken(field+".tenant", tenant); err != nil {
			return err
		}
		if err := checkToken(field+".name", name); err != nil {
			return err
		}
		if name == reservedName {
			return badField(field+".name", "%q is the tenant's own notifier", name)
		}
		key := Caller{tenant, name}
		if other, ok := taken[key]; ok {
			return badField(field+".name", "%q of tenant %q is already %s; an owner that also calls has caller: true", name, tenant, other)
		}
		taken[key] = field
		return nil
	}
	for i, o := range p.Owners {
		if err := identity(fmt.Sprintf("owners[%d]", i), o.Tenant, o.Name); err != nil {
			return err
		}
	}
	for i, c := range p.Callers {
		if err := identity(fmt.Sprintf("callers[%d]", i), c.Tenant, c.Name); err != nil {
			return err
		}
	}
	return p.Cluster.validate()
}

func (c *Cluster) validate() error {
	if c == nil {
		return nil
	}
	if err := checkToken("cluster.name", c.Name); err != nil {
		return err
	}
	if err := checkToken("cluster.server_name", c.ServerName); err != nil {
		return err
	}
	if c.Port <= 0 || c.Port > 65535 {
		return badField("cluster.port", "%d is not a port", c.Port)
	}
	texts := map[string]string{"cluster.host": c.Host, "cluster.user": c.User, "cluster.password": c.Password}
	for i, r := range c.Routes {
		texts[fmt.Sprintf("cluster.routes[%d]", i)] = r
	}
	for field, s := range texts {
		if err := checkPlainText(field, s); err != nil {
			return err
		}
	}
	if (c.User == "") != (c.Password == "") {
		return badField("cluster.password", "user and password go together")
	}
	if c.Password == "" && !isLoopback(c.Host) {
		return badField("cluster.password", "missing: %s is not a loopback address, and a node may do anything", c.Host)
	}
	return nil
}

// checkPlainText keeps control characters out of the configuration text.
func checkPlainText(field, s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return badField(field, "contains a control character")
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// state is what plan.json holds: the plan as written, and the public half of
// every key in use, so that a credential file which was moved to another
// machine keeps working when the plan is written again.
type state struct {
	Plan Plan `json:"plan"`
	// Keys are the public NKeys by credential file name.
	Keys map[string]string `json:"keys"`
	// OldKeys are those that were replaced and are accepted still.
	OldKeys map[string][]string `json:"old_keys,omitempty"`
	// DecisionKeys are the public decision keys by id, as askers accept them.
	DecisionKeys map[string]string `json:"decision_keys"`
	// Dropped are the ids of decision keys that only gateways have still, to
	// read what is on record.
	Dropped []string `json:"dropped_decision_keys,omitempty"`
	// Seal is the secret subject prefix of the sealed API. No client needs it.
	Seal string `json:"seal"`
}

func natsDir(dir string) string  { return filepath.Join(dir, "nats") }
func planFile(dir string) string { return filepath.Join(natsDir(dir), "plan.json") }

// AccountsFile is the part of the configuration that changes with the owners.
func AccountsFile(dir string) string { return filepath.Join(natsDir(dir), "accounts.conf") }

// ConfigFile is the path of the server configuration below a data directory.
func ConfigFile(dir string) string { return filepath.Join(natsDir(dir), "server.conf") }

// CredentialsFile is the path of an identity's credential file below a data
// directory. name counts for owners and callers only.
func CredentialsFile(dir string, role bus.Role, tenant, name string) string {
	return filepath.Join(dir, "creds", credentialsName(role, tenant, name))
}

// credentialsName: tenants other than the default one are put before the name,
// with a dot, which no token contains.
func credentialsName(role bus.Role, tenant, name string) string {
	if tenant == bus.DefaultTenant {
		tenant = ""
	}
	switch role {
	case bus.RoleOwner, bus.RoleCaller:
		if tenant != "" {
			name = tenant + "." + name
		}
		return string(role) + "-" + name + ".json"
	case bus.RoleNotifier:
		if tenant != "" {
			return "notifier-" + tenant + ".json"
		}
	}
	return string(role) + ".json"
}

func readState(dir string) (*state, error) {
	st := &state{Keys: map[string]string{}, OldKeys: map[string][]string{}, DecisionKeys: map[string]string{}}
	raw, err := os.ReadFile(planFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, st); err != nil {
		return nil, fmt.Errorf("%s: %w", planFile(dir), err)
	}
	if st.Keys == nil || st.DecisionKeys == nil {
		return nil, fmt.Errorf("%s: keys or decision_keys missing", planFile(dir))
	}
	if st.OldKeys == nil { // "null" is as good as nothing
		st.OldKeys = map[string][]string{}
	}
	return st, nil
}

// merge fills the plan from what was written before and from the defaults, and
// settles the port.
func (p Plan) merge(old Plan) (Plan, error) {
	p.Host = cmp.Or(p.Host, old.Host, "127.0.0.1")
	p.StoreDir = cmp.Or(p.StoreDir, old.StoreDir, filepath.Join(natsDir(p.Dir), "store"))
	p.Durability = cmp.Or(p.Durability, old.Durability, DurabilityAlways)
	p.MonitorPort = cmp.Or(p.MonitorPort, old.MonitorPort)
	p.MaxStore = cmp.Or(p.MaxStore, old.MaxStore, DefaultMaxStore)
	if p.URLs == nil {
		p.URLs = old.URLs
	}
	if p.Cluster == nil {
		p.Cluster = old.Cluster
	}
	if p.Cluster != nil {
		c := *p.Cluster
		c.Host = cmp.Or(c.Host, p.Host)
		p.Cluster = &c
	}
	p.Owners, p.Callers = slices.Clone(p.Owners), slices.Clone(p.Callers)
	tenants := slices.Concat(old.Tenants, p.Tenants)
	for i := range p.Owners {
		p.Owners[i].Tenant = cmp.Or(p.Owners[i].Tenant, bus.DefaultTenant)
		tenants = append(tenants, p.Owners[i].Tenant)
	}
	for i := range p.Callers {
		p.Callers[i].Tenant = cmp.Or(p.Callers[i].Tenant, bus.DefaultTenant)
		tenants = append(tenants, p.Callers[i].Tenant)
	}
	for _, o := range old.Owners {
		if !slices.ContainsFunc(p.Owners, func(n Owner) bool { return n.Tenant == o.Tenant && n.Name == o.Name }) {
			p.Owners = append(p.Owners, o)
		}
	}
	for _, c := range old.Callers {
		if !slices.Contains(p.Callers, c) {
			p.Callers = append(p.Callers, c)
		}
	}
	if len(tenants) == 0 {
		tenants = []string{bus.DefaultTenant}
	}
	// A fixed order makes the same plan the same text.
	slices.Sort(tenants)
	p.Tenants = slices.Compact(tenants)
	slices.SortFunc(p.Owners, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(p.Callers, func(a, b Caller) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
	})
	if p.Port == 0 || p.Port == RandomPort {
		want := p.Port
		if p.Port = old.Port; p.Port == 0 {
			port, err := choosePort(p.Host, want)
			if err != nil {
				return p, badField("host", "no port on %q: %v", p.Host, err)
			}
			p.Port = port
		}
	}
	return p, p.validate()
}

// choosePort finds a free port by binding it. want is 0 or RandomPort.
func choosePort(host string, want int) (int, error) {
	if want != RandomPort {
		if l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(DefaultPort))); err == nil {
			return DefaultPort, l.Close()
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// clientURLs are the addresses that go into credential files.
func (p *Plan) clientURLs() []string {
	if len(p.URLs) > 0 {
		return p.URLs
	}
	host := strings.Trim(p.Host, "[]")
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	return []string{"nats://" + net.JoinHostPort(host, strconv.Itoa(p.Port))}
}
