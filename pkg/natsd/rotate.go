package natsd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/bus/credential"
)

var (
	// ErrNoPlan: nothing was written below the directory.
	ErrNoPlan = errors.New("natsd: no accounts and keys there")
	// ErrNoGatewayFile: what signs decisions is in a file that is elsewhere.
	ErrNoGatewayFile = errors.New("natsd: the gateway's credential file is not there")
	// ErrNothingOld: there is no old key to drop.
	ErrNothingOld = errors.New("natsd: there is no old key")
)

// RotateKey gives an identity a new NKey and writes its credential file anew.
// The server accepts the old key beside it until DropOldKeys, with the same
// rights. name is that of the credential file, without its ending; the file
// may have been moved elsewhere, except the gateway's.
func RotateKey(dir, name string) error {
	return amend(dir, func(st *state) error {
		id, err := st.Plan.find(name)
		if err != nil {
			return err
		}
		path := CredentialsFile(st.Plan.Dir, id.role, id.tenant, id.name)
		c, err := bus.LoadCredentials(path)
		switch {
		case err == nil:
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case id.role == bus.RoleGateway:
			return fmt.Errorf("%w: %s", ErrNoGatewayFile, path)
		default:
			c = &bus.Credentials{
				V: credential.CredentialsVersion, Role: id.role, Tenant: id.tenant, Name: id.name,
				URLs: st.Plan.clientURLs(), DecisionKeys: st.DecisionKeys,
			}
		}
		// The server's word for the old key is on disk before the old key is
		// gone.
		if old := st.Keys[id.file()]; !slices.Contains(st.OldKeys[id.file()], old) {
			st.OldKeys[id.file()] = append(st.OldKeys[id.file()], old)
		}
		if err := st.save(st.Plan.Dir); err != nil {
			return err
		}
		if c.Seed, err = newSeed(); err != nil {
			return err
		}
		return c.Save(path)
	})
}

// DropOldKeys makes the server refuse what RotateKey replaced. Connections that
// use it end when the server reloads.
func DropOldKeys(dir, name string) error {
	return amend(dir, func(st *state) error {
		id, err := st.Plan.find(name)
		if err != nil {
			return err
		}
		if len(st.OldKeys[id.file()]) == 0 {
			return fmt.Errorf("%w of %s", ErrNothingOld, name)
		}
		delete(st.OldKeys, id.file())
		return nil
	})
}

// DecisionKeys are the keys of decisions, by id and in base64.
type DecisionKeys struct {
	Signing  string            // id of the one that gateways sign with
	Next     string            // id of the one that is announced; may be empty
	Accepted map[string]string // what askers take: these two, and old ones
	Dropped  map[string]string // what only gateways have still, to read the record
}

// AnnounceDecisionKey makes the next decision key, if there is none yet, and
// makes it known: its public half is in every credential file, and nothing is
// signed with it.
func AnnounceDecisionKey(dir string) (keys DecisionKeys, err error) {
	return decisionKeys(dir, func(_ *state, c *bus.Credentials) (err error) {
		if c.NextSigningKey == "" {
			_, c.NextSigningKey, err = newDecisionKey(c)
		}
		return err
	})
}

// RotateDecisionKey makes gateways sign with the next decision key, which is
// announced first if it was not. The old one stays accepted. Running gateways
// and askers that read the files below dir take both steps over by themselves.
func RotateDecisionKey(dir string) (DecisionKeys, error) {
	if keys, err := AnnounceDecisionKey(dir); err != nil {
		return keys, err
	}
	// Every file below dir knows the key now, whatever happens from here on.
	return decisionKeys(dir, func(_ *state, c *bus.Credentials) error {
		c.SigningKey, c.SigningKeyID = c.NextSigningKey, c.NextKeyID()
		c.NextSigningKey = ""
		return nil
	})
}

// DropDecisionKeys takes every old decision key from the askers' credential
// files. The gateway's keeps them: decisions of that time stay on record.
func DropDecisionKeys(dir string) (DecisionKeys, error) {
	return decisionKeys(dir, func(st *state, c *bus.Credentials) error {
		old := 0
		for _, id := range slices.Sorted(maps.Keys(c.DecisionKeys)) {
			if id != c.SigningKeyID && id != c.NextKeyID() && !slices.Contains(st.Dropped, id) {
				st.Dropped = append(st.Dropped, id)
				old++
			}
		}
		if old == 0 {
			return fmt.Errorf("%w of decisions", ErrNothingOld)
		}
		return nil
	})
}

// decisionKeys changes the gateway's credential, and then the others'.
func decisionKeys(dir string, edit func(*state, *bus.Credentials) error) (keys DecisionKeys, err error) {
	err = amend(dir, func(st *state) error {
		path := CredentialsFile(st.Plan.Dir, bus.RoleGateway, "", "")
		c, err := bus.LoadCredentials(path)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s", ErrNoGatewayFile, path)
		}
		if err != nil {
			return err
		}
		if err := edit(st, c); err != nil {
			return err
		}
		if err := c.Save(path); err != nil {
			return err
		}
		keys = DecisionKeys{Signing: c.SigningKeyID, Next: c.NextKeyID(), Accepted: maps.Clone(c.DecisionKeys), Dropped: map[string]string{}}
		for _, id := range st.Dropped {
			keys.Dropped[id] = c.DecisionKeys[id]
			delete(keys.Accepted, id)
		}
		return nil
	})
	return keys, err
}

// amend is change for a directory that has a plan.
func amend(dir string, edit func(*state) error) error {
	if _, err := os.Stat(planFile(dir)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrNoPlan, dir)
	}
	return change(dir, func(st *state) (err error) {
		if st.Plan, err = st.Plan.merge(Plan{}); err != nil {
			return err
		}
		return edit(st)
	})
}

// find is the identity whose credential file has the name.
func (p *Plan) find(name string) (identity, error) {
	for _, id := range p.identities() {
		if strings.TrimSuffix(id.file(), ".json") == name {
			return id, nil
		}
	}
	return identity{}, fmt.Errorf("%w: %q", ErrUnknownIdentity, name)
}

func newSeed() (string, error) {
	kp, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	defer kp.Wipe()
	seed, err := kp.Seed()
	return string(seed), err
}
