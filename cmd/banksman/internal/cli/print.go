package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes v as JSON, or else its table, whose cells end with a tab.
func Print(out io.Writer, asJSON bool, v any, table func(io.Writer)) error {
	if asJSON {
		raw, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, Safe(string(raw)))
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}
