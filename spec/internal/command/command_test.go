package command

import (
	"bytes"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		ok   bool
		says string // at the beginning; "" for nothing
	}{
		{[]string{"-n", "3", "x"}, Expected, true, ""},
		{[]string{"-h"}, Expected, false, "usage: go run ./spec/p NAME ...\n  -n number\n"},
		{[]string{"-m"}, Unable, false, "p: flag provided but not defined: -m; -h lists the flags\n"},
		{[]string{"-n", "x"}, Unable, false, `p: invalid value "x" for flag -n`},
	} {
		var out bytes.Buffer
		f := New("p", "NAME ...", &out)
		n := f.Int("n", 0, "how `number`")
		code, ok := f.Read(c.args)
		if code != c.code || ok != c.ok || !strings.HasPrefix(out.String(), c.says) || c.says == "" && out.Len() > 0 {
			t.Errorf("%q: %d, %v, %q", c.args, code, ok, &out)
		}
		if ok && (*n != 3 || f.Arg(0) != "x") {
			t.Errorf("%q: n is %d, the arguments %q", c.args, *n, f.Args())
		}
	}
}
