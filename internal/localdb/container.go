package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// serveContainer is the last resort: a container engine, when one answers.
func serveContainer(release string, before error, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	ctx := context.Background()
	image := imageOf(release)
	c, err := startContainer(ctx, image)
	if err != nil {
		return fmt.Errorf("%w; and a container of %s could not be started: %w", before, image, err)
	}
	defer func() { err = errors.Join(err, testcontainers.TerminateContainer(c)) }()
	address, err := c.PortEndpoint(ctx, "5432/tcp", "")
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "postgres://postgres@%s/postgres?sslmode=disable a container of %s\n", address, image)
	_, err = io.Copy(io.Discard, stdin)
	return err
}

// imageOf names the image of a release.
func imageOf(release string) string {
	major, _, _ := strings.Cut(string(versions[release]), ".")
	return cmp.Or(os.Getenv("RELAYBUS_TEST_POSTGRES_IMAGE"), "postgres:"+major)
}

// startContainer makes a cluster inside the container and starts it. The
// official image's own entry point would do the same; an image that was made
// on the spot has none.
func startContainer(ctx context.Context, image string) (c *testcontainers.DockerContainer, err error) {
	defer func() { // the library panics where no engine answers
		if r := recover(); r != nil {
			err = fmt.Errorf("no container engine answers: %v", r)
		}
	}()
	const script = `dir=$(mktemp -d) && chown postgres "$dir" && cd "$dir" && exec su postgres -c "PATH=$PATH;
initdb -D $dir/data -U postgres -A trust -E UTF8 --locale=C --no-sync >/dev/null &&
echo 'host all all all trust' >> $dir/data/pg_hba.conf &&
exec postgres -D $dir/data -k $dir -c listen_addresses='*' -c max_connections=300 -c fsync=off"`
	c, err = testcontainers.Run(ctx, image,
		testcontainers.WithEntrypoint("/bin/sh", "-c", script),
		testcontainers.WithExposedPorts("5432/tcp"),
		testcontainers.WithLogger(log.New(io.Discard, "", 0)),
		testcontainers.WithWaitStrategy(wait.ForLog("database system is ready to accept connections").WithStartupTimeout(2*time.Minute)))
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(c))
	}
	return c, nil
}
