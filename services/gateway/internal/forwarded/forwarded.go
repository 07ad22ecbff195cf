// Package forwarded finds where a request came from, where proxies stand before the
// gateway.
package forwarded

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// lookEvery is how often the addresses of a named proxy are looked up, while
	// requests come.
	lookEvery = 10 * time.Second
	// lookLimit bounds one look-up.
	lookLimit = 2 * time.Second
)

// Proxies are those whose word on where a request came from is believed. Its methods are
// safe for concurrent use.
type Proxies struct {
	nets   []netip.Prefix
	names  []string
	lookup func(context.Context, string) ([]netip.Addr, error)
	now    func() time.Time
	later  func(func()) // tests do it at once

	mu      sync.Mutex
	named   []netip.Addr
	at      time.Time // of the last look
	looking bool
}

// Parse reads addresses, networks (10.0.0.0/8) and names of hosts.
func Parse(list []string) (*Proxies, error) {
	p := &Proxies{now: time.Now, later: func(fn func()) { go fn() }, lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	}}
	for _, text := range list {
		if n, err := netip.ParsePrefix(text); err == nil {
			p.nets = append(p.nets, n.Masked())
		} else if a, err := netip.ParseAddr(text); err == nil {
			p.nets = append(p.nets, netip.PrefixFrom(a, a.BitLen()))
		} else if isName(text) {
			p.names = append(p.names, text)
		} else {
			return nil, fmt.Errorf("%q is no address, no network and no name of a host", text)
		}
	}
	return p, nil
}

func isName(s string) bool {
	return s != "" && len(s) < 254 && strings.ContainsFunc(s, letter) && !strings.ContainsFunc(s, func(r rune) bool {
		return !letter(r) && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	})
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// Handler gives next requests whose RemoteAddr is where they came from. What stands
// further away than the first address that is no trusted proxy's could be anybody's word.
func (p *Proxies) Handler(next http.Handler) http.Handler {
	if len(p.nets)+len(p.names) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at, ok := p.origin(r); ok {
			r = r.WithContext(r.Context()) // a copy
			r.RemoteAddr = netip.AddrPortFrom(at, 0).String()
		}
		next.ServeHTTP(w, r)
	})
}

func (p *Proxies) origin(r *http.Request) (at netip.Addr, ok bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.trusts(peer.Addr()) {
		return at, false
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		next, valid := address(strings.TrimSpace(hop))
		if !valid {
			break
		}
		if at, ok = next, true; !p.trusts(at) {
			break
		}
	}
	return at, ok
}

// address reads what a proxy says of one; some add the port.
func address(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddrPort(s)
	return a.Addr().Unmap().WithZone(""), err == nil
}

func (p *Proxies) trusts(a netip.Addr) bool {
	a = a.Unmap()
	if slices.ContainsFunc(p.nets, func(n netip.Prefix) bool { return n.Contains(a) }) {
		return true
	}
	if len(p.names) == 0 {
		return false
	}
	p.mu.Lock()
	first, old := p.at.IsZero(), p.now().Sub(p.at) >= lookEvery
	begin := (first || old) && !p.looking
	p.looking = p.looking || begin
	p.mu.Unlock()
	switch {
	case begin && first:
		p.look()
	case begin: // nobody waits for it
		p.later(p.look)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.named, a)
}

// look keeps what was found before where a name cannot be looked up now.
func (p *Proxies) look() {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	var found []netip.Addr
	for _, name := range p.names {
		all, err := p.lookup(ctx, name)
		if err != nil {
			p.mu.Lock()
			found = append(found, p.named...)
			p.mu.Unlock()
			continue
		}
		for _, a := range all {
			found = append(found, a.Unmap())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.named, p.at, p.looking = found, p.now(), false
}
