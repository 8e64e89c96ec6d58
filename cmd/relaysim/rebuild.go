package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// mutantTag is the build tag with which mutants can be planted.
const mutantTag = "relaybus_mutants"

// thisPackage is built when the program rebuilds itself.
const thisPackage = "github.com/relaybus-go/relaybus/cmd/relaysim"

// planted is the name of the mutant that the environment plants in this
// build, or "".
func planted() string {
	if !mutant.Enabled {
		return ""
	}
	return os.Getenv("RELAYBUS_MUTANT")
}

// rebuilt runs the program again, built so that mutants can be planted.
func rebuilt(args []string, stdout, stderr io.Writer) int {
	tool, err := exec.LookPath("go")
	if err != nil {
		return fail(stderr, "planted bugs need a build of their own, and there is no go command on the PATH to make it")
	}
	folder, err := os.MkdirTemp("", "relaysim")
	if err != nil {
		return fail(stderr, "no temporary folder for the build: %v", err)
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "relaysim")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.Command(tool, "build", "-tags", mutantTag, "-o", program, thisPackage)
	if text, err := build.CombinedOutput(); err != nil {
		return fail(stderr, "the build with planted bugs failed; run it inside a checkout of relaybus: %v: %s", err, text)
	}
	again := exec.Command(program, args...)
	again.Stdout, again.Stderr = stdout, stderr
	err = again.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return fail(stderr, "the build with planted bugs did not run: %v", err)
	}
	return exitClean
}
