package protocol

import (
	"strings"
	"testing"
)

var sampleToken = Token{Lane: 97, Epoch: 2, Holder: Holder{0xab, 0x12, 15: 0xff}, Claim: 14}

const sampleText = "97:2:14@ab1200000000000000000000000000ff"

func TestTokenText(t *testing.T) {
	text, err := sampleToken.MarshalText()
	if err != nil || string(text) != sampleText {
		t.Fatalf("%s, %v", text, err)
	}
	var back Token
	if err := back.UnmarshalText(text); err != nil || back != sampleToken {
		t.Fatalf("%v, %v", back, err)
	}
	if short := sampleToken.String(); short != "97:2:14@ab120000" {
		t.Errorf("short form %s", short)
	}
}

// TestTokenRefusesOtherSpellings: a token is compared as text in logs and
// traces, so that one token must have one spelling.
func TestTokenRefusesOtherSpellings(t *testing.T) {
	holder := sampleText[strings.Index(sampleText, "@"):]
	for _, text := range []string{
		"", "97:2:14", sampleText + "0", strings.ToUpper(sampleText),
		"097:2:14" + holder, "+97:2:14" + holder, "97:2" + holder, "97:2:14:1" + holder,
		"97:2:1_4" + holder, "97: 2:14" + holder, "2147483648:2:14" + holder,
		"97:2:9223372036854775808" + holder, "-0:2:14" + holder, "97:2:14@" + strings.Repeat("g", 32),
	} {
		token := sampleToken
		if err := token.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, token)
		}
		if token != sampleToken {
			t.Errorf("%q is refused and yet changed the token", text)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add(sampleText)
	f.Add("-1:-2:-3@ab1200000000000000000000000000ff")
	f.Add("0:0:0@00000000000000000000000000000000")
	f.Add("97:2:14@")
	f.Add(":::@")
	f.Fuzz(func(t *testing.T, text string) {
		var token Token
		if token.UnmarshalText([]byte(text)) != nil {
			return
		}
		if back, err := token.MarshalText(); err != nil || string(back) != text {
			t.Errorf("%q is read as %v and written as %q, %v", text, token, back, err)
		}
	})
}
