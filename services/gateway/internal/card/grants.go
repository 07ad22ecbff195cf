package card

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/banksman/banksman/pkg/hitl"
)

// maxGrants is how many sentences are listed of what a session's consent lets
// through.
const maxGrants = 12

// grants says, a sentence each, what the agent would no longer ask for in this
// session. What is not known is shown as it came.
func grants(raw json.RawMessage) []string {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		text, _ := hitl.DisplayJSON(raw)
		return []string{Cut(text)}
	}
	var out []string
	for _, s := range list {
		out = append(out, grant(s)...)
	}
	if len(out) > maxGrants {
		out = append(out[:maxGrants-1:maxGrants-1], fmt.Sprintf("%d more, listed in the request", len(out)-maxGrants+1))
	}
	return out
}

func grant(raw json.RawMessage) []string {
	var s struct {
		Type  string `json:"type"`
		Rules []struct {
			Tool    string  `json:"toolName"`
			Content *string `json:"ruleContent"`
		} `json:"rules"`
		Behavior    string   `json:"behavior"`
		Directories []string `json:"directories"`
		Mode        string   `json:"mode"`
	}
	known := json.Unmarshal(raw, &s) == nil
	var out []string
	switch {
	case known && s.Type == "addRules" && s.Behavior == "allow" && len(s.Rules) > 0:
		for _, r := range s.Rules {
			tool := Line(r.Tool)
			switch {
			case r.Content == nil || *r.Content == "":
				out = append(out, "every use of "+tool)
			case strings.HasSuffix(*r.Content, ":*"):
				out = append(out, "every use of "+tool+" that begins with “"+Line(strings.TrimSuffix(*r.Content, ":*"))+"”")
			default:
				out = append(out, tool+" with exactly “"+Line(*r.Content)+"”")
			}
		}
	case known && s.Type == "addDirectories" && len(s.Directories) > 0:
		for _, d := range s.Directories {
			out = append(out, "work in "+Line(d)+" and below")
		}
	case known && s.Type == "setMode" && s.Mode == "acceptEdits":
		out = append(out, "every change of a file in its folder, without asking")
	case known && s.Type == "setMode":
		out = append(out, "whatever the mode “"+Line(s.Mode)+"” lets through")
	default:
		text, _ := hitl.DisplayJSON(raw)
		out = append(out, Cut(strings.Join(strings.Fields(text), " ")))
	}
	return out
}
