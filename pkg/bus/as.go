package bus

// As is a client that asks in the name of an owner, over c's connection. Only a
// gateway's credential is allowed to. It ends with c and is not closed itself.
func (c *Client) As(tenant, owner string) *Client {
	cred := *c.cred
	cred.Tenant, cred.Name = tenant, owner
	return &Client{cred: &cred, keys: c.keys, worker: c.worker, log: c.log, link: c.link, tracer: c.tracer}
}
