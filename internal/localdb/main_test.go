package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
)

func TestBadInput(t *testing.T) {
	for _, args := range [][]string{nil, {"postgres"}, {"postgres", "3"}, {"mysql", "15"}, {"postgres", "15", "16"}} {
		var out, problems bytes.Buffer
		if code := run(args, strings.NewReader(""), &out, &problems); code != 2 || strings.Count(problems.String(), "\n") != 1 || out.Len() > 0 {
			t.Errorf("%q: exit %d, %q, %q; want 2 and one sentence", args, code, out.String(), problems.String())
		}
	}
}

// TestServes: the server answers while standard input is open, and no longer.
func TestServes(t *testing.T) {
	in, feed := io.Pipe()
	line, out := io.Pipe()
	ended := make(chan int)
	var problems bytes.Buffer
	go func() {
		ended <- run([]string{"postgres", "newest"}, in, out, &problems)
		_ = out.Close()
	}()
	text, err := bufio.NewReader(line).ReadString('\n')
	if err != nil {
		t.Fatalf("no server: %s", problems.String())
	}
	t.Log(text)
	where, _, _ := strings.Cut(text, " ")
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", u.Host); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	_ = feed.Close()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d: %s", code, problems.String())
	}
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		_ = conn.Close()
		t.Error("the server answers after the end of standard input")
	}
}
