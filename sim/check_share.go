package sim

import "math/bits"

// fairShare checks that no handler takes every slot of a worker: one that hangs
// must not keep the others from running. Of four slots or more one is left for
// each other handler, as far as a quarter of all goes.
type fairShare struct {
	unconcerned
	c *checks
}

func (*fairShare) name() string { return "FairShare" }

func (k *fairShare) started(r *handlerRun) {
	p := r.p
	others := bits.OnesCount32(p.handlers) - 1
	share := p.concurrency() - min(others, p.concurrency()/4)
	if n := p.running(r.handler); n > share {
		k.c.fail(k.name(), k.name(), "%s runs %d times on %s, of %d slots for %d handlers: its share is %d",
			r.handler.name, n, p.worker.short(), p.concurrency(), others+1, share)
	}
}
