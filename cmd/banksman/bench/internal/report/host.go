package report

import (
	"bufio"
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Host is what the figures were measured on.
type Host struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	OS         string `json:"os"`
	Go         string `json:"go"`
	Server     string `json:"nats_server"`
	FileSystem string `json:"file_system"`
}

// HostOf is this machine; dir is where the streams are.
func HostOf(dir, server string) Host {
	return Host{
		CPU:   cmp.Or(field("/proc/cpuinfo", "model name"), "unknown "+runtime.GOARCH),
		Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Server: server, FileSystem: fileSystem(dir),
	}
}

// field is the first value of name in a file of "name : value" lines.
func field(file, name string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fileSystem is the type of what is mounted at dir or nearest above it.
func fileSystem(dir string) string {
	raw, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return "unknown"
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	best, kind := "", "unknown"
	for s := bufio.NewScanner(bytes.NewReader(raw)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 3 || len(f[1]) < len(best) {
			continue
		}
		if at := f[1]; at == "/" || dir == at || strings.HasPrefix(dir, at+"/") {
			best, kind = at, f[2]
		}
	}
	return kind
}

// LoadAverage is that of the last minute as the system words it.
func LoadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}
