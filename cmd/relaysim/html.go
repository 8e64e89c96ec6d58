package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/relaybus-go/relaybus/linearize"
	"github.com/relaybus-go/relaybus/sim"
)

// checkHTML refuses what -html cannot draw, before anything is run.
func (s *settings) checkHTML() error {
	if s.html == "" {
		return nil
	}
	if len(s.replay) > 0 {
		return errors.New("-html draws the history of a seed: it does not go with -replay")
	}
	if info, err := os.Stat(filepath.Dir(s.html)); err != nil || !info.IsDir() {
		return fmt.Errorf("-html: %s is not a folder", filepath.Dir(s.html))
	}
	if info, err := os.Stat(s.html); err == nil && info.IsDir() {
		return fmt.Errorf("-html: %s is a folder", s.html)
	}
	return nil
}

// draw writes the picture of a seed's history, which is recorded anew where it
// was not, and says what it did.
func (s *settings) draw(out io.Writer, rep *sim.Report) error {
	if s.html == "" {
		return nil
	}
	h := rep.History
	if h == nil {
		o := s.options
		o.Seed, o.Histories = rep.Seed, true
		again := sim.One(o)
		h = again.History
	}
	if h.Status() != linearize.Illegal {
		fmt.Fprintf(out, "  nothing was drawn: the history of seed %d is not illegal (%s)\n", rep.Seed, h)
		return nil
	}
	file, err := os.Create(s.html)
	if err != nil {
		return err
	}
	err = linearize.WriteHTML(file, h.Report)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	fmt.Fprintf(out, "  %s shows the illegal history of seed %d\n", s.html, rep.Seed)
	return nil
}
