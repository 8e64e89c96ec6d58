// Package cfg reads TLC's configuration files, in the shapes that those of
// spec/tla use, so that a module and its Go twin are given the same constants
// by the same file, and whoever asks what a file checks is told the same.
//
// Constants may be numbers, strings, TRUE and FALSE, model values, and sets of
// these. SYMMETRY, CONSTRAINT and ACTION_CONSTRAINT, which would change what is
// explored, are refused.
package cfg

import (
	"fmt"
	"os"
	"slices"
)

// Config is one configuration file.
type Config struct {
	// Specification is the temporal formula that TLC is given; empty if none.
	Specification string
	// Constants are the values given to the module's constants.
	Constants map[string]Value
	// Invariants and Properties are what TLC checks, in the order of the file.
	Invariants, Properties []string
	// View is the operator whose values TLC tells states apart by; empty if none.
	View string
	// CheckDeadlock is TRUE unless the file says otherwise, as in TLC.
	CheckDeadlock bool
}

// Checks lists the invariants and properties that TLC checks.
func (c *Config) Checks() []string { return slices.Concat(c.Invariants, c.Properties) }

// Read parses the file at path.
func Read(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(string(text))
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse parses the text of a configuration file.
func Parse(text string) (Config, error) {
	words, err := scan(text)
	if err != nil {
		return Config{}, err
	}
	p := parser{words: words, config: Config{Constants: map[string]Value{}, CheckDeadlock: true}}
	for len(p.words) > 0 && p.err == nil {
		p.statement()
	}
	return p.config, p.err
}

type parser struct {
	words  []string
	config Config
	err    error
}

func (p *parser) statement() {
	switch keyword := p.next(); keyword {
	case "SPECIFICATION":
		p.config.Specification = p.name()
	case "CONSTANT", "CONSTANTS":
		for p.atName() {
			p.constant()
		}
	case "INVARIANT", "INVARIANTS":
		p.config.Invariants = append(p.config.Invariants, p.names()...)
	case "PROPERTY", "PROPERTIES":
		p.config.Properties = append(p.config.Properties, p.names()...)
	case "VIEW":
		p.config.View = p.name()
	case "CHECK_DEADLOCK":
		p.config.CheckDeadlock = p.next() == "TRUE"
	default:
		p.fail("%q: not a statement that this repository's configurations use", keyword)
	}
}

func (p *parser) constant() {
	name := p.name()
	if _, twice := p.config.Constants[name]; twice {
		p.fail("constant %s is given twice", name)
	}
	switch word := p.next(); word {
	case "=":
		p.config.Constants[name] = p.value()
	case "<-": // an operator of the module stands for the constant
		p.config.Constants[name] = Value{Kind: Operator, Text: p.name()}
	default:
		p.fail("constant %s: want = or <-, found %q", name, word)
	}
}

func (p *parser) value() Value {
	word := p.next()
	if word != "{" {
		return atom(word)
	}
	set := Value{Kind: Set}
	for p.err == nil && p.peek() != "}" {
		if len(set.Elements) > 0 && p.next() != "," {
			p.fail("a set: want , or } behind element %d", len(set.Elements))
		}
		set.Elements = append(set.Elements, p.value())
	}
	p.next()
	return set
}

func (p *parser) names() []string {
	var names []string
	for p.atName() {
		names = append(names, p.next())
	}
	return names
}

func (p *parser) name() string {
	if !p.atName() {
		p.fail("want a name, found %q", p.peek())
	}
	return p.next()
}

func (p *parser) atName() bool {
	word := p.peek()
	return p.err == nil && word != "" && isLetter(word[0]) && !keywords[word]
}

// peek returns the next word, empty at the end.
func (p *parser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *parser) next() string {
	word := p.peek()
	if word == "" {
		p.fail("the file ends in the middle of a statement")
		return ""
	}
	p.words = p.words[1:]
	return word
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}
