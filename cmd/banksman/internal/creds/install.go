package creds

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/banksman/banksman/pkg/natsd"
)

// write makes the plan's files, for each node of a cluster if there are nodes,
// and installs what is to be installed.
func write(plan natsd.Plan, nodes []string, clusterPort int, installs []string) error {
	type copying struct{ part, dir string }
	var rest []copying
	byNode := map[string]string{}
	for _, s := range installs {
		part, dir, ok := strings.Cut(s, "=")
		switch {
		case !ok || part == "" || dir == "":
			return fmt.Errorf("--install: %q: want PART=DIR", s)
		case slices.Contains(nodes, part):
			byNode[part] = dir
		case strings.ContainsAny(part, `/\`) || strings.HasPrefix(part, "."):
			return fmt.Errorf("--install: %q is no part", part)
		default:
			rest = append(rest, copying{part, dir})
		}
	}
	if len(nodes) == 0 {
		if err := natsd.Write(plan); err != nil {
			return err
		}
	}
	names := map[string]string{}
	for _, node := range nodes {
		if other, taken := names[serverName.Replace(node)]; taken {
			return fmt.Errorf("--node: %s and %s are one server's name", other, node)
		}
		names[serverName.Replace(node)] = node
		var err error
		if plan.Cluster, err = cluster(plan, node, nodes, clusterPort); err != nil {
			return err
		}
		if err := natsd.Write(plan); err != nil {
			return err
		}
		if dir := byNode[node]; dir != "" {
			if err := installServer(plan.Dir, dir); err != nil {
				return err
			}
		}
	}
	for _, c := range rest {
		var err error
		if c.part == "nats" {
			err = installServer(plan.Dir, c.dir)
		} else {
			err = install(filepath.Join(plan.Dir, "creds", c.part+".json"), c.dir)
		}
		if err != nil {
			return fmt.Errorf("--install %s: %w", c.part, err)
		}
	}
	return nil
}

// serverName makes a name of a host, which may have a domain or be an address.
var serverName = strings.NewReplacer(".", "-", ":", "-")

// cluster is one node's part. The password is made once and kept beside the
// plan.
func cluster(plan natsd.Plan, node string, nodes []string, port int) (*natsd.Cluster, error) {
	c := &natsd.Cluster{Name: "banksman", ServerName: serverName.Replace(node), Host: plan.Host, Port: port, User: "node"}
	file := filepath.Join(plan.Dir, "nats", "cluster-password")
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		raw = []byte(rand.Text() + rand.Text())
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, err
		}
		err = replace(file, raw)
	}
	c.Password = string(raw)
	for _, n := range nodes {
		if n != node {
			route := url.URL{Scheme: "nats", User: url.UserPassword(c.User, c.Password), Host: net.JoinHostPort(n, strconv.Itoa(port))}
			c.Routes = append(c.Routes, route.String())
		}
	}
	return c, err
}

// installServer copies the server's two files. The accounts come first: a server
// that reads in between has accounts for both versions of its own file.
func installServer(data, dir string) error {
	if err := install(natsd.AccountsFile(data), dir); err != nil {
		return err
	}
	return install(natsd.ConfigFile(data), dir)
}

// install copies one file into dir, for nobody else to read.
func install(file, dir string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return replace(filepath.Join(dir, filepath.Base(file)), raw)
}

// replace writes a file so that whoever reads it has the old or the new one.
func replace(file string, raw []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // after a rename there is none
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
