package notifier

import (
	"errors"
	"fmt"
	"strings"

	"github.com/banksman/banksman/services/notifier/internal/secretfile"
)

// fromFiles fills in the secrets that lie in files of their own; dir is where relative
// names begin. It returns the fields that were filled in.
func (c *Config) fromFiles(dir string) (filled map[string]bool, err error) {
	filled = map[string]bool{}
	one := func(at, field, file string, into *Secret) {
		if file == "" || err != nil {
			return
		}
		if *into != "" {
			err = &ConfigError{Field: at + field + "_file", Err: fmt.Errorf("stands beside %s: one of them is too much", field)}
			return
		}
		text, ferr := secretfile.Read(dir, file)
		if ferr != nil {
			err = &ConfigError{Field: at + field + "_file", Err: ferr}
			return
		}
		*into = Secret(text)
		filled[at+field] = true
	}
	list := func(at, file string, into *[]Secret) {
		if file != "" && len(*into) > 0 && err == nil {
			err = &ConfigError{Field: at + "secrets_file", Err: errors.New("stands beside secrets: one of them is too much")}
		}
		var all Secret
		one(at, "secrets", file, &all)
		for i, line := range strings.Fields(string(all)) {
			*into = append(*into, Secret(line))
			filled[fmt.Sprintf("%ssecrets[%d]", at, i)] = true
		}
	}
	for i := range c.Channels {
		ch, at := &c.Channels[i], fmt.Sprintf("channels[%d].", i)
		one(at, "url", ch.URLFile, &ch.URL)
		one(at, "token", ch.TokenFile, &ch.Token)
		one(at, "password", ch.PasswordFile, &ch.Password)
		one(at, "signing_secret", ch.SigningSecretFile, &ch.SigningSecret)
		one(at, "app_token", ch.AppTokenFile, &ch.AppToken)
		list(at, ch.SecretsFile, &ch.Secrets)
	}
	for i := range c.Deciders {
		d, at := &c.Deciders[i], fmt.Sprintf("deciders[%d].", i)
		one(at, "url", d.URLFile, &d.URL)
		one(at, "token", d.TokenFile, &d.Token)
		list(at, d.SecretsFile, &d.Secrets)
	}
	return filled, err
}

// fileField names the field that a person wrote: of a secret that came from a file,
// the one that names the file.
func fileField(field string, filled map[string]bool) string {
	if !filled[field] {
		return field
	}
	if at, _, ok := strings.Cut(field, "secrets["); ok {
		return at + "secrets_file"
	}
	return field + "_file"
}
