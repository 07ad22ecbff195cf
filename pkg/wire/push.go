package wire

import "time"

// PushSubscription is how a browser says that it wants pushes: what its own interface
// (PushSubscription.toJSON) gives.
type PushSubscription struct {
	Endpoint string   `json:"endpoint"`
	Keys     PushKeys `json:"keys"`
}

// PushKeys are what pushes to a browser are encrypted with, base64url.
type PushKeys struct {
	P256dh string `json:"p256dh"`
	Auth   string `json:"auth"`
}

// PushRenewal tells that a browser has another subscription now. Which one it is, is
// known by the secret that only it was given, as a service worker has no session.
type PushRenewal struct {
	User    string           `json:"user"`    // id of whose browser it is
	Renewal string           `json:"renewal"` // as the browser was told when it was added
	New     PushSubscription `json:"new"`
}

// PushBrowser is a browser that wants pushes, as its person sees it.
type PushBrowser struct {
	ID        string    `json:"id"`
	Agent     string    `json:"agent,omitempty"` // what the browser calls itself
	CreatedAt time.Time `json:"created_at"`
	// This: it belongs to the sign-in that asks.
	This bool `json:"this,omitempty"`
}

// PushBrowsers are those of one person. PublicKey is what a browser subscribes with;
// empty: this installation has no key for pushes yet.
type PushBrowsers struct {
	PublicKey string        `json:"public_key"`
	Browsers  []PushBrowser `json:"browsers"`
	// Renewal is the secret of the browser that was just added, which nobody else is
	// told: with it the browser says that it has another subscription.
	Renewal string `json:"renewal,omitempty"`
}

// TicketUse decides, by the token of a push, the request as it was told there.
type TicketUse struct {
	Token    string `json:"token"`
	Decision string `json:"decision"` // allow or deny
}
