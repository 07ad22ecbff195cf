// Package desktop shows alerts on the desktop of the machine that the notifier
// runs on, by the notification service of the session bus (Linux and the BSDs).
//
//	https://specifications.freedesktop.org/notification-spec/latest/
package desktop

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/banksman/banksman/services/notifier/internal/channel"
	"github.com/banksman/banksman/services/notifier/internal/channel/words"
)

// The service's names on the bus.
const (
	service = "org.freedesktop.Notifications"
	path    = dbus.ObjectPath("/org/freedesktop/Notifications")
)

// Channel shows on one desktop. Each alert has a connection of its own.
type Channel struct{ address string }

var _ channel.Updater = (*Channel)(nil)

// addresses are those of a bus: a transport with what it takes, several with semicolons
// between.
var addresses = regexp.MustCompile(`^[a-z-]+:[a-z]+=[^;]+(;[a-z-]+:[a-z]+=[^;]+)*;?$`)

// New makes a channel to the bus at the address; empty: the session's.
func New(address string) (*Channel, error) {
	if address != "" && !addresses.MatchString(address) {
		return nil, &channel.FieldError{Field: "url", Problem: "is not the address of a session bus such as unix:path=/run/user/1000/bus"}
	}
	return &Channel{address}, nil
}

// Send shows a notification.
func (c *Channel) Send(ctx context.Context, a channel.Alert) (channel.Receipt, error) {
	return c.show(ctx, &a, 0)
}

// Update shows one in the place of an earlier one.
func (c *Channel) Update(ctx context.Context, r channel.Receipt, a channel.Alert) (channel.Receipt, error) {
	id, err := strconv.ParseUint(r.Ref, 10, 32)
	if err != nil {
		return channel.Receipt{}, &channel.Problem{Text: "the receipt names no notification", Class: channel.Refused}
	}
	return c.show(ctx, &a, uint32(id))
}

// urgencies by level: low, normal, critical.
var urgencies = [...]byte{0, 1, 1, 1, 2}

// forever keeps a notification until somebody has seen it; fleeting leaves that
// to the desktop.
const (
	forever  = int32(0)
	fleeting = int32(-1)
)

func (c *Channel) show(ctx context.Context, a *channel.Alert, replaces uint32) (channel.Receipt, error) {
	var conn *dbus.Conn
	var err error
	if c.address == "" {
		conn, err = dbus.ConnectSessionBus(dbus.WithContext(ctx))
	} else {
		conn, err = dbus.Connect(c.address, dbus.WithContext(ctx))
	}
	if err != nil {
		return channel.Receipt{}, &channel.Problem{Text: "there is no session bus to reach: does the notifier run within a desktop's session?"}
	}
	defer func() { _ = conn.Close() }()
	desk := conn.Object(service, path)
	var can []string
	if err := desk.CallWithContext(ctx, service+".GetCapabilities", 0).Store(&can); err != nil {
		p := problem(err)
		p.Unknown = false // nothing was sent yet
		return channel.Receipt{}, p
	}
	w := words.Of(a)
	body := w.Body()
	if slices.Contains(can, "body-markup") {
		body = escape(body)
	}
	expires := forever
	if a.Type == channel.Closed || a.Type == channel.Test {
		expires = fleeting
	}
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(urgencies[words.Level(a)])}
	var id uint32
	err = desk.CallWithContext(ctx, service+".Notify", 0, "Banksman", replaces, "", w.Head, body, []string{}, hints, expires).Store(&id)
	if err != nil {
		return channel.Receipt{}, problem(err)
	}
	return channel.Receipt{Ref: strconv.FormatUint(uint64(id), 10), Said: "the desktop shows it"}, nil
}

// escape makes text of what a desktop would take for markup.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// problem words a failure without the desktop's own text.
func problem(err error) *channel.Problem {
	var de dbus.Error
	if !errors.As(err, &de) {
		return &channel.Problem{Text: "the desktop gave no answer", Unknown: true}
	}
	switch de.Name {
	case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner":
		return &channel.Problem{Text: "nothing on the session bus shows notifications"}
	case "org.freedesktop.Notifications.Error.ExcessNotificationGeneration":
		return &channel.Problem{Text: "the desktop has too many notifications"}
	case "org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Timeout":
		return &channel.Problem{Text: "the desktop gave no answer", Unknown: true}
	}
	return &channel.Problem{Text: "the desktop refused it", Class: channel.Refused}
}
