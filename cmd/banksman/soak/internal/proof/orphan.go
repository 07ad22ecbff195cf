package proof

import (
	"fmt"
	"time"

	"github.com/banksman/banksman/pkg/hitl"
)

const (
	// heardBefore and heardAfter are for how long around a heartbeat every part has to
	// be up for it to have been heard: who lost its server needs a while for another.
	heardBefore = 2 * time.Second
	heardAfter  = 500 * time.Millisecond
	// orphanSlack is how much later than it was sent a heartbeat may be heard, and how
	// much later than it is due silence may be noticed and written down.
	orphanSlack = 2 * time.Second
	noticed     = 10 * time.Second
)

// lastHeard is when the worker beat last of whom that was surely heard before a time,
// 0 if there is none.
func (s Site) lastHeard(ix *Interaction, before int64) (at int64) {
	for _, b := range ix.beats {
		if b > at && b+int64(heardAfter) < before && s.Up(b-int64(heardBefore), b+int64(heardAfter)) == heardBefore+heardAfter {
			at = b
		}
	}
	return at
}

// silent is the earliest moment at which a gateway may have found the worker silent
// that was orphaned at a time.
func (s Site) silent(ix *Interaction, orphaned int64) int64 {
	at := s.lastHeard(ix, orphaned)
	if at == 0 { // nothing of it need have been heard
		return 0
	}
	return at + int64(s.OrphanAfter-orphanSlack)
}

// orphans are the contradictions to the rule of workers: what one asks ends once it has
// been silent for so long, and not before.
func orphans(ix *Interaction, rec Stored, site Site) (errs []error) {
	d := rec.Decision
	switch {
	case ix.gone != 0 && d == nil:
		errs = append(errs, fmt.Errorf("%s: its worker was killed and stays away, and it was not given up", ix.Ref))
	case d == nil || d.Outcome != hitl.Orphaned:
	case !ix.works:
		errs = append(errs, fmt.Errorf("%s: orphaned, and no worker asked it", ix.Ref))
	default:
		at := d.DecidedAt.UnixNano()
		if from := site.silent(ix, at); at < from {
			errs = append(errs, fmt.Errorf("%s: orphaned %s before its worker could have been silent for %s",
				ix.Ref, time.Duration(from-at)+orphanSlack, site.OrphanAfter))
		}
		if t := site.Calm(ix.gone, at); ix.gone != 0 && t > site.OrphanAfter+noticed {
			errs = append(errs, fmt.Errorf("%s: its worker was killed and stays away, and it was not given up in %s in which every part was up", ix.Ref, t))
		}
	}
	return errs
}
