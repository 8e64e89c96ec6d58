package engine

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"
)

// newHolder returns 16 random bytes. crypto/rand does not fail: it ends the
// process rather than return weak bytes.
func newHolder() (h Holder) {
	rand.Read(h[:])
	return h
}

// newUUID returns a UUID of version 7 (RFC 9562): 48 bits of Unix
// milliseconds, so that ids made together lie together in an index, and 74
// random bits.
func newUUID() string { return uuidAt(uint64(wallClock().UnixMilli())) }

func uuidAt(milliseconds uint64) string {
	var id [16]byte
	rand.Read(id[6:])
	binary.BigEndian.PutUint32(id[:4], uint32(milliseconds>>16))
	binary.BigEndian.PutUint16(id[4:6], uint16(milliseconds))
	id[6] = id[6]&0x0f | 0x70 // version
	id[8] = id[8]&0x3f | 0x80 // variant
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// newJitter returns a random source for one Dispatcher, seeded unpredictably
// so that workers that start together do not retry together.
func newJitter() func(n int64) int64 {
	var seed [16]byte
	rand.Read(seed[:])
	source := mathrand.New(mathrand.NewPCG(
		binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])))
	return source.Int64N
}

// processName returns "hostname:pid", within what Config.Owner may be.
func processName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown-host"
	}
	host = strings.ReplaceAll(strings.ToValidUTF8(host, "?"), "\x00", "?")
	return fmt.Sprintf("%s:%d", cutRunes(host, 100), os.Getpid())
}
