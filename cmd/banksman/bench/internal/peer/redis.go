package peer

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	redisAsks    = "asks"
	redisAnswers = "answer:"
)

func redisServer() string { return program("redis-server", "/usr/bin", "/usr/local/bin") }

func (s *Server) redis(dir string, port int) error {
	exe := redisServer()
	if exe == "" {
		return errors.New("redis-server is not installed")
	}
	out, err := exec.Command(exe, "--version").Output()
	if err != nil {
		return err
	}
	s.Version = "Redis"
	for word := range strings.FieldsSeq(string(out)) {
		if v, ok := strings.CutPrefix(word, "v="); ok {
			s.Version = "Redis " + v
		}
	}
	s.url = "127.0.0.1:" + strconv.Itoa(port)
	dir, err = filepath.Abs(dir)
	// No snapshots: the append-only file is the record.
	s.cmd = exec.Command(exe, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no")
	s.cmd.SysProcAttr = alone(nil)
	return err
}

// redisClient never repeats a command: a push that is sent twice would be
// answered twice.
func redisClient(url string, conns int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: url, PoolSize: conns, MinIdleConns: conns, MaxRetries: -1, ReadTimeout: -1, PoolTimeout: time.Minute,
		DisableIdentity: true, ContextTimeoutEnabled: true,
	})
}

func (s *Server) prepareRedis(ctx context.Context) error {
	c := redisClient(s.url, 1)
	defer func() { _ = c.Close() }()
	return c.Ping(ctx).Err()
}

type redisAsker struct{ c *redis.Client }

func (s *Server) askRedis(ctx context.Context, durable bool, inFlight int) (Asker, error) {
	c := redisClient(s.url, inFlight)
	policy := "everysec"
	if durable {
		policy = "always"
	}
	if err := c.ConfigSet(ctx, "appendfsync", policy).Err(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &redisAsker{c}, nil
}

// Ask implements Asker. Both commands go out together.
func (a *redisAsker) Ask(ctx context.Context, id string, body []byte) ([]byte, error) {
	p := a.c.Pipeline()
	p.RPush(ctx, redisAsks, append([]byte(id+" "), body...))
	got := p.BLPop(ctx, 0, redisAnswers+id)
	if _, err := p.Exec(ctx); err != nil {
		return nil, err
	}
	return []byte(got.Val()[1]), nil // key, value
}

func (a *redisAsker) Close() error { return a.c.Close() }

func decideRedis(ctx context.Context, url string) (Closer, error) {
	c := redisClient(url, workers)
	if err := c.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	w := &crew{close: func() error { return nil }}
	ctx, w.stop = context.WithCancel(ctx)
	for range workers {
		w.wg.Go(func() {
			for ctx.Err() == nil {
				if err := redisStep(ctx, c); err != nil && ctx.Err() == nil {
					w.failed(err)
					return
				}
			}
		})
	}
	// What waits in BLPOP ends with its connection, not with its context.
	stop := w.stop
	w.stop = func() {
		stop()
		_ = c.Close()
	}
	return w, nil
}

func redisStep(ctx context.Context, c *redis.Client) error {
	got, err := c.BLPop(ctx, 0, redisAsks).Result()
	if err != nil {
		return err
	}
	id, _, ok := strings.Cut(got[1], " ")
	if !ok {
		return fmt.Errorf("redis: an ask without an id")
	}
	return c.RPush(ctx, redisAnswers+id, Decision(id)).Err()
}
