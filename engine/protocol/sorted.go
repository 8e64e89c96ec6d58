package protocol

import "cmp"

// The State keeps its rows in sorted slices, so that whoever reads all of them
// meets them in one order. The helpers here keep that cheap.

// search returns the place of key in a list sorted by what keyOf returns, or
// the place where it belongs.
func search[T any, K cmp.Ordered](list []T, key K, keyOf func(*T) K) (int, bool) {
	low, high := 0, len(list)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if keyOf(&list[middle]) < key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(list) && keyOf(&list[low]) == key
}

// insertAt is slices.Insert for one element without its variadic slice.
func insertAt[T any](list []T, at int, x T) []T {
	list = append(list, x)
	copy(list[at+1:], list[at:])
	list[at] = x
	return list
}

// nearFront is the length from which removeAt gives up capacity to save work.
const nearFront = 64

// removeAt closes the gap from the nearer end: a backlog is drained from its
// front, and moving all of it for each completion would cost more than the
// rest of the action.
func removeAt[T any](list []T, at int) []T {
	var zero T
	if len(list) >= nearFront && at < len(list)/2 {
		copy(list[1:at+1], list[:at])
		list[0] = zero
		return list[1:]
	}
	copy(list[at:], list[at+1:])
	list[len(list)-1] = zero
	return list[:len(list)-1]
}

func inFlightID(f *InFlight) DeliveryID { return f.Delivery }

func runningID(r *Running) DeliveryID { return r.Delivery }

// entryOf returns the list's entry of a delivery.
func entryOf(list []InFlight, id DeliveryID) (InFlight, bool) {
	i, ok := search(list, id, inFlightID)
	if !ok {
		return InFlight{}, false
	}
	return list[i], true
}

// lists reports whether the list names exactly this delivery and claim.
func lists(list []InFlight, f InFlight) bool {
	have, ok := entryOf(list, f.Delivery)
	return ok && have == f
}

// withEntry adds an entry at its place; an entry of the same delivery is
// replaced, because ids are unique within a list.
func withEntry(list []InFlight, f InFlight) []InFlight {
	i, ok := search(list, f.Delivery, inFlightID)
	if ok {
		list[i] = f
		return list
	}
	return insertAt(list, i, f)
}

// without removes exactly this entry, if it is there.
func without(list []InFlight, f InFlight) []InFlight {
	i, ok := search(list, f.Delivery, inFlightID)
	if !ok || list[i] != f {
		return list
	}
	return append(list[:i], list[i+1:]...)
}

func idOf(id *DeliveryID) DeliveryID { return *id }

// withID adds an id to a sorted set.
func withID(set []DeliveryID, id DeliveryID) []DeliveryID {
	i, ok := search(set, id, idOf)
	if ok {
		return set
	}
	return insertAt(set, i, id)
}

// withoutID removes an id from a sorted set.
func withoutID(set []DeliveryID, id DeliveryID) []DeliveryID {
	i, ok := search(set, id, idOf)
	if !ok {
		return set
	}
	return append(set[:i], set[i+1:]...)
}

// slab hands out zeroed elements from blocks that grow to 64: one allocation
// for many, without burdening a State that holds two rows.
type slab[T any] struct {
	free []T
	size int
}

func (s *slab[T]) take() *T {
	if len(s.free) == 0 {
		s.size = min(64, 2*s.size+1)
		s.free = make([]T, s.size)
	}
	x := &s.free[0]
	s.free = s.free[1:]
	return x
}
