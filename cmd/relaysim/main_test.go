package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// call runs the command and returns what it printed.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

// write makes a file with a text and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOneSeedPrintsOneLine(t *testing.T) {
	code, out, errs := call("-seed", "1", "-faults", "crash,expire")
	if code != exitClean || errs != "" {
		t.Fatalf("exit %d, stderr %q", code, errs)
	}
	want := regexp.MustCompile(`^seed 1 +hash [0-9a-f]{16} store (pg|mongo) +virtual +[0-9.]+s wall +[0-9.]+ms steps +\d+ deliveries \d+ \(\d+ completed, \d+ dead\) faults .* verdict clean\n$`)
	if !want.MatchString(out) {
		t.Errorf("line %q", out)
	}
}

func TestManySeedsAddUp(t *testing.T) {
	code, out, _ := call("-seeds", "20", "-seed", "5")
	if code != exitClean || !strings.HasPrefix(out, "20 seeds clean: ") {
		t.Errorf("exit %d, %q", code, out)
	}
	code, out, _ = call("-for", "100ms")
	if code != exitClean || !strings.Contains(out, " seeds clean: ") {
		t.Errorf("exit %d, %q", code, out)
	}
}

func TestJSON(t *testing.T) {
	code, out, _ := call("-seeds", "3", "-json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitClean || len(lines) != 3 {
		t.Fatalf("exit %d, %q", code, out)
	}
	for i, line := range lines {
		var rep struct {
			Seed    int
			Hash    string
			Verdict string
		}
		if err := json.Unmarshal([]byte(line), &rep); err != nil || rep.Seed != i+1 || len(rep.Hash) != 16 || rep.Verdict != "clean" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// Bad input gets one clear sentence and exit 2, and nothing is run.
func TestBadInput(t *testing.T) {
	badLine := write(t, "bad.ndjson", `{"at":1,"id":"a","type":"t"}`+"\n"+`{"at":1,"id":"b"}`+"\n")
	unknownFormat := write(t, "later.schedule", "format: 9\n")
	notOne := write(t, "poem.schedule", "roses are red\n")
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"-colour"}, "flag provided but not defined: -colour"},
		{"argument", []string{"crash"}, `unexpected argument "crash"`},
		{"unknown fault", []string{"-faults", "crash,meteor"}, `unknown fault "meteor"; the kinds are all, none, or any of badrow, boundary, conflict, crash`},
		{"empty fault", []string{"-faults", "crash,"}, `unknown fault ""`},
		{"seed not a number", []string{"-seed", "one"}, `invalid value "one" for flag -seed`},
		{"negative seed", []string{"-seed", "-1"}, "invalid value"},
		{"negative count", []string{"-seeds", "-5"}, "-seeds is -5: want a number from 1"},
		{"huge count", []string{"-workers", "1000000"}, "-workers is 1000000: want a number from 1 to 16"},
		{"zero lanes", []string{"-lanes", "0"}, "-lanes is 0: want a number from 1 to 256"},
		{"negative keys", []string{"-keys", "-1"}, "-keys is -1: want a number from 0"},
		{"overflow", []string{"-events", "99999999999999999999"}, "invalid value"},
		{"absurd duration", []string{"-for", "-3s"}, "-for is -3s: want a duration"},
		{"both bounds", []string{"-for", "1s", "-seeds", "3"}, "-seeds and -for exclude each other"},
		{"log of many", []string{"-v", "-seeds", "3"}, "-v prints a line per event"},
		{"unknown store", []string{"-store", "oracle"}, `-store is "oracle": want pg or mongo`},
		{"no such workload", []string{"-workload", "/nonexistent/file"}, "-workload: open /nonexistent/file"},
		{"bad workload", []string{"-workload", badLine}, "line 2: type is missing or empty"},
		{"no such replay", []string{"-replay", "/nonexistent/file"}, "-replay:"},
		{"folder without schedules", []string{"-replay", t.TempDir()}, "holds no file that ends in .schedule"},
		{"unknown format", []string{"-replay", unknownFormat}, `line 1: format "9" is not known to this version`},
		{"not a schedule", []string{"-replay", notOne}, "line 1: not a schedule"},
		{"trace in no folder", []string{"-trace", "/nonexistent/folder/file"}, "-trace:"},
		{"traces without a count", []string{"-trace", "x", "-for", "1s"}, "-trace of many seeds needs -seeds"},
		{"picture in no folder", []string{"-html", "/nonexistent/folder/file"}, "-html: /nonexistent/folder is not a folder"},
		{"picture is a folder", []string{"-html", t.TempDir()}, "is a folder"},
		{"picture of a schedule", []string{"-html", "x.html", "-replay", "x"}, "-html draws the history of a seed: it does not go with -replay"},
		{"mutants: bad count", []string{"mutants", "-seeds", "0"}, "want numbers from 1"},
		{"mutants: argument", []string{"mutants", "all"}, `unexpected argument "all"`},
		{"mutants: unknown fault", []string{"mutants", "-faults", "meteor"}, `unknown fault "meteor"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := call(c.args...)
			if code != exitUsage || out != "" {
				t.Errorf("exit %d, stdout %q", code, out)
			}
			if !strings.HasPrefix(errs, "relaysim: ") || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
				t.Errorf("stderr %q, want one sentence with %q", errs, c.want)
			}
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"mutants", "-h"}} {
		if code, _, errs := call(args...); code != exitClean || !strings.Contains(errs, "usage") {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
}

// -v prints the legend and a line per event, and the same last line.
func TestVerbose(t *testing.T) {
	_, plain, _ := call("-seed", "3", "-steps", "200")
	code, out, _ := call("-seed", "3", "-steps", "200", "-v")
	if code != exitClean || !strings.HasPrefix(out, "one line per event") || !strings.Contains(out, "= TakeOver") {
		t.Fatalf("exit %d, %.300q", code, out)
	}
	hash := regexp.MustCompile(`hash [0-9a-f]{16}`)
	if hash.FindString(out) != hash.FindString(plain) {
		t.Error("the log changed the run")
	}
}

// The history of a seed is judged and counted, and only what is illegal is
// drawn.
func TestHistories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "picture.html")
	code, out, _ := call("-seed", "3", "-html", file)
	if code != exitClean || !regexp.MustCompile(`history ok \(\d+ calls\) verdict clean\n  nothing was drawn: the history of seed 3 is not illegal \(ok: `).MatchString(out) {
		t.Errorf("exit %d, %q", code, out)
	}
	code, out, _ = call("-seed", "16", "-seeds", "5", "-html", file)
	if code != exitClean || !regexp.MustCompile(`\n1 histories judged: [1-9]\d* calls, 0 unknown\n`).MatchString(out) || !strings.HasSuffix(out, "nothing was drawn: no seed failed\n") {
		t.Errorf("exit %d, %q", code, out)
	}
	code, out, _ = call("-seed", "3", "-histories", "-json")
	if code != exitClean || !regexp.MustCompile(`"history":\{"status":"ok","calls":[1-9]\d*,"open":\d+,"lost":\d+\}`).MatchString(out) {
		t.Errorf("exit %d, %q", code, out)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a picture was written")
	}
}

func TestTrace(t *testing.T) {
	folder := t.TempDir()
	if code, _, errs := call("-seed", "4", "-seeds", "2", "-trace", filepath.Join(folder, "traces")); code != exitClean {
		t.Fatalf("exit %d, %q", code, errs)
	}
	for _, name := range []string{"4.ndjson", "5.ndjson"} {
		text, err := os.ReadFile(filepath.Join(folder, "traces", name))
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		head := regexp.MustCompile(`^\{"format":1,"semantics":"(locking|snapshot)","lanes":[1-8],"seed":` + name[:1] + `\}$`)
		if !head.Match(lines[0]) {
			t.Errorf("%s: header %s", name, lines[0])
		}
		for _, line := range lines[1:] {
			var event struct {
				Action   string
				Position *int64
			}
			if err := json.Unmarshal(line, &event); err != nil || event.Action == "" || event.Position == nil {
				t.Fatalf("%v: %s", err, line)
			}
		}
		lease := regexp.MustCompile(`"Lease":\{"Delivery":\d+,"Lane":\d+,"Epoch":\d+,"Holder":"[0-9a-f]{32}","Claim":\d+,"After":\d+`)
		if !lease.Match(text) && !regexp.MustCompile(`"Leases":\[\{"Delivery":\d+,"Lane"`).Match(text) {
			t.Errorf("%s: no lease is written in full", name)
		}
	}
}

func TestWorkloadFile(t *testing.T) {
	path := write(t, "work.ndjson", `{"at":100,"id":"a","type":"t","key":"k"}`+"\n"+`{"at":900,"id":"b","type":"u","payload":[1,2]}`+"\n")
	code, out, errs := call("-workload", path, "-faults", "crash,losereply")
	if code != exitClean || !strings.Contains(out, "deliveries 4 (") {
		t.Errorf("exit %d, %q %q", code, out, errs)
	}
}

// A seed is the same run in another process, with another number of cores and
// another garbage collector.
func TestAnotherProcessAgrees(t *testing.T) {
	if os.Getenv("RELAYSIM_CHILD") != "" {
		os.Exit(run([]string{"-seed", "7", "-json"}, os.Stdout, os.Stderr))
	}
	_, out, _ := call("-seed", "7", "-json")
	hash := regexp.MustCompile(`"hash":"[0-9a-f]{16}"`)
	child := exec.Command(os.Args[0], "-test.run=^TestAnotherProcessAgrees$")
	child.Env = append(os.Environ(), "RELAYSIM_CHILD=1", "GOMAXPROCS=1", "GOGC=10")
	text, err := child.Output()
	if err != nil {
		t.Fatal(err)
	}
	if here, there := hash.FindString(out), hash.FindString(string(text)); here == "" || here != there {
		t.Errorf("here %s, there %s", here, there)
	}
}

// Planted bugs need a build of their own, and so the go command.
func TestMutantsWithoutGo(t *testing.T) {
	if mutant.Enabled {
		t.Skip("this build has them")
	}
	t.Setenv("PATH", "")
	code, out, errs := call("mutants")
	if code != exitUsage || out != "" || !strings.Contains(errs, "no go command on the PATH") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q %q", code, out, errs)
	}
}
