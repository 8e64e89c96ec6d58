package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/store/postgres"
)

// connectTimeout bounds the wait for a server, unless the URL says another.
const connectTimeout = 10 * time.Second

func options(c *cli.Command) postgres.Options {
	return postgres.Options{Schema: c.String(flagSchema)}
}

// pool connects to the database. The caller closes it.
func (a *app) pool(ctx context.Context, c *cli.Command) (*pgxpool.Pool, error) {
	if err := options(c).Validate(); err != nil {
		return nil, err
	}
	text := c.String(flagURL)
	if text == "" {
		return nil, badInput("which database? Set RELAYBUS_DATABASE_URL, or give --database-url postgres://user:password@host:port/database")
	}
	if kind, _, ok := strings.Cut(text, "://"); ok && kind != "postgres" && kind != "postgresql" {
		return nil, badInput("the database URL is not of PostgreSQL: want postgres://user:password@host:port/database")
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, unreadable(err)
	}
	a.password = config.ConnConfig.Password
	if config.ConnConfig.ConnectTimeout == 0 || config.ConnConfig.ConnectTimeout > time.Minute {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if _, named := config.ConnConfig.RuntimeParams["application_name"]; !named {
		config.ConnConfig.RuntimeParams["application_name"] = "relaybus"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, badInput("the database URL does not work: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, unreachable(&config.ConnConfig.Config, err)
	}
	return pool, nil
}

// store connects to a database whose schema this release can work with.
func (a *app) store(ctx context.Context, c *cli.Command) (*postgres.Store, func(), error) {
	pool, err := a.pool(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	s, err := postgres.NewWith(pool, options(c))
	if err == nil {
		err = s.CheckSchema(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return s, pool.Close, nil
}

var quotedURL = regexp.MustCompile("(?s)cannot parse `.*`: ?")

// unreadable says what is wrong with a URL without showing it: what is between
// its quotes may be a password that nothing could tell from the rest.
func unreadable(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return badInput("the database URL cannot be read: want postgres://user:password@host:port/database, with %%XX for special characters of the password")
	}
	return badInput("the database URL cannot be read: %s", quotedURL.ReplaceAllString(err.Error(), ""))
}

// unreachable says why no connection came to be.
func unreachable(c *pgconn.Config, err error) error {
	at := fmt.Sprintf("%s:%d", c.Host, c.Port)
	var refused *pgconn.PgError
	var name *net.DNSError
	switch {
	case errors.As(err, &refused):
		return refusedBy(c, refused)
	case errors.As(err, &name):
		return badInput("no host %q is known: check the database URL", c.Host)
	case errors.Is(err, syscall.ECONNREFUSED):
		return badInput("no server answers at %s: check the database URL, and that PostgreSQL runs", at)
	case errors.Is(err, os.ErrNotExist):
		return badInput("no server listens at the socket in %s: check the database URL, and that PostgreSQL runs", c.Host)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return badInput("the server at %s did not answer in time: check the database URL and the network", at)
	case strings.Contains(err.Error(), "TLS"):
		return badInput("the server at %s and this command do not agree on TLS: check sslmode in the database URL", at)
	}
	return fmt.Errorf("no connection to %s: %w", at, err)
}

func refusedBy(c *pgconn.Config, refused *pgconn.PgError) error {
	switch {
	case refused.Code == "28P01":
		return badInput("the server refuses the password of user %q", c.User)
	case strings.HasPrefix(refused.Code, "28"):
		return badInput("the server does not let user %q in: %w", c.User, refused)
	case refused.Code == "3D000":
		return badInput("there is no database %q on %s:%d", c.Database, c.Host, c.Port)
	case refused.Code == "42501":
		return badInput("user %q may not connect to database %q: it needs GRANT CONNECT ON DATABASE", c.User, c.Database)
	}
	return fmt.Errorf("the server lets nobody in now: %w", refused)
}
