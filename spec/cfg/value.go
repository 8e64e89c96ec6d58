package cfg

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is the type of a constant's value.
type Kind int

// The kinds of values.
const (
	Model Kind = iota // a model value: a name that equals only itself
	Int
	Bool
	String
	Set
	Operator // of the module, by its name
)

// Value is the value of a constant.
type Value struct {
	Kind Kind
	// Text is a string without its quotes, or the name of a model value or an
	// operator.
	Text string
	Int  int
	Bool bool
	// Elements are the elements of a set, in the order of the file.
	Elements []Value
}

// atom is the value of one word. What is no number, string or Boolean is a
// model value.
func atom(word string) Value {
	if n, err := strconv.Atoi(word); err == nil {
		return Value{Kind: Int, Int: n}
	}
	if text, ok := strings.CutPrefix(word, `"`); ok {
		return Value{Kind: String, Text: strings.TrimSuffix(text, `"`)}
	}
	if word == "TRUE" || word == "FALSE" {
		return Value{Kind: Bool, Bool: word == "TRUE"}
	}
	return Value{Kind: Model, Text: word}
}

// Reader hands out the constants of a Config and remembers what went wrong, so
// that a twin can read them all and look at one error. The zero value of a
// constant that is missing or of another kind is never used: Err tells.
type Reader struct {
	config Config
	read   []string
	errs   []error
}

// NewReader returns a Reader of the constants of c.
func NewReader(c Config) *Reader { return &Reader{config: c} }

// Int returns a number.
func (r *Reader) Int(name string) int { return r.value(name, Int).Int }

// Bool returns TRUE or FALSE.
func (r *Reader) Bool(name string) bool { return r.value(name, Bool).Bool }

// String returns a string.
func (r *Reader) String(name string) string { return r.value(name, String).Text }

// Operator returns the name of the module's operator that the constant is.
func (r *Reader) Operator(name string) string { return r.value(name, Operator).Text }

// Ints returns a set of numbers, sorted.
func (r *Reader) Ints(name string) []int {
	var numbers []int
	for _, e := range r.elements(name, Int) {
		numbers = append(numbers, e.Int)
	}
	slices.Sort(numbers)
	return numbers
}

// Strings returns a set of strings, sorted.
func (r *Reader) Strings(name string) []string {
	var texts []string
	for _, e := range r.elements(name, String) {
		texts = append(texts, e.Text)
	}
	slices.Sort(texts)
	return texts
}

// Size returns the number of elements of a set of numbers 1..n or of model
// values, which is all that a twin needs of it.
func (r *Reader) Size(name string) int { return len(r.value(name, Set).Elements) }

func (r *Reader) elements(name string, kind Kind) []Value {
	set := r.value(name, Set).Elements
	for _, e := range set {
		if e.Kind != kind {
			r.errs = append(r.errs, fmt.Errorf("constant %s: an element is of another kind than wanted", name))
		}
	}
	return set
}

func (r *Reader) value(name string, kind Kind) Value {
	r.read = append(r.read, name)
	v, given := r.config.Constants[name]
	switch {
	case !given:
		r.errs = append(r.errs, fmt.Errorf("constant %s is missing", name))
	case v.Kind != kind:
		r.errs = append(r.errs, fmt.Errorf("constant %s is of another kind than wanted", name))
	default:
		return v
	}
	return Value{}
}

// Err returns what was wrong with the constants read so far. A constant that
// was given and not read is wrong as well.
func (r *Reader) Err() error {
	errs := slices.Clone(r.errs)
	for name := range r.config.Constants {
		if !slices.Contains(r.read, name) {
			errs = append(errs, fmt.Errorf("constant %s is given, but nothing reads it", name))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
