package natsd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/banksman/banksman/pkg/bus"
)

const banner = "# Generated from plan.json; changes made here are overwritten.\n"

// quote writes a configuration string. Control characters were refused by
// validate.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func quoteAll(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = quote(s)
	}
	return "[" + strings.Join(q, ", ") + "]"
}

// renderServer writes server.conf.
func renderServer(p *Plan) string {
	var b strings.Builder
	b.WriteString(banner)
	name := "banksman"
	if p.Cluster != nil {
		name = p.Cluster.ServerName
	}
	fmt.Fprintf(&b, "server_name: %s\n", quote(name))
	fmt.Fprintf(&b, "host: %s\nport: %d\n", quote(p.Host), p.Port)
	fmt.Fprintf(&b, "max_payload: %d\n", MaxPayload)
	if p.MonitorPort != 0 {
		// Monitoring has no authentication.
		fmt.Fprintf(&b, "http: \"127.0.0.1:%d\"\n", p.MonitorPort)
	}
	sync := "always"
	if p.Durability == DurabilityRelaxed {
		sync = `"2m"`
	}
	fmt.Fprintf(&b, "jetstream {\n  store_dir: %s\n  sync_interval: %s\n  max_file_store: %d\n  max_memory_store: %d\n  max_buffered_msgs: %d\n  max_buffered_size: %d\n}\n",
		quote(p.StoreDir), sync, p.MaxStore, maxMemStore, MaxBuffered, maxBufferedBytes)
	if c := p.Cluster; c != nil {
		fmt.Fprintf(&b, "cluster {\n  name: %s\n  host: %s\n  port: %d\n", quote(c.Name), quote(c.Host), c.Port)
		if c.User != "" {
			fmt.Fprintf(&b, "  authorization { user: %s, password: %s, timeout: 5 }\n", quote(c.User), quote(c.Password))
		}
		fmt.Fprintf(&b, "  routes: %s\n}\n", quoteAll(c.Routes))
	}
	b.WriteString("include \"accounts.conf\"\n")
	return b.String()
}

// renderAccounts writes accounts.conf. keys are the public NKeys by credential
// file name, seal the secret prefix of the sealed API.
func renderAccounts(p *Plan, keys map[string][]string, seal string) string {
	others := []access{provisionerAccess(keys[credentialsName(bus.RoleProvisioner, "", "")], seal)}
	for _, t := range p.Tenants {
		others = append(others, notifierAccess(t, p.Callers, keys[credentialsName(bus.RoleNotifier, t, "")]))
	}
	for _, o := range p.Owners {
		others = append(others, ownerAccess(o, keys[credentialsName(bus.RoleOwner, o.Tenant, o.Name)]))
	}
	for _, c := range p.Callers {
		others = append(others, callerAccess(c, keys[credentialsName(bus.RoleCaller, c.Tenant, c.Name)]))
	}

	var b strings.Builder
	b.WriteString(banner)
	fmt.Fprintf(&b, "system_account: %s\naccounts {\n", systemAccount)
	fmt.Fprintf(&b, "  %s { exports: [ { service: \"$JS.API.>\" }, { service: %s } ] }\n", systemAccount, quote(nowhere))
	fmt.Fprintf(&b, "  %s {\n    jetstream: enabled\n    users: [\n", coreAccount)
	writeUsers(&b, keys[credentialsName(bus.RoleGateway, "", "")], gatewayPublish(), gatewaySubscribe())
	b.WriteString("    ]\n    exports: [\n")
	for _, a := range others {
		writeExports(&b, a.account, a.calls, a.hears)
	}
	b.WriteString("    ]\n    imports: [\n")
	writeCoreAPI(&b, seal)
	for _, a := range others {
		writeImports(&b, a.account, calls(a.serves), a.sends)
	}
	b.WriteString("    ]\n  }\n")
	for _, a := range others {
		writeAccount(&b, &a, p.Cluster != nil)
	}
	b.WriteString("}\n")
	return b.String()
}

