package bus

import "github.com/banksman/banksman/pkg/bus/credential"

// What belongs to a credential file is in package credential, under the same
// names.
type (
	// Credentials is one identity on the bus, as stored in a credential file.
	Credentials = credential.Credentials
	// CredentialsError is a credential that cannot be used.
	CredentialsError = credential.CredentialsError
	// Role says what a credential is for.
	Role = credential.Role
)

// The roles a credential file can have.
const (
	RoleOwner       = credential.RoleOwner
	RoleCaller      = credential.RoleCaller
	RoleGateway     = credential.RoleGateway
	RoleNotifier    = credential.RoleNotifier
	RoleProvisioner = credential.RoleProvisioner
)

// DefaultTenant is the tenant of an installation that never named one.
const DefaultTenant = credential.DefaultTenant

// LoadCredentials reads and checks a credential file. The error is a
// *CredentialsError that names file and field.
func LoadCredentials(path string) (*Credentials, error) { return credential.LoadCredentials(path) }
