package main

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
)

// sayEvery is how often long work reports on an output that is no terminal.
const sayEvery = 5 * time.Second

// progress shows how far long work is; total -1 means that nobody knows.
type progress struct {
	a    *app
	what string
	bar  *progressbar.ProgressBar
	said time.Time
}

func (a *app) progress(what string, total int) *progress {
	p := &progress{a: a, what: what, said: time.Now()}
	if a.draws {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(a.err), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	return p
}

// at says that so much is done.
func (p *progress) at(done int) {
	switch {
	case p.bar != nil:
		_ = p.bar.Set(done)
	case time.Since(p.said) >= sayEvery:
		p.said = time.Now()
		fmt.Fprintf(p.a.err, "%s: %d so far\n", p.what, done)
	}
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
