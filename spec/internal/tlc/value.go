package tlc

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// value is a value of TLA+ as TLC prints it, so far as it is looked into: an
// atom, a set, or a function, of which records and sequences are two kinds.
type value struct {
	kind  byte // 'a' atom, '{' set, '[' record, '<' sequence, '(' other function
	atom  string
	keys  []string // of a record or function, as text
	items []value  // elements, or what the keys map to
}

// Changes tells how a state differs from the one before it, nil for none: a
// line for each part of a variable that changed, with the value that it had. Of
// a first state it tells everything.
func Changes(before, after *State) []string {
	var lines []string
	for _, v := range after.Variables {
		now, err := parseValue(v.Value)
		if err != nil {
			lines = append(lines, v.Name+" = "+v.Value)
			continue
		}
		if before == nil {
			lines = append(lines, now.spread(v.Name)...)
			continue
		}
		if was, err := parseValue(before.valueOf(v.Name)); err == nil {
			lines = append(lines, was.changes(v.Name, &now)...)
		}
	}
	return lines
}

func (s *State) valueOf(name string) string {
	for _, v := range s.Variables {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// spread tells a record a line per field, anything else in one.
func (v *value) spread(path string) []string {
	if v.kind != '[' {
		return []string{path + " = " + v.String()}
	}
	var lines []string
	for i, key := range v.keys {
		lines = append(lines, path+"."+key+" = "+v.items[i].String())
	}
	slices.Sort(lines)
	return lines
}

// changes tells how now differs from v.
func (v *value) changes(path string, now *value) []string {
	switch {
	case v.String() == now.String():
		return nil
	case v.kind == '{' && now.kind == '{':
		lines := missing(path+" without ", v, now)
		return append(lines, missing(path+" with ", now, v)...)
	case v.isFunction() && now.isFunction() && (v.kind == '[') == (now.kind == '['):
		return v.fields(path, now)
	}
	return []string{fmt.Sprintf("%s = %s (was %s)", path, now, v)}
}

func (v *value) isFunction() bool { return v.kind == '[' || v.kind == '<' || v.kind == '(' }

// missing lists the elements of a set that the other lacks.
func missing(lead string, set, other *value) []string {
	var lines []string
	for _, item := range set.items {
		if !slices.ContainsFunc(other.items, func(o value) bool { return o.String() == item.String() }) {
			lines = append(lines, lead+item.String())
		}
	}
	return lines
}

// fields tells how the values of two functions differ.
func (v *value) fields(path string, now *value) []string {
	name := func(key string) string {
		if now.kind == '[' {
			return path + "." + key
		}
		return path + "[" + key + "]"
	}
	var lines []string
	for i, key := range now.keys {
		if j := slices.Index(v.keys, key); j >= 0 {
			lines = append(lines, v.items[j].changes(name(key), &now.items[i])...)
		} else {
			lines = append(lines, name(key)+" = "+now.items[i].String())
		}
	}
	for _, key := range v.keys {
		if !slices.Contains(now.keys, key) {
			lines = append(lines, name(key)+" is gone")
		}
	}
	slices.Sort(lines)
	return lines
}

// String writes the value on one line; sets and records in one order, whatever
// TLC's was.
func (v value) String() string {
	var parts []string
	for i, item := range v.items {
		text := item.String()
		switch v.kind {
		case '[':
			text = v.keys[i] + " |-> " + text
		case '(':
			text = v.keys[i] + " :> " + text
		}
		parts = append(parts, text)
	}
	if v.kind == '{' || v.kind == '[' {
		slices.Sort(parts)
	}
	list := strings.Join(parts, ", ")
	switch v.kind {
	case '{':
		return "{" + list + "}"
	case '[':
		return "[" + list + "]"
	case '<':
		return "<<" + list + ">>"
	case '(':
		return "(" + strings.Join(parts, " @@ ") + ")"
	}
	return v.atom
}

var valueToken = regexp.MustCompile(`^\s*(<<|>>|\|->|:>|@@|"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.-]+|[{}\[\](),])`)

// parseValue reads a whole value.
func parseValue(text string) (value, error) {
	p := &valueParser{rest: text}
	v := p.value()
	if p.err == nil && strings.TrimSpace(p.rest) != "" {
		p.fail("more")
	}
	return v, p.err
}

type valueParser struct {
	rest string
	err  error
}

func (p *valueParser) fail(what string) {
	if p.err == nil {
		p.err = fmt.Errorf("%s at %.20q", what, p.rest)
	}
}

// peek returns the next token.
func (p *valueParser) peek() string {
	if m := valueToken.FindStringSubmatch(p.rest); m != nil {
		return m[1]
	}
	return ""
}

func (p *valueParser) next() string {
	m := valueToken.FindStringSubmatch(p.rest)
	if m == nil {
		p.fail("no value")
		return ""
	}
	p.rest = p.rest[len(m[0]):]
	return m[1]
}

func (p *valueParser) want(token string) {
	if p.next() != token {
		p.fail("no " + token)
	}
}

func (p *valueParser) value() value {
	switch open := p.next(); open {
	case "{":
		return p.list(value{kind: '{'}, "", ",", "}")
	case "<<":
		v := p.list(value{kind: '<'}, "", ",", ">>")
		for i := range v.items {
			v.keys = append(v.keys, fmt.Sprint(i+1))
		}
		return v
	case "[":
		return p.list(value{kind: '['}, "|->", ",", "]")
	case "(":
		return p.list(value{kind: '('}, ":>", "@@", ")")
	case "}", ">>", "]", ")", ",", "|->", ":>", "@@":
		p.fail("no value")
		return value{}
	default:
		return value{kind: 'a', atom: open}
	}
}

// list reads elements up to a closing token; with an arrow each has a key.
func (p *valueParser) list(v value, arrow, separator, end string) value {
	for p.err == nil && p.peek() != end {
		if len(v.items) > 0 {
			p.want(separator)
		}
		if arrow != "" {
			key := p.value()
			v.keys = append(v.keys, key.String())
			p.want(arrow)
		}
		v.items = append(v.items, p.value())
	}
	p.want(end)
	return v
}
