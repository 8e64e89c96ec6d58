package protocol

// DefaultLanes is the number of lanes of a group in production. The simulator
// sets a smaller modulus so that deliveries meet.
const DefaultLanes = 256

// Slots is the number of key slots. A publisher locks the slots of its keys
// and draws each sequence while it holds them, so that sequence order is
// commit order per key.
const Slots = 65536

// fnv32a is FNV-1a with 32 bits (offset basis 2166136261, prime 16777619), as
// specified by Fowler, Noll and Vo. It is written out because stores compute
// it in SQL and in clients of other languages too.
func fnv32a(s string) uint32 {
	h := uint32(2166136261)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// LaneOf returns the lane of a delivery: group × lanes + FNV-1a-32 modulo
// lanes, of the key, or of the event id when there is no key. All deliveries
// of one key and group share a lane.
func LaneOf(group int32, lanes int32, key, event string) LaneID {
	if key == "" {
		key = event
	}
	return LaneID(group*lanes + int32(fnv32a(key)%uint32(lanes)))
}

// SlotOf returns the key slot of a key.
func SlotOf(key string) int32 { return int32(fnv32a(key) % Slots) }
