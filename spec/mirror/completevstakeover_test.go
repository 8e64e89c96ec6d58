package mirror

import "testing"

// Of these three no configuration refutes two, so that one which always holds
// would not be noticed.
func TestCompleteVsTakeoverCanBreak(t *testing.T) {
	m := completeVsTakeover{maxDeliveries: 2, maxNumber: 3, transactional: true}
	both, once, none := m.deliveries(), []uint8{1, 0}, []uint8{0, 0}
	for _, c := range []struct {
		story       string
		holds, want bool
	}{
		{"all there", m.nothingLost(both, none), true},
		{"the first completed", m.nothingLost(both&^2, once), true},
		{"the second gone", m.nothingLost(both&^4, once), false},
		{"an effect for a completion", m.atMostOnce(once, once), true},
		{"a completion without its effect", m.atMostOnce(once, none), false},
		{"completed twice", m.atMostOnce([]uint8{0, 2}, []uint8{0, 2}), false},
		{"at the bounds", m.wellFormed(6, 2, 3, [2]uint8{3, 3}, both), true},
		{"an epoch too high", m.wellFormed(7, 2, 3, [2]uint8{3, 3}, both), false},
		{"a third holder", m.wellFormed(6, 3, 3, [2]uint8{3, 3}, both), false},
		{"a number too high", m.wellFormed(6, 2, 3, [2]uint8{3, 4}, both), false},
		{"a delivery that was never published", m.wellFormed(6, 2, 3, [2]uint8{3, 3}, both|8), false},
	} {
		if c.holds != c.want {
			t.Errorf("%s: %v, want %v", c.story, c.holds, c.want)
		}
	}
}
