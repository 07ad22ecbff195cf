// Package origin lets the pages of other sites that were named use a gateway, and
// keeps the rest of them out.
package origin

import "net/http"

// Allowed are the pages of other sites that may embed this gateway. They get no
// right by it: what they do needs a session token like everything else.
type Allowed map[string]bool

// New makes them of origins, each scheme://host[:port].
func New(origins []string) Allowed {
	a := Allowed{}
	for _, o := range origins {
		a[o] = true
	}
	return a
}

// Share lets the pages of allowed origins read what next answers. Preflights of
// others are answered as if they were no preflights, so that the browser stops.
func (a Allowed) Share(next http.Handler) http.Handler {
	if len(a) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if !a[origin] {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID")
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}
