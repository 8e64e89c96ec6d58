package engine

import (
	"context"
	"slices"
)

// The headers of W3C Trace Context. They are reserved for that: what publishes
// inside a trace sets them (a [PublishMiddleware] is the place), and what a
// handler publishes carries those of the event it handles, unless the message
// or [WithHeaders] says otherwise.
const (
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
)

type headersKey struct{}

// WithHeaders returns a context whose headers every message carries that is
// published with it. A header of the same name replaces that of ctx; the
// message's own replace both. They are checked like the message's own, and
// left out of a message that has [MaxHeaders] already.
func WithHeaders(ctx context.Context, headers ...Header) context.Context {
	return context.WithValue(ctx, headersKey{}, merge(headers, HeadersFrom(ctx)))
}

// WithoutHeaders returns a context that carries no headers: what a handler
// publishes with it starts a trace of its own.
func WithoutHeaders(ctx context.Context) context.Context {
	return context.WithValue(ctx, headersKey{}, []Header(nil))
}

// HeadersFrom returns the headers that messages published with ctx carry: in
// a handler the event's [HeaderTraceParent] and [HeaderTraceState], and what
// [WithHeaders] added. The caller must not change them.
func HeadersFrom(ctx context.Context) []Header {
	headers, _ := ctx.Value(headersKey{}).([]Header)
	return headers
}

// merge returns own and, of others, those with a name that own lacks.
func merge(own, others []Header) []Header {
	merged := slices.Clip(own)
	for _, h := range others {
		if len(merged) < MaxHeaders && !hasHeader(own, h.Name) {
			merged = append(merged, h)
		}
	}
	return merged
}

func hasHeader(headers []Header, name string) bool {
	return slices.ContainsFunc(headers, func(h Header) bool { return h.Name == name })
}

// traceOf returns the headers of the event that what follows from it inherits.
func traceOf(headers []Header) []Header {
	var trace []Header
	for _, h := range headers {
		if h.Name == HeaderTraceParent || h.Name == HeaderTraceState {
			trace = append(trace, h)
		}
	}
	return trace
}
