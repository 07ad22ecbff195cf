package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/banksman/banksman/pkg/bus/credential"
)

// Instance is what a running instance says of itself in its data directory.
type Instance struct {
	PID       int       `json:"pid"`
	HTTP      string    `json:"http"` // base address of the web page
	NATS      string    `json:"nats"`
	Status    string    `json:"status,omitempty"` // base address of /healthz, /readyz and /metrics
	StartedAt time.Time `json:"started_at"`
}

// InstanceFile is the path below a data directory.
func InstanceFile(data string) string { return filepath.Join(data, "instance.json") }

// ReadInstance reads the file of a data directory.
func ReadInstance(data string) (*Instance, error) {
	raw, err := os.ReadFile(InstanceFile(data))
	if err != nil {
		return nil, err
	}
	var in Instance
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("%s: %w", InstanceFile(data), err)
	}
	return &in, nil
}

// Write writes the file of a data directory, mode 0600, all or nothing.
func (in Instance) Write(data string) error {
	return writeFile(InstanceFile(data), in)
}

// writeFile writes v as JSON, mode 0600, all or nothing.
func writeFile(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return credential.WriteFile(path, append(raw, '\n'))
}
