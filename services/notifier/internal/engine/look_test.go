package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banksman/banksman/pkg/subject"
	"github.com/banksman/banksman/services/notifier/internal/ledger"
	"github.com/banksman/banksman/services/notifier/internal/timer"
)

// What is planned waits, once it is known that its end is not stored already.
func TestWhatWaitsIsCountedOnce(t *testing.T) {
	e := New(Options{Clock: timer.System{}, Routes: []Route{{Name: "hook", Type: "webhook"}}})
	k := ledger.Key{Ref: subject.NewRef("t", "o", "1"), Step: ledger.StepOpen, Channel: "hook"}
	e.observe(&ledger.Record{Key: k, Revision: 1, Entry: ledger.Entry{State: ledger.Planned, DueAt: time.Now()}}, true)
	_, waiting := e.Channels()
	require.Zero(t, waiting)
	e.Idle()
	_, waiting = e.Channels()
	require.Equal(t, 1, waiting)
}
