package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// What a database's JSON type would change must come back as it was.
var exact = []string{
	`{"z":1,"a":2}`, `{"a":1,"a":2}`, `9007199254740993`, `1e400`, `-0`, ` [1 , 2] `, `"<>&\u2028"`,
	`"\\u0000"`, `"\u0000"`, `"\ud800"`, "\xff\xfe\x00", "\xef\xbb\xbf{}", "", "null",
}

func TestBytesAreKeptExactly(t *testing.T) {
	for _, text := range exact {
		for _, payload := range []any{[]byte(text), json.RawMessage(text)} {
			data, err := encodePayload(JSON{}, payload)
			if err != nil || string(data) != text {
				t.Fatalf("%T %q was encoded as %q, %v", payload, text, data, err)
			}
		}
		var asBytes []byte
		var asRaw json.RawMessage
		must(t, decodePayload(JSON{}, []byte(text), &asBytes))
		must(t, decodePayload(JSON{}, []byte(text), &asRaw))
		if string(asBytes) != text || string(asRaw) != text {
			t.Fatalf("%q was decoded as %q and %q", text, asBytes, asRaw)
		}
	}
}

// A caller that reuses its buffer, or a handler that writes into its payload,
// must not change what others see.
func TestBytesAreCopied(t *testing.T) {
	buffer := []byte("first")
	data, err := encodePayload(JSON{}, buffer)
	must(t, err)
	copy(buffer, "XXXXX")
	var one, two []byte
	must(t, decodePayload(JSON{}, data, &one))
	copy(one, "YYYYY")
	must(t, decodePayload(JSON{}, data, &two))
	if string(two) != "first" {
		t.Fatalf("payload became %q", two)
	}
}

func TestJSONCodec(t *testing.T) {
	type order struct{ ID string }
	data, err := encodePayload(JSON{}, order{"o1"})
	must(t, err)
	var got order
	must(t, decodePayload(JSON{}, data, &got))
	if got.ID != "o1" {
		t.Errorf("got %+v from %s", got, data)
	}
	if data, _ = encodePayload(JSON{}, nil); string(data) != "null" {
		t.Errorf("no payload is %q", data)
	}
	if err := decodePayload(JSON{}, []byte(`{"ID":"a"} trailing`), &got); err == nil {
		t.Error("trailing bytes were ignored")
	}
}

// reversed is a codec of a user's own.
type reversed struct{}

func (reversed) Encode(payload any) ([]byte, error) {
	text, ok := payload.(string)
	if !ok {
		return nil, errors.New("only strings")
	}
	data := []byte(text)
	for i := range len(data) / 2 {
		data[i], data[len(data)-1-i] = data[len(data)-1-i], data[i]
	}
	return data, nil
}

func (r reversed) Decode(data []byte, payload any) error {
	back, err := r.Encode(string(data))
	*payload.(*string) = string(back)
	return err
}

func TestCodecOfTheUser(t *testing.T) {
	data, err := encodePayload(reversed{}, "abc")
	must(t, err)
	if !bytes.Equal(data, []byte("cba")) {
		t.Errorf("encoded as %q", data)
	}
	var text string
	must(t, decodePayload(reversed{}, data, &text))
	if text != "abc" {
		t.Errorf("decoded as %q", text)
	}
}
