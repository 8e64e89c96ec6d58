package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"

	"github.com/relaybus-go/relaybus/internal/pgcluster"
)

// versions are the releases that can be asked for.
var versions = map[string]embedded.PostgresVersion{
	"newest": embedded.V18,
	"18":     embedded.V18, "17": embedded.V17, "16": embedded.V16, "15": embedded.V15,
	"14": embedded.V14, "13": "13.22.0", "12": embedded.V12, // embedded.V13, 13.21, is not to be had
}

// names are the keys of versions, newest first.
func names() []string {
	var list []string
	for name := range versions {
		list = append(list, name)
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list
}

// binaries returns the folder of a release's programs, and fetches them first
// when the cache has none. Many processes may do so at once: the folder
// appears whole or not at all.
func binaries(release string) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, "postgres-"+string(versions[release]))
	bin := filepath.Join(home, "bin")
	if pgcluster.Complete(bin) {
		return bin, nil
	}
	scratch, err := os.MkdirTemp(cache, "unpack-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	unpacked := filepath.Join(scratch, "postgres")
	if err := unpack(release, scratch, unpacked); err != nil {
		return "", fmt.Errorf("PostgreSQL %s could not be fetched: %w", versions[release], err)
	}
	if err := os.Rename(unpacked, home); err != nil && !pgcluster.Complete(bin) {
		return "", err
	}
	return bin, nil
}

// cacheFolder is the user's. Root's own lies where the user that runs the
// server cannot read, so there it is the machine's.
func cacheFolder() (string, error) {
	base, err := os.UserCacheDir()
	if os.Geteuid() == 0 {
		base, err = "/var/cache", nil
	}
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "relaybus-localdb")
	return dir, os.MkdirAll(dir, 0o755)
}

// unpack fetches a release and unpacks it into the folder to. The library has
// no function for that, only Start, which goes on to start a server and that
// not as root. A data folder that says it is initialised and holds nothing
// more makes the start fail right after the unpacking, whoever runs it.
func unpack(release, scratch, to string) error {
	version := versions[release]
	data := filepath.Join(scratch, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	major, _, _ := strings.Cut(string(version), ".")
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
		return err
	}
	port, err := pgcluster.FreePort()
	if err != nil {
		return err
	}
	server := embedded.NewDatabase(embedded.DefaultConfig().Version(version).Port(uint32(port)).Logger(io.Discard).
		CachePath(filepath.Join(scratch, "archive")).RuntimePath(filepath.Join(scratch, "run")).
		DataPath(data).BinariesPath(to))
	err = server.Start()
	if err == nil {
		_ = server.Stop()
	}
	if !pgcluster.Complete(filepath.Join(to, "bin")) {
		return err
	}
	return readable(to)
}

// readable lets every user read what was unpacked, whatever the umask is.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if entry.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(name, mode)
	})
}
