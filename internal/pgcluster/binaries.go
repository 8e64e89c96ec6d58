package pgcluster

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// ErrNoBinaries: no server binaries are on the machine.
var ErrNoBinaries = errors.New("no PostgreSQL server (initdb and postgres) is on the PATH or in the usual folders")

// usual are where packages put the server's binaries.
var usual = []string{
	"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// Binaries finds the folder with initdb and postgres: on the PATH, or the
// newest version in the usual folders.
func Binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if dir := filepath.Dir(path); Complete(dir) {
			return dir, nil
		}
	}
	return newest(usual)
}

func newest(patterns []string) (string, error) {
	var found []string
	for _, pattern := range patterns {
		dirs, _ := filepath.Glob(pattern)
		found = append(found, dirs...)
	}
	found = slices.DeleteFunc(found, func(dir string) bool { return !Complete(dir) })
	if len(found) == 0 {
		return "", ErrNoBinaries
	}
	return slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(release(a), release(b)) }), nil
}

var number = regexp.MustCompile(`\d+(\.\d+)?`)

// release is the version in a folder's name: 9.6 stands before 15.
func release(dir string) float64 {
	n, _ := strconv.ParseFloat(number.FindString(dir), 64)
	return n
}

// Complete reports whether a folder has what New needs.
func Complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