// nowhere is a service that nobody listens to.
const nowhere = "banksman.nowhere.>"

// writeCoreAPI writes CORE's imports of the JetStream API. The
// first import takes the place of the one that the server would add, of the
// whole API.
func writeCoreAPI(b *strings.Builder, seal string) {
	writeImport(b, "service", systemAccount, nowhere, "$JS.API.>")
	for _, s := range openAPI {
		writeImport(b, "service", systemAccount, s, "")
	}
	for _, part := range []string{"STREAM", "CONSUMER"} {
		writeImport(b, "service", systemAccount, "$JS.API."+part+".>", seal+"."+part+".>")
	}
}

// calls are services without options.
func calls(subjects []string) []call {
	list := make([]call, len(subjects))
	for i, s := range subjects {
		list[i].subject = s
	}
	return list
}

// writeExports writes what account may use, in the account that offers it.
func writeExports(b *strings.Builder, account string, services []call, streams []string) {
	for _, c := range services {
		options := ""
		if c.options != "" {
			options = c.options + ", "
		}
		fmt.Fprintf(b, "      { service: %s, %saccounts: [%s] }\n", quote(c.subject), options, quote(account))
	}
	for _, s := range streams {
		fmt.Fprintf(b, "      { stream: %s, accounts: [%s] }\n", quote(s), quote(account))
	}
}

// writeImports is the other end of writeExports.
func writeImports(b *strings.Builder, from string, services []call, streams []string) {
	for _, c := range services {
		writeImport(b, "service", from, c.subject, c.as)
	}
	for _, s := range streams {
		writeImport(b, "stream", from, s, "")
	}
}

// writeImport writes one import; as is its subject here, if not the same.
func writeImport(b *strings.Builder, kind, from, subject, as string) {
	to := ""
	if as != "" {
		to = ", to: " + quote(as)
	}
	fmt.Fprintf(b, "      { %s: { account: %s, subject: %s }%s }\n", kind, quote(from), quote(subject), to)
}

// writeUsers writes one user for each key, all with the same rights.
func writeUsers(b *strings.Builder, keys, publish, subscribe []string) {
	for _, key := range keys {
		fmt.Fprintf(b, "      { nkey: %s, permissions: {\n", key)
		for _, part := range []struct {
			name     string
			subjects []string
		}{{"publish", publish}, {"subscribe", subscribe}} {
			fmt.Fprintf(b, "        %s: { allow: [\n", part.name)
			for _, s := range part.subjects {
				fmt.Fprintf(b, "          %s\n", quote(s))
			}
			b.WriteString("        ] }\n")
		}
		b.WriteString("      } }\n")
	}
}

func writeAccount(b *strings.Builder, a *access, cluster bool) {
	fmt.Fprintf(b, "  %s {\n", quote(a.account))
	if a.ownJetStream {
		most := notifierMaxStore
		if cluster { // each copy counts
			most *= 3
		}
		fmt.Fprintf(b, "    jetstream: { max_file: %d, max_mem: 0, max_streams: 16, max_consumers: 256 }\n", most)
	}
	if a.account != provisionerAccount {
		fmt.Fprintf(b, "    limits: { max_connections: %d, max_subscriptions: %d }\n", MaxConnections, maxSubscriptions)
	}
	b.WriteString("    users: [\n")
	if a.account == provisionerAccount {
		for _, key := range a.keys {
			fmt.Fprintf(b, "      { nkey: %s }\n", key)
		}
	} else {
		writeUsers(b, a.keys, a.canPublish(), a.canSubscribe())
	}
	b.WriteString("    ]\n    exports: [\n")
	writeExports(b, coreAccount, calls(a.serves), a.sends)
	writeExports(b, a.asker, calls(a.answers), nil)
	b.WriteString("    ]\n    imports: [\n")
	writeImports(b, coreAccount, a.calls, a.hears)
	for _, account := range slices.Sorted(maps.Keys(a.asks)) {
		writeImports(b, account, calls([]string{a.asks[account]}), nil)
	}
	b.WriteString("    ]\n  }\n")
}
