package protocol

import (
	"encoding/json"
	"hash/fnv"
	"os"
	"testing"
)

// TestLaneVectors reads the vectors that clients in other languages and the
// stores' SQL must agree with. Those up to "chongo was here!" are published by
// the authors of FNV; the others are keys as users have them. If one moved,
// deliveries of one key would be spread over two lanes and lose their order.
func TestLaneVectors(t *testing.T) {
	file, err := os.ReadFile("testdata/lanes.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Key  string
		Hash uint32
		Lane LaneID
		Slot int32
	}
	if err := json.Unmarshal(file, &vectors); err != nil {
		t.Fatal(err)
	}
	if empty := fnv32a(""); empty != 0x811c9dc5 {
		t.Errorf("the empty string hashes to %#x", empty)
	}
	for _, v := range vectors {
		if hash := fnv32a(v.Key); hash != v.Hash {
			t.Errorf("%q hashes to %#x, want %#x", v.Key, hash, v.Hash)
		}
		if lane := LaneOf(0, DefaultLanes, v.Key, "event"); lane != v.Lane {
			t.Errorf("%q has lane %d, want %d", v.Key, lane, v.Lane)
		}
		if lane := LaneOf(3, DefaultLanes, "", v.Key); lane != 3*DefaultLanes+v.Lane {
			t.Errorf("event %q without a key has lane %d in group 3, want %d", v.Key, lane, 3*DefaultLanes+v.Lane)
		}
		if slot := SlotOf(v.Key); slot != v.Slot {
			t.Errorf("%q has slot %d, want %d", v.Key, slot, v.Slot)
		}
	}
}

func FuzzLaneOf(f *testing.F) {
	f.Add("order-1", "e1", uint8(0), uint16(256))
	f.Add("", "e1", uint8(2), uint16(1))
	f.Add("注文", "", uint8(1), uint16(8))
	f.Fuzz(func(t *testing.T, key, event string, group uint8, lanes uint16) {
		modulus := int32(lanes)%1000 + 1
		lane := LaneOf(int32(group), modulus, key, event)
		hashed := key
		if key == "" {
			hashed = event
		}
		h := fnv.New32a()
		h.Write([]byte(hashed))
		if want := LaneID(int32(group)*modulus + int32(h.Sum32()%uint32(modulus))); lane != want {
			t.Errorf("lane %d, want %d", lane, want)
		}
	})
}
