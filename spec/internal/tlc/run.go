package tlc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Run is one run of TLC.
type Run struct {
	Files   []string // the module with all that it extends, and the config; copied
	Module  string   // file name of the root module among Files
	Config  string   // file name of the config among Files
	Workers int      // threads of TLC; 0 means 1
	Heap    string   // Java's -Xmx, as "2g"; "" means "1g"
	Brief   bool     // a run of seconds: Java compiles fast rather than well
	// Extra are texts by file name that are put beside the copies, in place of
	// a copy of that name.
	Extra map[string][]byte
	// Progress, when set, is given TLC's progress lines.
	Progress func(line string)
}

// Check runs TLC in a temporary folder of its own, which is gone afterwards:
// concurrent runs would otherwise unpack modules and write states over one
// another. Whatever TLC has to say about the model is in the Outcome; an error
// means that it could not be run, or that ctx ended.
func (t *Tool) Check(ctx context.Context, r Run) (*Outcome, error) {
	dir, err := os.MkdirTemp("", "relaybus-tlc-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := r.lay(dir); err != nil {
		return nil, err
	}
	start := time.Now()
	out, err := t.run(ctx, dir, r)
	if err != nil {
		return nil, err
	}
	out.Wall = time.Since(start)
	return out, nil
}

// lay fills the folder of a run.
func (r *Run) lay(dir string) error {
	for _, sub := range []string{"tmp", "states"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o777); err != nil {
			return err
		}
	}
	for _, file := range r.Files {
		name := filepath.Base(file)
		if _, replaced := r.Extra[name]; replaced {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			return err
		}
	}
	for name, text := range r.Extra {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tool) run(ctx context.Context, dir string, r Run) (*Outcome, error) {
	cmd := exec.CommandContext(ctx, t.Java, t.arguments(dir, r)...)
	cmd.Dir = dir
	var failed bytes.Buffer
	cmd.Stderr = &failed
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start java: %w", err)
	}
	out, readErr := Read(stdout, r.Progress)
	io.Copy(io.Discard, stdout) // let TLC go on when its output could not be read
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case readErr != nil:
		return nil, readErr
	case !out.ended:
		// Java died: no memory, a wrong jar. What it says goes to stderr.
		return nil, fmt.Errorf("TLC ended early (%v): %s", err, firstLine(failed.Bytes()))
	}
	return out, nil
}

func (t *Tool) arguments(dir string, r Run) []string {
	heap := r.Heap
	if heap == "" {
		heap = "1g"
	}
	java := []string{"-XX:+UseParallelGC"}
	if r.Brief {
		java = []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	}
	return append(java,
		"-Xss16m", "-Xmx"+heap, "-Djava.io.tmpdir="+filepath.Join(dir, "tmp"),
		"-cp", t.Jar, "tlc2.TLC", "-tool", "-nowarning",
		"-workers", fmt.Sprint(max(r.Workers, 1)), "-metadir", filepath.Join(dir, "states"),
		"-config", r.Config, strings.TrimSuffix(r.Module, ".tla"))
}
