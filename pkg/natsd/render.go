package natsd

import (
	"fmt"
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
	fmt.Fprintf(&b, "jetstream {\n  store_dir: %s\n  sync_interval: %s\n  max_file_store: %d\n  max_memory_store: %d\n}\n",
		quote(p.StoreDir), sync, p.MaxStore, maxMemStore)
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
// file name.
func renderAccounts(p *Plan, keys map[string]string) string {
	gw := gatewayAccess(keys[credentialsName(bus.RoleGateway, "", "")])
	var others []access
	for _, t := range p.Tenants {
		others = append(others, notifierAccess(t, keys[credentialsName(bus.RoleNotifier, t, "")]))
	}
	for _, o := range p.Owners {
		others = append(others, ownerAccess(o, keys[credentialsName(bus.RoleOwner, o.Tenant, o.Name)]))
	}
	for _, c := range p.Callers {
		others = append(others, callerAccess(c, keys[credentialsName(bus.RoleCaller, c.Tenant, c.Name)]))
	}

	var b strings.Builder
	b.WriteString(banner)
	fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n    users: [\n", coreAccount)
	fmt.Fprintf(&b, "      { nkey: %s }\n    ]\n    exports: [\n", keys[credentialsName(bus.RoleProvisioner, "", "")])
	writeExports(&b, gw.account, gw.core)
	for _, a := range others {
		writeExports(&b, a.account, a.core)
	}
	b.WriteString("    ]\n  }\n")

	fmt.Fprintf(&b, "  %s {\n    users: [\n", gatewayAccount)
	writeUser(&b, gw.key, gw.canPublish(), gw.canSubscribe())
	b.WriteString("    ]\n    exports: [\n")
	for _, a := range others {
		writeExports(&b, a.account, a.gateway)
	}
	b.WriteString("    ]\n    imports: [\n")
	writeImports(&b, coreAccount, gw.core)
	for _, a := range others {
		for _, s := range a.serves {
			writeImport(&b, "service", a.account, s)
		}
		for _, s := range a.sends {
			writeImport(&b, "stream", a.account, s)
		}
	}
	b.WriteString("    ]\n  }\n")
	for _, a := range others {
		writeAccount(&b, &a)
	}
	b.WriteString("}\n")
	return b.String()
}

// writeExports writes what account may use, in the account that offers it.
func writeExports(b *strings.Builder, account string, p peer) {
	for _, c := range p.calls {
		options := ""
		if c.options != "" {
			options = c.options + ", "
		}
		fmt.Fprintf(b, "      { service: %s, %saccounts: [%s] }\n", quote(c.subject), options, quote(account))
	}
	for _, s := range p.hears {
		fmt.Fprintf(b, "      { stream: %s, accounts: [%s] }\n", quote(s), quote(account))
	}
}

// writeImports is the other end of writeExports.
func writeImports(b *strings.Builder, from string, p peer) {
	for _, c := range p.calls {
		writeImport(b, "service", from, c.subject)
	}
	for _, s := range p.hears {
		writeImport(b, "stream", from, s)
	}
}

func writeImport(b *strings.Builder, kind, from, subject string) {
	fmt.Fprintf(b, "      { %s: { account: %s, subject: %s } }\n", kind, quote(from), quote(subject))
}

func writeUser(b *strings.Builder, key string, publish, subscribe []string) {
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

func writeAccount(b *strings.Builder, a *access) {
	fmt.Fprintf(b, "  %s {\n", quote(a.account))
	if a.ownJetStream {
		fmt.Fprintf(b, "    jetstream: { max_file: %d, max_mem: 0, max_streams: 16, max_consumers: 256 }\n", notifierMaxStore)
	}
	b.WriteString("    users: [\n")
	writeUser(b, a.key, a.canPublish(), a.canSubscribe())
	b.WriteString("    ]\n    exports: [\n")
	writeExports(b, gatewayAccount, a.offers())
	b.WriteString("    ]\n    imports: [\n")
	writeImports(b, coreAccount, a.core)
	writeImports(b, gatewayAccount, a.gateway)
	b.WriteString("    ]\n  }\n")
}

// offers is what the gateways may use of the account.
func (a *access) offers() peer {
	p := peer{hears: a.sends}
	for _, s := range a.serves {
		p.calls = append(p.calls, call{subject: s})
	}
	return p
}
