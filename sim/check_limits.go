package sim

// limits checks that no run starts whose attempts are used up: a delivery
// claimed with as many attempts as its limit goes to the dead letters instead.
// Otherwise one that kills its worker would kill workers for ever; so it also
// counts the deaths: one more than the limit may happen, inside a chain.
type limits struct {
	unconcerned
	c *checks
}

func (*limits) name() string { return "LimitKept" }

func (k *limits) started(r *handlerRun) {
	if row := &r.run.Picked.Delivery; int(row.Attempts) >= r.handler.maxAttempts {
		k.c.fail(k.name(), k.name(), "%s of %s starts with %d attempts, its limit is %d", row.Handler, row.Event, row.Attempts, r.handler.maxAttempts)
	}
}

// killed judges the deaths that a delivery has caused since its last requeue.
func (k *limits) killed(r *handlerRun) {
	deaths, life := 0, 0
	for _, x := range k.c.kills {
		if x.void || x.lease.Delivery != r.run.Picked.Lease.Delivery {
			continue
		}
		if x.life != life {
			deaths, life = 0, x.life
		}
		deaths++
	}
	if deaths > r.handler.maxAttempts+1 {
		k.c.fail(k.name(), k.name(), "%s of %s killed its worker %d times, its limit is %d", r.handler.name, r.run.Picked.Delivery.Event, deaths, r.handler.maxAttempts)
	}
}
