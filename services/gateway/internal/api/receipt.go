package api

import (
	"errors"

	"github.com/banksman/banksman/pkg/hitl"
)

// Invalid is the receipt for an input that cannot be used.
func Invalid(err error) hitl.Receipt {
	var inv *hitl.InvalidError
	if errors.As(err, &inv) {
		return hitl.Receipt{Status: hitl.BadInput, Error: inv.Error(), Fields: inv.Fields}
	}
	return hitl.Receipt{Status: hitl.BadInput, Error: err.Error()}
}

// Failure is the receipt for an attempt that could not be judged.
func Failure(err error) hitl.Receipt {
	switch {
	case errors.Is(err, ErrNotFound):
		return hitl.Receipt{Status: hitl.NotFound, Error: "no such interaction"}
	case errors.Is(err, ErrAmbiguous):
		return Invalid(hitl.Invalid("request_id", "%v", ErrAmbiguous))
	}
	var inv *hitl.InvalidError
	if errors.As(err, &inv) {
		return Invalid(err)
	}
	return hitl.Receipt{
		Status: hitl.Unavailable,
		Error:  "the decision could not be stored now; it is unknown whether it counts, and trying again is safe",
	}
}
