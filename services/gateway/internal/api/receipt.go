package api

import (
	"errors"

	"github.com/banksman/banksman/pkg/hitl"
	"github.com/banksman/banksman/pkg/journal"
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
	text := "the decision could not be stored now; it is unknown whether it counts, and trying again is safe"
	if errors.Is(err, journal.ErrLeft) {
		text = "nothing was decided: it was asked while no gateway was there, and is taken in in a moment; try again"
	} else if errors.Is(err, journal.ErrFull) && !errors.Is(err, journal.ErrUnknown) {
		text = "nothing was decided: the record of decisions has no room left"
	} else if why := Cause(err); why != nil {
		text += ": " + why.Error()
	}
	return hitl.Receipt{Status: hitl.Unavailable, Error: text}
}

// Cause is what keeps the store from taking anything, in words for people; nil
// where err does not tell.
func Cause(err error) error {
	for _, why := range []error{journal.ErrFull, journal.ErrDisk, journal.ErrOffline} {
		if errors.Is(err, why) {
			return why
		}
	}
	return nil
}
