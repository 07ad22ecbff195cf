// Package plan reads what the server configuration of a data directory was made from.
package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/banksman/banksman/pkg/journal"
	"github.com/banksman/banksman/pkg/natsd"
)

// Plan is the part of it that says what there must be.
type Plan struct {
	StoreDir string        `json:"store_dir"`
	Tenants  []string      `json:"tenants"`
	Owners   []natsd.Owner `json:"owners"`
}

// File is where the plan of a data directory lies.
func File(dir string) string {
	return filepath.Join(filepath.Dir(natsd.ConfigFile(dir)), "plan.json")
}

// Read reads it. The error is fs.ErrNotExist where there is none.
func Read(dir string) (Plan, error) {
	raw, err := os.ReadFile(File(dir))
	if err != nil {
		return Plan{}, err
	}
	var file struct{ Plan Plan }
	if err := json.Unmarshal(raw, &file); err != nil {
		return file.Plan, fmt.Errorf("%s cannot be read: %w", File(dir), err)
	}
	return file.Plan, nil
}

// Streams has the pools and tenants of all that were ever added, and nothing of sizes.
func (p Plan) Streams() journal.Config {
	c := journal.Config{Tenants: p.Tenants}
	for _, o := range p.Owners {
		if o.Pool {
			c.Pools = append(c.Pools, journal.Pool{Tenant: o.Tenant, Pool: o.Name})
		}
	}
	return c
}
