package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// One statement each, so that row and notification are one commit. The first
// answer wins, whoever else answers.
const (
	pgTable = `CREATE TABLE IF NOT EXISTS ask (id text PRIMARY KEY, body bytea NOT NULL, decision bytea, decided_at timestamptz)`
	pgAsk   = `WITH a AS (INSERT INTO ask (id, body) VALUES ($1, $2) RETURNING id) SELECT pg_notify('asks', id) FROM a`
	pgRead  = `SELECT body FROM ask WHERE id = $1`
	pgSet   = `WITH a AS (UPDATE ask SET decision = $2, decided_at = now() WHERE id = $1 AND decision IS NULL RETURNING id) SELECT pg_notify('answers', id) FROM a`
	pgGet   = `SELECT decision FROM ask WHERE id = $1`
)

func postgresProgram(name string) string {
	return program(name, "/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin")
}

// postgres makes a database directory and the command that serves it, as
// another user if this is root.
func (s *Server) postgres(ctx context.Context, dir string, port int) error {
	exe, initdb := postgresProgram("postgres"), postgresProgram("initdb")
	if exe == "" || initdb == "" {
		return errors.New("postgres and initdb are not installed")
	}
	out, err := exec.Command(exe, "--version").Output()
	if err != nil {
		return err
	}
	s.Version = "PostgreSQL"
	if f := strings.Fields(string(out)); len(f) > 2 {
		s.Version = "PostgreSQL " + f[2]
	}
	as, err := another()
	if err != nil {
		return err
	}
	data, err := filepath.Abs(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	if as != nil {
		if err := os.Chown(dir, int(as.uid), int(as.gid)); err != nil {
			return err
		}
	}
	init := exec.CommandContext(ctx, initdb, "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale", "C")
	init.Dir = "/"
	init.SysProcAttr = alone(as)
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	s.url = fmt.Sprintf("postgres://bench@127.0.0.1:%d/postgres?sslmode=disable", port)
	s.cmd = exec.Command(exe, "-D", data, "-p", strconv.Itoa(port), "-h", "127.0.0.1", "-k", "", "-c", "max_connections=200")
	s.cmd.Dir = "/"
	s.cmd.SysProcAttr = alone(as)
	return nil
}

// account is a user of the system.
type account struct{ uid, gid uint32 }

// another is whom PostgreSQL runs as, because it refuses root: nil where this
// is not root.
func another() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		if errU == nil && errG == nil {
			return &account{uint32(uid), uint32(gid)}, nil
		}
	}
	return nil, errors.New("there is no user postgres or nobody to run it as")
}

func (s *Server) prepare(ctx context.Context) error {
	if s.Kind == Redis {
		return s.prepareRedis(ctx)
	}
	c, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, pgTable)
	return errors.Join(err, c.Close(ctx))
}

// pgPool has all its connections open, so that none is made while something is
// measured.
func pgPool(ctx context.Context, url string, conns int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.MinConns = int32(conns), int32(conns)
	p, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var held []*pgxpool.Conn
	for range conns {
		c, e := p.Acquire(ctx)
		if e != nil {
			err = e
			break
		}
		held = append(held, c)
	}
	for _, c := range held {
		c.Release()
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// pgListen calls fn with the payload of each notification until ctx ends.
func pgListen(ctx context.Context, w *crew, url, channel string, fn func(string)) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
		return errors.Join(err, c.Close(ctx))
	}
	w.wg.Go(func() {
		defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
		for {
			var n *pgconn.Notification
			if n, err = c.WaitForNotification(ctx); err != nil {
				if ctx.Err() == nil {
					w.failed(err)
				}
				return
			}
			fn(n.Payload)
		}
	})
	return nil
}

type pgAsker struct {
	crew
	pool *pgxpool.Pool

	waitMu sync.Mutex
	wait   map[string]chan struct{} // closed by the listener
}

func (s *Server) askPostgres(ctx context.Context, durable bool, inFlight int) (Asker, error) {
	url := s.URL(durable)
	pool, err := pgPool(ctx, url, min(inFlight, workers))
	if err != nil {
		return nil, err
	}
	a := &pgAsker{pool: pool, wait: map[string]chan struct{}{}}
	a.close = func() error {
		pool.Close()
		return nil
	}
	ctx, a.stop = context.WithCancel(ctx)
	if err := pgListen(ctx, &a.crew, url, "answers", a.wake); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *pgAsker) wake(id string) {
	a.waitMu.Lock()
	defer a.waitMu.Unlock()
	if c := a.wait[id]; c != nil {
		close(c)
		delete(a.wait, id)
	}
}

// Ask implements Asker.
func (a *pgAsker) Ask(ctx context.Context, id string, body []byte) ([]byte, error) {
	answered := make(chan struct{})
	a.waitMu.Lock()
	a.wait[id] = answered
	a.waitMu.Unlock()
	if _, err := a.pool.Exec(ctx, pgAsk, id, body); err != nil {
		return nil, err
	}
	select {
	case <-answered:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var decision []byte
	err := a.pool.QueryRow(ctx, pgGet, id).Scan(&decision)
	return decision, err
}

func decidePostgres(ctx context.Context, url string) (Closer, error) {
	pool, err := pgPool(ctx, url, workers)
	if err != nil {
		return nil, err
	}
	w := &crew{close: func() error {
		pool.Close()
		return nil
	}}
	ctx, w.stop = context.WithCancel(ctx)
	ids := make(chan string, 4096) // closed by nobody: the workers end with ctx
	for range workers {
		w.wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case id := <-ids:
					if err := pgStep(ctx, pool, id); err != nil && ctx.Err() == nil {
						w.failed(err)
					}
				}
			}
		})
	}
	err = pgListen(ctx, w, url, "asks", func(id string) {
		select {
		case ids <- id:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func pgStep(ctx context.Context, pool *pgxpool.Pool, id string) error {
	var body []byte
	if err := pool.QueryRow(ctx, pgRead, id).Scan(&body); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, pgSet, id, Decision(id))
	return err
}
