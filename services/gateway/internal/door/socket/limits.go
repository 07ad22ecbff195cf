package socket

import "time"

// Limits of sockets and event streams; a zero field takes its default.
type Limits struct {
	Queue    int           // bytes of events that may wait for a slow reader; 256 KiB
	Patience time.Duration // how long a burst may be above Queue while nothing gets through; 250 ms
	Sockets  int           // sockets of one person, and as many event streams; 20
	SignIn   time.Duration // from the handshake to the auth frame; 5 s
	Ping     time.Duration // between pings; 25 s and jitter
	Pong     time.Duration // from a ping to any word of the client; 10 s
	Write    time.Duration // one write; 10 s
	Recheck  time.Duration // of sessions that are in use; 60 s
	Tick     time.Duration // how exactly the five above are kept; 1 s
	Behind   time.Duration // how long to wait for what a client has seen elsewhere; 2 s
	Rate     float64       // frames a second of one socket; 50
	Burst    float64       // 200
	Watching int           // subscriptions of one socket; 64
}

// WithDefaults fills in what is not set.
func (l Limits) WithDefaults() Limits {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	num := func(v *int, n int) {
		if *v == 0 {
			*v = n
		}
	}
	num(&l.Queue, 256<<10)
	def(&l.Patience, 250*time.Millisecond)
	num(&l.Sockets, 20)
	num(&l.Watching, 64)
	def(&l.Write, 10*time.Second)
	def(&l.SignIn, 5*time.Second)
	def(&l.Ping, 25*time.Second)
	def(&l.Pong, 10*time.Second)
	def(&l.Recheck, time.Minute)
	def(&l.Tick, time.Second)
	def(&l.Behind, 2*time.Second)
	if l.Rate == 0 {
		l.Rate = 50
	}
	if l.Burst == 0 {
		l.Burst = 200
	}
	return l
}
