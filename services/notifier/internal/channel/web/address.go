package web

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// errAddress: the name leads to an address that must not be called.
var errAddress = errors.New("address is not allowed")

// never are networks that nobody can be served from.
var never = prefixes(
	"0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/128", "100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16", "ff00::/8",
)

// metadata are the addresses at which clouds tell a machine its own secrets. They
// are never anybody's receiver, wherever else one may be.
var metadata = prefixes("169.254.169.254/32", "169.254.170.2/32", "168.63.129.16/32", "100.100.100.200/32", "fd00:ec2::254/128")

// private are networks of the machine and of its surroundings.
var private = prefixes(
	"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
	"::1/128", "fc00::/7", "fe80::/10", "fec0::/10",
)

// carriers are IPv6 networks whose addresses carry an IPv4 address, and the
// byte at which it stands. A translator on the way would call that one.
var carriers = []struct {
	net netip.Prefix
	at  int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // SIIT
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible
}

// opaque are IPv6 networks whose addresses hide an IPv4 address in other ways.
var opaque = prefixes("64:ff9b:1::/48", "2001::/32")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func within(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// allowed reports whether a may be called; local admits the machine itself and
// private networks.
func allowed(a netip.Addr, local bool) bool {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || within(never, a) || within(metadata, a) {
		return false
	}
	if within(private, a) {
		return local
	}
	if within(opaque, a) {
		return false
	}
	for _, c := range carriers {
		if c.net.Contains(a) {
			raw := a.As16()
			return allowed(netip.AddrFrom4([4]byte(raw[c.at:c.at+4])), local)
		}
	}
	return true
}

// guard is the last look before a connection is made, at the very address that
// is dialled, so that a name cannot change its mind after a check.
func guard(local bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %w", errAddress, err)
		}
		if !allowed(ap.Addr(), local) {
			return fmt.Errorf("%s: %w", ap.Addr(), errAddress)
		}
		return nil
	}
}
