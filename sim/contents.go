package sim

import (
	"fmt"
	"strconv"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// payloadOf returns the payload of a drawn event. It follows from the event's
// index, so that a checker does not depend on memory that others could have
// changed. Now and then it is empty.
func payloadOf(i int) []byte {
	payload := make([]byte, i*7%23)
	for j := range payload {
		payload[j] = byte(i + 31*j)
	}
	return payload
}

// headersOf returns the headers of a drawn event: none to three.
func headersOf(i int) []protocol.Header {
	var headers []protocol.Header
	for j := range i % 4 {
		headers = append(headers, protocol.Header{Name: "h" + strconv.Itoa(j), Value: strconv.Itoa(8*i + j)})
	}
	return headers
}

// contents returns the payload and the headers of an event as they were
// published.
func (w *world) contents(i int) ([]byte, []protocol.Header) {
	if w.plan.recorded != nil {
		m := &w.plan.recorded[i].message
		payload, _ := m.Payload.([]byte)
		return payload, m.Headers
	}
	return payloadOf(i), headersOf(i)
}

// deface writes over what a handler was given: it is the handler's own.
func deface(e *engine.Event[[]byte]) {
	for i := range e.Payload {
		e.Payload[i] ^= 0xff
	}
	for i := range e.Headers {
		e.Headers[i] = protocol.Header{}
	}
}

// signedError is an error that names the run it comes from, so that a text can
// be told from that of another run.
type signedError struct {
	r   *handlerRun
	err error
}

func (e *signedError) Error() string { return fmt.Sprintf("%v: %v", e.r.run.Picked.Lease, e.err) }
func (e *signedError) Unwrap() error { return e.err }

// signed signs an error of the handler itself.
func signed(r *handlerRun, err error) error {
	if err == nil || !r.chosen {
		return err
	}
	return &signedError{r, err}
}
