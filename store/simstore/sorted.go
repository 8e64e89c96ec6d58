package simstore

import "sort"

// sorted is a list in order. Inserting and removing move the shorter side, so
// that a queue of any length is cheap at both ends.
type sorted[T any] struct {
	items []T
	less  func(a, b T) bool
}

// search returns where x stands or would stand.
func (s *sorted[T]) search(x T) int {
	n := len(s.items)
	if n == 0 || s.less(s.items[n-1], x) {
		return n // most inserts go to the end
	}
	return sort.Search(n, func(i int) bool { return !s.less(s.items[i], x) })
}

// insert puts x in its place.
func (s *sorted[T]) insert(x T) {
	i := s.search(x)
	var zero T
	s.items = append(s.items, zero)
	copy(s.items[i+1:], s.items[i:])
	s.items[i] = x
}

// remove takes x out, which must be there.
func (s *sorted[T]) remove(x T) {
	i := s.search(x)
	var zero T
	if i < len(s.items)/2 {
		copy(s.items[1:i+1], s.items[:i])
		s.items[0] = zero
		s.items = s.items[1:]
		return
	}
	copy(s.items[i:], s.items[i+1:])
	s.items[len(s.items)-1] = zero
	s.items = s.items[:len(s.items)-1]
}
