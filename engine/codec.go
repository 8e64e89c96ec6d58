package engine

import (
	"bytes"
	"encoding/json"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// Codec turns payloads into bytes and back. It is called from many goroutines.
//
// Payloads of type []byte and [json.RawMessage] never meet the codec: their
// bytes are published and delivered exactly as they are.
type Codec interface {
	// Encode returns the bytes of a payload.
	Encode(payload any) ([]byte, error)
	// Decode reads data into payload, a non-nil pointer. An error ends the
	// attempt as failed.
	Decode(data []byte, payload any) error
}

// JSON is the default codec: encoding/json.
type JSON struct{}

// Encode implements [Codec].
func (JSON) Encode(payload any) ([]byte, error) { return json.Marshal(payload) }

// Decode implements [Codec].
func (JSON) Decode(data []byte, payload any) error { return json.Unmarshal(data, payload) }

// encodePayload copies bytes, so that the caller may reuse them.
func encodePayload(c Codec, payload any) ([]byte, error) {
	switch p := payload.(type) {
	case []byte:
		return bytes.Clone(p), nil
	case json.RawMessage:
		return bytes.Clone(p), nil
	}
	return c.Encode(payload)
}

// decodePayload copies bytes, because several handlers may share data.
func decodePayload(c Codec, data []byte, payload any) error {
	switch p := payload.(type) {
	case *[]byte:
		if mutant.On("payload-shared") {
			*p = data
			return nil
		}
		*p = bytes.Clone(data)
		return nil
	case *json.RawMessage:
		*p = bytes.Clone(data)
		return nil
	}
	return c.Decode(data, payload)
}
