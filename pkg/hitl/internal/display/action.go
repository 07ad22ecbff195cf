package display

import "strings"

// Action says what a tool does, as it goes on after "wants to". member is a
// text of the tool's input.
func Action(tool, server, name string, member func(key string) (string, bool)) string {
	if tool == "Bash" {
		return "run a shell command"
	}
	path, hasPath := member("file_path")
	if tool == "NotebookEdit" {
		path, hasPath = member("notebook_path")
	}
	url, hasURL := member("url")
	if tool == OpenLink {
		if host, _, _ := Host(url); host != "" {
			return "have you open a page of " + host
		}
		return "have you open a page"
	}
	path, url = breaks.Replace(path), breaks.Replace(url)
	switch {
	case tool == "Write" && hasPath:
		return "write " + path
	case (tool == "Edit" || tool == "MultiEdit" || tool == "NotebookEdit") && hasPath:
		return "change " + path
	case tool == "Read" && hasPath:
		return "read " + path
	case tool == "WebFetch" && hasURL:
		return "fetch " + url
	case tool == "ExitPlanMode":
		return "leave plan mode and start on its plan"
	case server != "":
		return "use " + Line(strings.TrimPrefix(tool, "mcp__"+server+"__")) + " of the MCP server " + Line(server)
	case name != "":
		return "use the tool " + Line(name)
	}
	return "use the tool " + Line(tool)
}

// breaks writes what would begin a new line as tokens.
var breaks = strings.NewReplacer("\n", "⟦U+000A⟧", "\t", "⟦U+0009⟧")

// Line is Visible for a text inside a sentence.
func Line(s string) string {
	s, _ = Visible(s)
	return breaks.Replace(s)
}
