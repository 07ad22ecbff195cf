package socket

import (
	"net/http"
	"net/url"
	"strings"
)

const (
	// CookieName is the session's cookie. Browsers take a name that begins so
	// over TLS only, from this very host, for all of its paths.
	CookieName = "__Host-banksman"
	// CookieToken stands for a session's token where a cookie has it.
	CookieToken = "cookie"
)

// Cookie is the session token that a page of this server sent in its cookie,
// empty if there is none. What another site makes a browser send does not count.
func Cookie(r *http.Request) string {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
	case "": // of an older browser the handshake of a socket says where it comes from
		origin, err := url.Parse(r.Header.Get("Origin"))
		if err != nil || origin.Scheme != "https" || !strings.EqualFold(origin.Host, r.Host) {
			return ""
		}
	default:
		return ""
	}
	c, err := r.Cookie(CookieName)
	if err != nil {
		return ""
	}
	return c.Value
}
