// Package party says for which page passkeys are good.
package party

import (
	"net"
	"net/url"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
)

// New makes what checks passkeys, nil where browsers would have none:
// they bind a passkey to a name, and offer it over a connection that can be
// trusted.
func New(base *url.URL) (*webauthn.WebAuthn, error) {
	if base == nil {
		return nil, nil
	}
	host := base.Hostname()
	if net.ParseIP(host) != nil || base.Scheme != "https" && host != "localhost" {
		return nil, nil
	}
	return webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "Banksman", RPOrigins: []string{base.Scheme + "://" + base.Host},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, UserVerification: protocol.VerificationRequired,
		},
	})
}
