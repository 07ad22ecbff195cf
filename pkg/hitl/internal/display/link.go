package display

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
)

// OpenLink is the tool that wants a person to open its address.
const OpenLink = "OpenLink"

// Host is the host of an address as people should read it: every character that
// is not a plain letter, digit, dot or hyphen is a token, so that no letter can
// pass for another one. caution says what else is wrong with it, and problem why
// no browser should be led there at all.
func Host(address string) (host, caution, problem string) {
	u, err := url.Parse(address)
	_, hidden := Visible(address)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return "", "", "is no address with a host"
	case u.Scheme != "https" && u.Scheme != "http":
		return "", "", "is no web address"
	case u.User != nil:
		return "", "", "hides its host behind a name and an @"
	case hidden > 0 || strings.ContainsAny(address, `\ `+"\n\t"):
		return "", "", "has characters that browsers and people read in different ways"
	}
	name := strings.ToLower(u.Hostname())
	host = spell(name)
	if port := u.Port(); port != "" {
		host += ":" + port
	}
	addr, noIP := netip.ParseAddr(name)
	switch last := name[strings.LastIndexByte(name, '.')+1:]; {
	case name == "localhost" || strings.HasSuffix(name, ".localhost"), noIP == nil && (addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast() || addr.IsUnspecified()):
		caution = "leads to this machine or its network"
	case noIP == nil, numeric(last):
		caution = "names its host by a number"
	case host != name && u.Port() == "" || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }):
		caution = "has letters in the name of its host that can look like others"
	case strings.HasPrefix(name, "xn--") || strings.Contains(name, ".xn--"):
		caution = "has a host (xn--) that a browser may show as another name"
	case u.Scheme == "http":
		caution = "is not encrypted"
	}
	return host, caution, ""
}

// numeric reports whether browsers take a name that ends so for a number: they
// know decimal, octal and hexadecimal ones.
func numeric(last string) bool {
	return last != "" && (strings.HasPrefix(last, "0x") || strings.Trim(last, "0123456789") == "")
}

func spell(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_:[]%", r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "⟦U+%04X⟧", r)
		}
	}
	return b.String()
}
