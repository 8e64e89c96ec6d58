package protocol

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Holder is 16 random bytes that each bus instance makes when it starts. It
// is never reused and never read back from the store: (holder, claim) is what
// no lost commit can issue twice.
type Holder [16]byte

// IsZero reports whether h names nobody.
func (h Holder) IsZero() bool { return h == Holder{} }

// Short returns the first four bytes in hexadecimal, enough for a log line.
func (h Holder) Short() string { return hex.EncodeToString(h[:4]) }

// String returns all sixteen bytes in hexadecimal.
func (h Holder) String() string { return hex.EncodeToString(h[:]) }

// Token is the proof that a lane was granted: what the store compares before
// it accepts the end of a run. Epoch alone is not enough, because a store that
// loses a commit may issue an epoch again.
type Token struct {
	Lane   LaneID
	Epoch  int64
	Holder Holder
	Claim  int64
}

// String returns "lane:epoch:claim@holder" with the short holder.
func (t Token) String() string {
	return fmt.Sprintf("%d:%d:%d@%s", t.Lane, t.Epoch, t.Claim, t.Holder.Short())
}

// MarshalText returns the exact form "lane:epoch:claim@holder" with all bytes
// of the holder. [Token.UnmarshalText] reads it back.
func (t Token) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d:%d:%d@%s", t.Lane, t.Epoch, t.Claim, t.Holder), nil
}

// UnmarshalText reads the form MarshalText writes and refuses every other
// spelling of the same token.
func (t *Token) UnmarshalText(text []byte) error {
	numbers, holder, ok := strings.Cut(string(text), "@")
	parts := strings.Split(numbers, ":")
	if !ok || len(parts) != 3 || len(holder) != 2*len(t.Holder) {
		return fmt.Errorf("token %q: want lane:epoch:claim@holder", text)
	}
	lane, errLane := strconv.ParseInt(parts[0], 10, 32)
	epoch, errEpoch := strconv.ParseInt(parts[1], 10, 64)
	claim, errClaim := strconv.ParseInt(parts[2], 10, 64)
	var read Token
	_, errHolder := hex.Decode(read.Holder[:], []byte(holder))
	if errLane != nil || errEpoch != nil || errClaim != nil || errHolder != nil {
		return fmt.Errorf("token %q: want three numbers and 32 hexadecimal digits", text)
	}
	read.Lane, read.Epoch, read.Claim = LaneID(lane), epoch, claim
	if canonical, _ := read.MarshalText(); string(canonical) != string(text) {
		return fmt.Errorf("token %q: not in canonical form", text)
	}
	*t = read
	return nil
}

// Lease is a delivery as one run of it was granted.
type Lease struct {
	Delivery DeliveryID
	Token
	// After names the delivery before this one in its chain; 0 for a head and
	// for a delivery that came alone.
	After DeliveryID
	// Fence is the row's fence when it was picked (Snapshot stores).
	Fence int32
}

// String returns "delivery lane:epoch:claim@holder".
func (l Lease) String() string { return fmt.Sprintf("#%d %s", l.Delivery, l.Token) }

// Entry returns the lane entry that backs the lease.
func (l Lease) Entry() InFlight { return InFlight{Delivery: l.Delivery, Claim: l.Claim} }
