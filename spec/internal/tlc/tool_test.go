package tlc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// alone gives the test a home and a PATH of its own and returns both.
func alone(t *testing.T) (home, bin string) {
	t.Helper()
	home, bin = t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, ".cache"))
	t.Setenv("PATH", bin)
	t.Setenv(JarVariable, "")
	return home, bin
}

// program puts a shell script into a folder of programs.
func program(t *testing.T, bin, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
}

// refuses expects Find to fail with one sentence that holds each part.
func refuses(t *testing.T, parts ...string) {
	t.Helper()
	tool, err := Find()
	if err == nil {
		t.Fatalf("found %+v", tool)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than a sentence", err)
	}
}

func TestNoJava(t *testing.T) {
	alone(t)
	refuses(t, "no java on the PATH", "install")
}

func TestNoJarAndNoMaven(t *testing.T) {
	_, bin := alone(t)
	program(t, bin, "java", "exit 0")
	refuses(t, "no mvn on the PATH", artifact, JarVariable)
}

func TestMavenFails(t *testing.T) {
	_, bin := alone(t)
	program(t, bin, "java", "exit 0")
	program(t, bin, "mvn", "echo no network; exit 1")
	refuses(t, "could not fetch", "no network", JarVariable)
}

func TestNamedJar(t *testing.T) {
	home, bin := alone(t)
	program(t, bin, "java", "exit 0")
	t.Setenv(JarVariable, filepath.Join(home, "nothing.jar"))
	refuses(t, JarVariable, "nothing.jar")

	jar := filepath.Join(home, "mine.jar")
	if err := os.WriteFile(jar, []byte("any"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv(JarVariable, jar)
	if tool, err := Find(); err != nil || tool.Jar != jar {
		t.Errorf("%+v, %v", tool, err)
	}
}

// A jar that nobody named must be the one we know, whether it was found or
// fetched.
func TestPinned(t *testing.T) {
	home, bin := alone(t)
	program(t, bin, "java", "exit 0")
	places := jarPlaces()
	jar := places[len(places)-1]
	program(t, bin, "mvn", "/bin/mkdir -p "+filepath.Dir(jar)+" && echo fake > "+jar)
	refuses(t, "sha256", jarSum, JarVariable)
	if _, err := os.Stat(jar); err != nil {
		t.Fatal("mvn was not run")
	}
	refuses(t, "sha256", jarSum) // found this time

	cached := filepath.Join(home, ".cache", "relaybus", jarName)
	if err := os.MkdirAll(filepath.Dir(cached), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cached, []byte("other"), 0o666); err != nil {
		t.Fatal(err)
	}
	refuses(t, cached)
}
