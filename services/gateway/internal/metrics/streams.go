package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/banksman/banksman/pkg/journal"
)

// streamLimit bounds what the server is asked for one reading.
const streamLimit = 3 * time.Second

var (
	bytesDesc    = desc("banksman_stream_bytes", "Bytes that a stream or bucket stores.", "stream")
	limitDesc    = desc("banksman_stream_limit_bytes", "Bytes that it may store. What happens beyond is in docs/operations.md.", "stream")
	messagesDesc = desc("banksman_stream_messages", "Messages that it stores.", "stream")
	lagDesc      = desc("banksman_consumer_lag_messages",
		"Messages that a durable consumer has not given to anybody yet. Consumers of one purpose are added up over tenants and pools.", "stream", "consumer")
	heldDesc = desc("banksman_consumer_unacknowledged_messages",
		"Messages that a durable consumer has given out and that are not acknowledged.", "stream", "consumer")
	againDesc = desc("banksman_consumer_redelivered_messages",
		"Messages that a durable consumer has given out more than once and that are not acknowledged.", "stream", "consumer")
	readDesc = desc("banksman_streams_readable", "1 if the server told of all streams for this reading, else 0: then the figures of streams are missing.")
)

// Streams adds what the server says of streams and durable consumers.
func (m *Metrics) Streams(nc *nats.Conn) { m.Registry.MustRegister(streamLooker{nc}) }

type streamLooker struct{ nc *nats.Conn }

// Describe implements prometheus.Collector.
func (streamLooker) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{bytesDesc, limitDesc, messagesDesc, lagDesc, heldDesc, againDesc, readDesc} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (l streamLooker) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), streamLimit)
	defer cancel()
	ok := 1.0
	for _, name := range journal.Streams() {
		if err := l.stream(ctx, name, c); err != nil {
			ok = 0
			break // the others would only wait for the same server
		}
	}
	for stream, purpose := range map[string]string{
		journal.Requests: journal.IntakeConsumer, journal.Mailbox: journal.MailboxConsumer, journal.Decisions: journal.SweeperConsumer,
		journal.Events: journal.NotifierConsumer, journal.Work: "pools",
	} {
		if ok == 0 {
			break
		}
		if err := l.consumers(ctx, stream, purpose, c); err != nil {
			ok = 0
		}
	}
	c <- prometheus.MustNewConstMetric(readDesc, prometheus.GaugeValue, ok)
}

func (l streamLooker) stream(ctx context.Context, name string, c chan<- prometheus.Metric) error {
	var info struct {
		Config struct {
			MaxBytes int64 `json:"max_bytes"`
		} `json:"config"`
		State struct {
			Messages uint64 `json:"messages"`
			Bytes    uint64 `json:"bytes"`
		} `json:"state"`
	}
	if err := l.call(ctx, "STREAM.INFO."+name, nil, &info); err != nil {
		return err
	}
	for d, v := range map[*prometheus.Desc]float64{
		bytesDesc: float64(info.State.Bytes), limitDesc: float64(info.Config.MaxBytes), messagesDesc: float64(info.State.Messages),
	} {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, name)
	}
	return nil
}

// consumers adds the durables of a stream up. A tenant's and a pool's have its name
// in theirs, which is no label.
func (l streamLooker) consumers(ctx context.Context, stream, purpose string, c chan<- prometheus.Metric) error {
	var lag, held, again float64
	for offset := 0; ; {
		var page struct {
			Total     int `json:"total"`
			Consumers []struct {
				Config struct {
					Durable string `json:"durable_name"`
				} `json:"config"`
				Pending     float64 `json:"num_pending"`
				AckPending  float64 `json:"num_ack_pending"`
				Redelivered float64 `json:"num_redelivered"`
			} `json:"consumers"`
		}
		if err := l.call(ctx, "CONSUMER.LIST."+stream, map[string]int{"offset": offset}, &page); err != nil {
			return err
		}
		for _, k := range page.Consumers {
			if k.Config.Durable == "" || stream != journal.Work && !strings.HasPrefix(k.Config.Durable, purpose) {
				continue
			}
			lag, held, again = lag+k.Pending, held+k.AckPending, again+k.Redelivered
		}
		if offset += len(page.Consumers); len(page.Consumers) == 0 || offset >= page.Total {
			break
		}
	}
	for d, v := range map[*prometheus.Desc]float64{lagDesc: lag, heldDesc: held, againDesc: again} {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, stream, purpose)
	}
	return nil
}

func (l streamLooker) call(ctx context.Context, api string, req, resp any) error {
	var body []byte
	if req != nil {
		var err error
		if body, err = json.Marshal(req); err != nil {
			return err
		}
	}
	msg, err := l.nc.RequestWithContext(ctx, "$JS.API."+api, body)
	if err != nil {
		return fmt.Errorf("metrics: %s: %w", api, err)
	}
	var refused struct {
		Error *journal.APIError `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &refused); err != nil {
		return fmt.Errorf("metrics: %s: %w", api, err)
	}
	if refused.Error != nil {
		return refused.Error
	}
	return json.Unmarshal(msg.Data, resp)
}
