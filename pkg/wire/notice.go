package wire

import "time"

// Types of the frames about people and their tokens.
const (
	TypeSignedIn        = "signed_in"
	TypeCLILogin        = "cli_login"
	TypeCLILoginSettled = "cli_login_settled"
)

// SignedIn tells that somebody signed in with this person's rights.
type SignedIn struct {
	Type string    `json:"type"`
	Name string    `json:"name"`
	Via  string    `json:"via"` // link, cli or test
	At   time.Time `json:"at"`
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
