package hitl

import (
	"encoding/json"

	"github.com/banksman/banksman/pkg/hitl/internal/display"
)

// ToolOpenLink is the tool of a request that wants a person to open a web page:
// its input has the address as "url". Whoever allows it says that they did; who
// asks opens nothing by itself.
const ToolOpenLink = "OpenLink"

// Link is an address as people read it before they open it.
type Link struct {
	// Address is as it was asked; empty where no browser should be led there.
	Address string
	// Host is spelled out, see display.Host.
	Host string
	// Caution says what is odd about it, as it goes on after "which", or is empty.
	Caution string
}

// ReadLink reads the address of a call of ToolOpenLink; ok is false of all else.
func ReadLink(t *Tool) (l Link, ok bool) {
	if t == nil || t.Name != ToolOpenLink {
		return l, false
	}
	var address string
	if json.Unmarshal(Member(t.Input, "url"), &address) != nil {
		return Link{Caution: "brings no address"}, true
	}
	host, caution, problem := display.Host(address)
	if problem != "" {
		return Link{Caution: problem}, true
	}
	return Link{Address: address, Host: host, Caution: caution}, true
}
