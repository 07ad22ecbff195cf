package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Instance is what a running instance says of itself in its data directory.
type Instance struct {
	PID       int       `json:"pid"`
	HTTP      string    `json:"http"` // base address of the web page
	NATS      string    `json:"nats"`
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
func writeFile(path string, v any) (err error) {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*") // created 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(append(raw, '\n')); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
