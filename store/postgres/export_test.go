package postgres

import (
	"maps"
	"strings"
)

// Rewrite replaces a part of a statement in one store, so that a test can stop
// inside of it, or leave a rule out. It reports whether the part was there.
// No call may be under way.
func (s *Store) Rewrite(name, part, instead string) bool {
	text := s.sql.named(name)
	s.sql = maps.Clone(s.sql)
	s.sql[name] = strings.Replace(text, part, instead, 1)
	return strings.Contains(text, part)
}
