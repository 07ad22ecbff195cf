package origin

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Locked are the headers of every answer of a gateway that people reach at base;
// policy is its content policy.
func Locked(base *url.URL, policy string) http.Header {
	h := http.Header{}
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	if base != nil && base.Scheme == "https" && named(base.Hostname()) {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	return h
}

// named reports whether a host is a name of its own: what is said of this machine's
// would hold for everything else that listens on it.
func named(host string) bool {
	return net.ParseIP(host) == nil && host != "localhost" && !strings.HasSuffix(host, ".localhost")
}
