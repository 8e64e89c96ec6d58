package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestExplore(t *testing.T) {
	code, out, errs := call("-explore", "-faults", "crash")
	want := regexp.MustCompile(`^explored pg +hash [0-9a-f]{16} runs \d+ \(1 \d+ by deviations\), all with deviations up to 1, wall [0-9.]+s, verdict clean\nexplored mongo hash .*, verdict clean\n$`)
	if code != exitClean || errs != "" || !want.MatchString(out) {
		t.Errorf("exit %d, stderr %q, %s", code, errs, out)
	}
	code, out, _ = call("-explore", "-faults", "crash", "-store", "mongo", "-deviations", "2", "-runs", "50")
	if code != exitClean || strings.Count(out, "\n") != 1 || !strings.Contains(out, "stopped at the bound of 50 runs") {
		t.Errorf("exit %d, %s", code, out)
	}
	code, out, _ = call("-explore", "-faults", "none", "-store", "pg", "-workers", "1", "-json")
	var found struct {
		Store     string
		Knobs     string
		Runs      []int
		Exhausted bool
		Verdict   string
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != exitClean || found.Store != "pg" || !found.Exhausted ||
		len(found.Runs) != 2 || !strings.Contains(found.Knobs, "workers=1") || found.Verdict != "clean" {
		t.Errorf("exit %d, %v, %s", code, err, out)
	}
}

func TestExploreBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-explore", "-seed", "3"}, "-seed does not go with it"},
		{[]string{"-explore", "-for", "3s"}, "-for does not go with it"},
		{[]string{"-explore", "-replay", "x"}, "-replay does not go with it"},
		{[]string{"-explore", "-deviations", "-1"}, "-deviations is -1"},
		{[]string{"-deviations", "2"}, "bound -explore, which is missing"},
	} {
		code, out, errs := call(c.args...)
		if code != exitUsage || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", c.args, code, out, errs)
		}
	}
}
