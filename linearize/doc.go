// Package linearize judges a store from outside: from what its callers asked,
// what they were told and when. It holds one sequential model per promise,
// written from the protocol's specification alone and without a look at the
// code that implements it, and asks porcupine whether some order of the calls
// explains every answer.
//
//	h := linearize.NewHistory(linearize.Locking)
//	call := h.Begin(worker, clock(), in)       // in is an engine.ClaimInput, …
//	reply, err := store.Claim(ctx, in)
//	call.End(clock(), reply, err)
//	…
//	report := linearize.Check(h, time.Minute)
//	if !report.OK() {
//		fmt.Println(report)                // which answer no order explains, and why
//		linearize.WriteHTML(file, report)  // a picture of it
//	}
//
// [Observe] wraps a store so that every call is recorded without more ado.
//
// # What is guaranteed
//
// A history that a correct store can produce is accepted: no false alarm. The
// five models and what each does not look at stand at the head of their files:
// lanes.go (lane ownership), atleastonce.go, effectivelyonce.go, keyorder.go
// and attempts.go.
//
// # Calls whose outcome is unknown
//
// A call without an answer stays open to the end of the history: it may take
// effect at any moment from its beginning on, or never. A model therefore
// works on sets of possible states: an open call joins the calls that may
// still take effect, and before each answer is judged those that can take
// effect are tried, each at most once. A claim is open only for as long as its
// not-after allows.
//
// # What is assumed
//
// The history begins with an empty store: no events, and lanes that nobody
// holds at epoch 0. Times come from one clock, or a counter, that every client
// reads; a call's interval contains the moment at which it took effect. The
// store's clock, as replies tell it, does not go back.
//
// # What is not done
//
// Progress: that due work is claimed some day. Refusals of an end of a run
// (LeaseLost) are taken as they are, for they depend on lane and row at once;
// the models look only at what was accepted. Partitions are judged one by one,
// so atomicity across lanes, deliveries or keys is not.
package linearize
