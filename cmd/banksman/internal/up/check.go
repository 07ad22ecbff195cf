package up

import (
	"fmt"
	"math"

	"github.com/banksman/banksman/pkg/natsd"
	"github.com/banksman/banksman/pkg/status"
	"github.com/banksman/banksman/pkg/telemetry"
	"github.com/banksman/banksman/services/gateway"
	"github.com/banksman/banksman/services/notifier"
)

// check reports what a start would refuse without asking anybody.
func (o *Options) check() error {
	switch {
	case o.AskTimeout < 0:
		return fmt.Errorf("--ask-timeout: %s is less than 0", o.AskTimeout)
	case o.OrphanAfter < gateway.MinOrphanAfter:
		return fmt.Errorf("--orphan-after: %s is less than %s, in which a live worker is heard for sure", o.OrphanAfter, gateway.MinOrphanAfter)
	case o.NATSPort < natsd.RandomPort || o.NATSPort > math.MaxUint16:
		return fmt.Errorf("--nats-port: %d is not a port", o.NATSPort)
	case o.Durability != natsd.DurabilityAlways && o.Durability != natsd.DurabilityRelaxed:
		return fmt.Errorf("--durability: %q is neither %s nor %s", o.Durability, natsd.DurabilityAlways, natsd.DurabilityRelaxed)
	}
	if err := telemetry.Check(o.Traces); err != nil {
		return err
	}
	if o.Status != "" {
		if err := status.CheckAddr(o.Status); err != nil {
			return fmt.Errorf("--status: %w", err)
		}
	}
	g := o.gatewayOptions()
	if err := g.Validate(); err != nil {
		return err
	}
	if o.Webhooks != "" {
		if _, err := notifier.LoadConfig(o.Webhooks); err != nil {
			return fmt.Errorf("--notify: %w", err)
		}
	}
	return nil
}

// gatewayOptions are what the settings say of the gateway.
func (o *Options) gatewayOptions() gateway.Options {
	return gateway.Options{Addr: o.Listen, Origins: o.Origins, Quota: o.Quota, OrphanAfter: o.OrphanAfter}
}
