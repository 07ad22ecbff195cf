package metrics

import "github.com/prometheus/client_golang/prometheus"

// Disk adds the room on the disk with dir, which holds a part's data.
func Disk(reg prometheus.Registerer, part, dir string) {
	labels := prometheus.Labels{"part": part}
	gauge := func(name, help string, pick func(free, size uint64) uint64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
			return float64(pick(Room(dir)))
		}))
	}
	gauge("banksman_disk_free_bytes", "Bytes that this part may still store on the disk with its data. 0 also where the system does not tell.",
		func(free, _ uint64) uint64 { return free })
	gauge("banksman_disk_bytes", "The size of that disk.", func(_, size uint64) uint64 { return size })
}
