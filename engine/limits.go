package engine

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// What a message may measure. A value outside is refused with an error that
// wraps [ErrInvalid] before anything is written. The limits keep index rows,
// notifications and documents inside what every store can hold.
const (
	// MaxPayload bounds an encoded payload, in bytes. Larger things belong in
	// a table or an object store, with a reference in the event.
	MaxPayload = 1 << 20
	// MaxID bounds an event id, in bytes.
	MaxID = 512
	// MaxKey bounds a key, in bytes.
	MaxKey = 512
	// MaxName bounds event types, handler names, group and owner names and
	// header names, in bytes.
	MaxName = 128
	// MaxHeaders bounds the number of headers of one event.
	MaxHeaders = 64
	// MaxHeaderValue bounds the value of one header, in bytes.
	MaxHeaderValue = 8 << 10
	// MaxErrorText bounds the error text kept on a delivery, in bytes. It is
	// cut, never refused.
	MaxErrorText = 8 << 10
)

// The bounds of every delay that a handler or a retry policy asks for. A
// delay outside is moved to the nearer bound: the positive minimum keeps a
// delivery that fails at once from spinning, and the maximum keeps the due
// time storable.
const (
	MinDelay = time.Millisecond
	MaxDelay = 365 * 24 * time.Hour
)

func clampDelay(d time.Duration) time.Duration { return min(max(d, MinDelay), MaxDelay) }

// invalid returns an error that wraps ErrInvalid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// checkName refuses a text that is empty, too long, or holds what some store
// cannot: NUL or invalid UTF-8. what names the text in the error.
func checkName(what, text string, limit int) error {
	if text == "" {
		return invalid("%s is empty", what)
	}
	return checkText(what, text, limit)
}

func checkText(what, text string, limit int) error {
	if len(text) > limit {
		return invalid("%s has %d bytes, at most %d are allowed", what, len(text), limit)
	}
	if !utf8.ValidString(text) {
		return invalid("%s %q is not valid UTF-8", what, text)
	}
	if strings.IndexByte(text, 0) >= 0 {
		return invalid("%s %q contains a NUL character", what, text)
	}
	return nil
}

// isNil reports whether v is nil, also as a nil pointer within an interface.
func isNil(v any) bool {
	value := reflect.ValueOf(v)
	return !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil()
}

const cutMark = " …(cut)"

// CleanText returns text as every store can keep it: valid UTF-8, without
// NUL, at most [MaxErrorText] bytes. What cannot be kept becomes U+FFFD, and
// text that was cut says so at its end. Clean text is returned as it is.
func CleanText(text string) string {
	cut := len(text) > MaxErrorText
	if cut {
		text = text[:MaxErrorText] // before the work below: it may be huge
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if !cut && len(text) <= MaxErrorText {
		return text
	}
	return cutRunes(text, MaxErrorText-len(cutMark)) + cutMark
}

// cutRunes returns the longest prefix of at most limit bytes that does not
// split a character.
func cutRunes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
