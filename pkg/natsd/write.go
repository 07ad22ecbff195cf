package natsd

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/banksman/banksman/pkg/bus"
	"github.com/banksman/banksman/pkg/bus/credential"
	"github.com/banksman/banksman/pkg/hitl"
)

// ErrUnknownIdentity: Remove was asked for an owner or caller that the plan
// does not have.
var ErrUnknownIdentity = errors.New("natsd: no such owner or caller")

// Write generates configuration and credentials below p.Dir. Existing keys and
// the chosen port are kept, so it can run at every start; what exists and p
// does not mention stays. Errors about p are *FieldError. A running server
// takes the result over by Server.Reload.
//
// A credential file that was moved elsewhere is not replaced: its public key is
// on record in plan.json. RotateKey issues a new one.
func Write(p Plan) error {
	return changePlan(p.Dir, func(old Plan) (Plan, error) {
		dir := p.Dir
		p.Dir = old.Dir
		if p.StoreDir != "" {
			abs, err := filepath.Abs(p.StoreDir)
			if err != nil {
				return p, badField("store_dir", "%v", err)
			}
			p.StoreDir = abs
		}
		merged, err := p.merge(old)
		p.Dir = dir
		return merged, err
	})
}

// AddOwner adds one owner to the plan written below dir, or changes its flags.
// No other identity's key, file or permissions change.
func AddOwner(dir string, o Owner) error {
	return Write(Plan{Dir: dir, Owners: []Owner{o}})
}

// Remove takes an owner or a caller off the plan and deletes its credential
// file. Its connections end when the server reloads.
func Remove(dir, tenant, name string) error {
	tenant = cmp.Or(tenant, bus.DefaultTenant)
	return changePlan(dir, func(old Plan) (Plan, error) { return old.without(tenant, name) })
}

// Revoke is Remove by the name of the credential file, without its ending.
func Revoke(dir, name string) error {
	return amend(dir, func(st *state) error {
		id, err := st.Plan.find(name)
		if err != nil {
			return err
		}
		if id.role != bus.RoleOwner && id.role != bus.RoleCaller {
			return fmt.Errorf("%w: %q is a part of the product; rotate its key instead", ErrUnknownIdentity, name)
		}
		st.Plan, err = st.Plan.without(id.tenant, id.name)
		return err
	})
}

// without is the plan without one owner or caller.
func (p Plan) without(tenant, name string) (Plan, error) {
	before := len(p.Owners) + len(p.Callers)
	p.Owners = slices.DeleteFunc(slices.Clone(p.Owners), func(o Owner) bool { return o.Tenant == tenant && o.Name == name })
	p.Callers = slices.DeleteFunc(slices.Clone(p.Callers), func(c Caller) bool { return c.Tenant == tenant && c.Name == name })
	if len(p.Owners)+len(p.Callers) == before {
		return p, fmt.Errorf("%w: %s/%s", ErrUnknownIdentity, tenant, name)
	}
	return p.merge(Plan{})
}

func changePlan(dir string, edit func(old Plan) (Plan, error)) error {
	return change(dir, func(st *state) (err error) {
		st.Plan, err = edit(st.Plan)
		return err
	})
}

