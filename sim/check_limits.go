package sim

// limits checks that no run starts whose attempts are used up: a delivery
// claimed with as many attempts as its limit goes to the dead letters instead.
// Otherwise one that kills its worker would kill workers for ever.
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
