package door

// Patterns are the routes that a door serves, the web app apart.
func (d *Door) Patterns() []string { return d.patterns }
