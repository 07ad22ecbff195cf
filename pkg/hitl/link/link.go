// Package link reads the addresses that agents want people to open.
package link

import (
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl/internal/display"
)

// Tool is the tool of a request that wants a person to open a web page: its input
// has the address as "url". Whoever allows it says that they did; who asks opens
// nothing by itself.
const Tool = display.OpenLink

// Link is an address as people read it before they open it.
type Link struct {
	// Address is as it was asked; empty where no browser should be led there.
	Address string
	// Host is spelled out: what could pass for another character is a token.
	Host string
	// Caution says what is odd about it, as it goes on after "which", or is empty.
	Caution string
}

// Read reads the address in the input of a call; ok is false of other tools.
func Read(tool string, input json.RawMessage) (l Link, ok bool) {
	if tool != Tool {
		return l, false
	}
	var in map[string]json.RawMessage
	var address string
	if json.Unmarshal(input, &in) != nil || json.Unmarshal(in["url"], &address) != nil {
		return Link{Caution: "brings no address"}, true
	}
	host, caution, problem := display.Host(address)
	if problem != "" {
		return Link{Caution: problem}, true
	}
	return Link{Address: address, Host: host, Caution: caution}, true
}
