package hitl

import "github.com/banksman/banksman/pkg/hitl/internal/said"

// What a gateway says of a request beside the request's own texts.
type (
	Card   = said.Card
	Part   = said.Part
	Policy = said.Policy
)
