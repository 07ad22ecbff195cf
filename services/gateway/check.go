package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/status"
	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/gateway/internal/forwarded"
)

// said is what the options say of where the gateway is and who speaks to it.
type said struct {
	base    *url.URL // nil: where it listens
	origins []string
	proxies *forwarded.Proxies
}

// Validate reports what New would refuse without asking anybody, by the name of the
// flag. Credentials that are not there yet are left out.
func (o *Options) Validate() error {
	_, err := o.read()
	return err
}

func (o *Options) read() (s said, err error) {
	if c := o.Credentials; c != nil && c.Role != bus.RoleGateway {
		return s, fmt.Errorf("-creds: they are those of a %s, want a gateway's", c.Role)
	}
	if o.BaseURL != "" {
		if s.base, err = parseBase(o.BaseURL); err != nil {
			return s, fmt.Errorf("-base-url: %w", err)
		}
	}
	for _, text := range o.Origins {
		origin, err := parseOrigin(text)
		if err != nil {
			return s, fmt.Errorf("-origin: %w", err)
		}
		s.origins = append(s.origins, origin)
	}
	if s.proxies, err = forwarded.Parse(o.TrustedProxies); err != nil {
		return s, fmt.Errorf("-trusted-proxy: %w", err)
	}
	if err := o.checkListen(s.base); err != nil {
		return s, err
	}
	for flag, name := range map[string]string{"-tenant": o.Tenant, "-pool": o.Pool} {
		if name != "" && subject.Token(name) != name {
			return s, fmt.Errorf("%s: %q is not a token of 1 to 64 letters, digits, - or _", flag, name)
		}
	}
	switch {
	case o.Drain < 0:
		return s, fmt.Errorf("-drain: %s is less than 0", o.Drain)
	case o.OrphanAfter < 0:
		return s, fmt.Errorf("-orphan-after: %s is less than 0", o.OrphanAfter)
	}
	if o.OIDC != nil {
		return s, o.OIDC.Check()
	}
	return s, nil
}

// checkListen refuses an address that others could reach without TLS.
func (o *Options) checkListen(base *url.URL) error {
	addr := cmp.Or(o.Addr, DefaultAddr)
	if o.Listener != nil {
		addr = o.Listener.Addr().String()
	}
	if err := status.CheckAddr(addr); err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	if loopback(addr) {
		return nil
	}
	if !o.AllowRemote {
		return fmt.Errorf("-listen: %s is no loopback address, and others would reach it without TLS: "+
			"listen on 127.0.0.1, or run banksman-gateway with -allow-remote behind a TLS proxy, with its https address as -base-url", addr)
	}
	if base == nil || base.Scheme != "https" {
		return errors.New("-allow-remote: needs a -base-url that begins with https://")
	}
	return nil
}

func parseBase(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q: want http(s)://host[:port]", text)
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("%q: only scheme, host and port are possible", text)
	}
	u.Path = ""
	return u, nil
}

// parseOrigin takes an origin as browsers send it. Plain http is for pages of
// this machine: another's could be changed on the way, and a token with it.
func parseOrigin(text string) (string, error) {
	u, err := url.Parse(text)
	bad := err != nil || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil
	if bad || strings.ContainsAny(u.Host, `*?[]\`) {
		return "", fmt.Errorf("%q: want https://host[:port]", text)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(net.JoinHostPort(u.Hostname(), "0"))) {
		return "", fmt.Errorf("%q: want https, or http on 127.0.0.1 or localhost", text)
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