// change runs one change of the files below dir, one process at a time. edit
// gets the state with the absolute directory in its plan.
func change(dir string, edit func(*state) error) error {
	if dir == "" {
		return badField("dir", "missing")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return badField("dir", "%v", err)
	}
	for _, d := range []string{dir, natsDir(dir), filepath.Join(dir, "creds")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	lock, err := lockFile(filepath.Join(natsDir(dir), "plan.lock"), true)
	if err != nil {
		return err
	}
	defer lock.release()
	st, err := readState(dir)
	if err != nil {
		return err
	}
	st.Plan.Dir = dir
	if err := edit(st); err != nil {
		return err
	}
	return st.write(dir)
}

// identity is one credential file of a plan.
type identity struct {
	role         bus.Role
	tenant, name string
}

func (i identity) file() string { return credentialsName(i.role, i.tenant, i.name) }

func (p *Plan) identities() []identity {
	// The two of CORE serve every tenant; the file names the first.
	ids := []identity{
		{bus.RoleGateway, p.Tenants[0], string(bus.RoleGateway)},
		{bus.RoleProvisioner, p.Tenants[0], string(bus.RoleProvisioner)},
	}
	for _, t := range p.Tenants {
		ids = append(ids, identity{bus.RoleNotifier, t, reservedName})
	}
	for _, o := range p.Owners {
		ids = append(ids, identity{bus.RoleOwner, o.Tenant, o.Name})
	}
	for _, c := range p.Callers {
		ids = append(ids, identity{bus.RoleCaller, c.Tenant, c.Name})
	}
	return ids
}

// write brings every file in line with the state. Keys are on disk before the
// configuration that admits them, the state last: a crash in between is
// repaired by the next write.
func (st *state) write(dir string) error {
	p := &st.Plan
	push, err := credential.PushKeyAt(PushKeyFile(dir))
	if err != nil {
		return err
	}
	keys := map[string]string{}
	for _, id := range p.identities() {
		key, err := st.writeCredentials(dir, id, push)
		if err != nil {
			return err
		}
		keys[id.file()] = key
	}
	gone := slices.DeleteFunc(slices.Collect(maps.Keys(st.Keys)), func(f string) bool {
		_, used := keys[f]
		return used
	})
	st.Keys = keys
	accepted := map[string][]string{}
	for file, key := range keys {
		old := slices.DeleteFunc(slices.Clone(st.OldKeys[file]), func(k string) bool { return k == key })
		accepted[file] = append([]string{key}, old...)
	}
	maps.DeleteFunc(st.OldKeys, func(file string, _ []string) bool { return keys[file] == "" })
	if st.Seal == "" {
		st.Seal = "sealed-" + rand.Text()
	}
	// One elsewhere is the server's own affair, and may be on another machine.
	if p.StoreDir == filepath.Join(natsDir(p.Dir), "store") {
		if err := os.MkdirAll(p.StoreDir, 0o700); err != nil {
			return err
		}
	}
	if err := writeFile(AccountsFile(dir), []byte(renderAccounts(p, accepted, st.Seal))); err != nil {
		return err
	}
	if err := writeFile(ConfigFile(dir), []byte(renderServer(p))); err != nil {
		return err
	}
	if err := st.save(dir); err != nil {
		return err
	}
	for _, f := range gone {
		if err := os.Remove(filepath.Join(dir, "creds", f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// save writes plan.json.
func (st *state) save(dir string) error {
	// The default place is not recorded, so that a data directory can move.
	saved := *st
	if saved.Plan.StoreDir == filepath.Join(natsDir(dir), "store") {
		saved.Plan.StoreDir = ""
	}
	raw, err := json.MarshalIndent(saved, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(planFile(dir), append(raw, '\n'))
}

// writeCredentials keeps or makes the file of one identity and returns its
// public key. The gateway is the first identity: its decision keys, without
// those that were dropped, are what all others get.
func (st *state) writeCredentials(dir string, id identity, push string) (string, error) {
	path := filepath.Join(dir, "creds", id.file())
	c, err := bus.LoadCredentials(path)
	switch {
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case st.Keys[id.file()] != "":
		return st.Keys[id.file()], nil
	default:
		if c, err = newCredentials(id); err != nil {
			return "", err
		}
	}
	if c.Role != id.role {
		return "", &bus.CredentialsError{Path: path, Field: "role", Err: fmt.Errorf("is %q, want %q", c.Role, id.role)}
	}
	before, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	c.Tenant, c.Name, c.URLs = id.tenant, id.name, st.Plan.clientURLs()
	switch id.role {
	case bus.RoleNotifier:
		c.PushKey = push
	case bus.RoleGateway:
		if c.PushPublicKey, err = credential.PushPublicKey(push); err != nil {
			return "", err
		}
	}
	if id.role == bus.RoleGateway {
		st.DecisionKeys = maps.Clone(c.DecisionKeys)
		for _, id := range st.Dropped {
			delete(st.DecisionKeys, id)
		}
	} else {
		c.DecisionKeys = st.DecisionKeys
	}
	after, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil || string(before) != string(after) {
		if err := c.Save(path); err != nil {
			return "", err
		}
	}
	return c.PublicNKey()
}

func newCredentials(id identity) (*bus.Credentials, error) {
	seed, err := newSeed()
	if err != nil {
		return nil, err
	}
	c := &bus.Credentials{V: credential.CredentialsVersion, Role: id.role, Seed: seed}
	if id.role != bus.RoleGateway {
		return c, nil
	}
	c.DecisionKeys = map[string]string{}
	c.SigningKeyID, c.SigningKey, err = newDecisionKey(c)
	return c, err
}

// newDecisionKey adds the public half to c and returns the secret one.
func newDecisionKey(c *bus.Credentials) (id, seed string, err error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	id = hitl.KeyID(pub)
	c.DecisionKeys[id] = base64.StdEncoding.EncodeToString(pub)
	return id, base64.StdEncoding.EncodeToString(priv.Seed()), nil
}

// PushKeyFile has the key of pushes, which all notifiers share. Whoever deletes it
// gets another one; browsers then have to be asked again.
func PushKeyFile(dir string) string { return filepath.Join(natsDir(dir), "push.key") }

// writeFile replaces a file at once, mode 0600, and leaves an equal one alone.
func writeFile(path string, content []byte) error {
	if have, err := os.ReadFile(path); err == nil && string(have) == string(content) {
		return nil
	}
	return credential.WriteFile(path, content)
}
