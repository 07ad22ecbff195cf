package wire

import (
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

// Types of the frames about people and their tokens.
const (
	TypeSignedIn        = "signed_in"
	TypeCLILogin        = "cli_login"
	TypeCLILoginSettled = "cli_login_settled"
)

// SignedIn tells a person, and whoever manages people, that somebody signed in as that person.
type SignedIn struct {
	Type      string         `json:"type"`
	Principal hitl.Principal `json:"principal"` // who it is from now on
	Name      string         `json:"name"`      // of the terminal, or else of the person
	Via       string         `json:"via"`       // link, passkey, oidc, cli or test
	At        time.Time      `json:"at"`
}

// CLILogin tells of a terminal that waits to be confirmed.
type CLILogin struct {
	Type string `json:"type"`
	CLIRequest
}

// CLILoginSettled tells that this terminal was answered, or waited too long.
type CLILoginSettled struct {
	Type string `json:"type"`
	Code string `json:"code"`
}
