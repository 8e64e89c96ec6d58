package sim

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// fingerprint is a running FNV-1a with 64 bits over everything a run decided:
// every choice, clock reading and event. Two runs with one fingerprint took
// the same steps.
type fingerprint uint64

// add mixes the eight bytes of x, lowest first.
func (f *fingerprint) add(x uint64) {
	h := uint64(*f)
	for range 8 {
		h = (h ^ (x & 0xff)) * fnvPrime
		x >>= 8
	}
	*f = fingerprint(h)
}
