package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"
)

// drained is what working off a backlog showed.
type drained struct {
	rate       float64 // deliveries per second, the first tenth and the last left out
	statements int64
	before     counters
	after      counters
}

// drain starts workers on n preloaded events and waits until the last one is
// gone. It reports to the result what is not as promised.
func (r *run) drain(ctx context.Context, p *place, jobs []job, n int, key func(int) string) (d drained, err error) {
	_, _ = r.admin.Exec(ctx, "checkpoint") // so that full-page images count, where the right to it is had
	if d.before, err = r.quiet(ctx, p); err != nil {
		return d, err
	}
	crew, err := r.hire(ctx, jobs)
	if err != nil {
		return d, err
	}
	emptied := p.waitEmpty(ctx)
	reports, err := crew.dismiss(ctx)
	if err = errors.Join(emptied, err); err != nil {
		return d, err
	}
	if d.after, err = r.quiet(ctx, p); err != nil {
		return d, err
	}
	d.rate = r.judge(reports, 0, n, key)
	for _, one := range reports {
		d.statements += one.Statements
	}
	return d, nil
}

// quiet reads the counters once the server has noted what was done: it does so
// with a delay.
func (r *run) quiet(ctx context.Context, p *place) (counters, error) {
	if err := sleep(ctx, 1200*time.Millisecond); err != nil {
		return counters{}, err
	}
	return p.counters(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitEmpty waits until no delivery that is due is left.
func (p *place) waitEmpty(ctx context.Context) error {
	for {
		var left bool
		err := p.admin.QueryRow(ctx, fmt.Sprintf(`select exists (select from %[1]q.deliveries d where status = 0 and key is null)
			or exists (select from %[1]q.deliveries d where status = 0 and key is not null and available_at <= now()
			  and not exists (select from %[1]q.deliveries f where f.lane = d.lane and f.key = d.key and f.status = 0 and f.available_at > now()))`, p.schema)).Scan(&left)
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		if !left {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// judge holds what the workers saw against what was published, events first to
// last−1, and returns the rate.
func (r *run) judge(reports []report, first, last int, key func(int) string) float64 {
	var all []sighting
	for _, one := range reports {
		newest := map[string]int{}
		for _, s := range one.Runs {
			if k := key(s.Event); k != "" {
				if before, seen := newest[k]; seen && before >= s.Event {
					r.fault("event %d of key %q ran after event %d", s.Event, k, before)
				}
				newest[k] = s.Event
			}
		}
		all = append(all, one.Runs...)
	}
	times := make(map[int]int, last-first)
	for _, s := range all {
		times[s.Event]++
	}
	for i := first; i < last; i++ {
		if times[i] != 1 {
			r.fault("event %d was handled %d times", i, times[i])
		}
		delete(times, i)
	}
	if len(times) > 0 {
		r.fault("%d events were handled that were not published", len(times))
	}
	return rate(all)
}

// rate is the runs per second of a worker's or several workers' sightings.
func rate(all []sighting) float64 {
	times := make([]int64, len(all))
	for i := range all {
		times[i] = all[i].At
	}
	return Rate(times)
}

// Rate returns how many things per second happened between the first tenth and
// the last of the times given (Unix nanoseconds), which it sorts.
func Rate(times []int64) float64 {
	if len(times) < 10 {
		return 0
	}
	slices.Sort(times)
	from, to := len(times)/10, len(times)*9/10
	took := time.Duration(times[to] - times[from])
	if took <= 0 {
		return 0
	}
	return float64(to-from) / took.Seconds()
}

// crew are workers at work, in this process or in processes of their own.
type crew struct {
	here  []*worker
	there []*exec.Cmd
	ends  []io.WriteCloser
	said  []*bytes.Buffer
}

// hire starts a worker per job: the only one here, several in processes.
func (r *run) hire(ctx context.Context, jobs []job) (*crew, error) {
	c := &crew{}
	if len(jobs) == 1 {
		w, err := startWorker(ctx, jobs[0])
		c.here = append(c.here, w)
		return c, err
	}
	if len(r.o.Worker) == 0 {
		return nil, fmt.Errorf("bench: several processes need a command that runs a worker")
	}
	for _, j := range jobs {
		cmd := exec.CommandContext(ctx, r.o.Worker[0], r.o.Worker[1:]...)
		said := &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = said, os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, fmt.Errorf("bench: worker: %w", err)
		}
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("bench: worker: %w", err)
		}
		c.there, c.ends, c.said = append(c.there, cmd), append(c.ends, in), append(c.said, said)
		if err := json.NewEncoder(in).Encode(j); err != nil {
			return nil, fmt.Errorf("bench: worker: %w", err)
		}
	}
	return c, nil
}

// dismiss stops the workers and returns what they saw.
func (c *crew) dismiss(ctx context.Context) (reports []report, err error) {
	for _, w := range c.here {
		one, failed := w.stop(ctx)
		reports, err = append(reports, one), errors.Join(err, failed)
	}
	for _, in := range c.ends {
		err = errors.Join(err, in.Close())
	}
	for i, cmd := range c.there {
		if failed := cmd.Wait(); failed != nil {
			err = errors.Join(err, fmt.Errorf("bench: worker: %w", failed))
			continue
		}
		var one report
		err = errors.Join(err, json.Unmarshal(c.said[i].Bytes(), &one))
		reports = append(reports, one)
	}
	return reports, err
}
