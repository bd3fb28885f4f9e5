package rawjson

import (
	"math/rand/v2"
	"testing"
)

// Blocks of bytes that matter, in all neighbourhoods, against the plainest way to find them: one byte after the other.
func TestMarksAgreeWithLookingAtEachByte(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	alphabet := "\"\\\\\\\\/bfnrtuxyz{ \x00\x1f\x20\x7f\x80\xc3\xff"
	for range 20_000 {
		var b [64]byte
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
			if random.IntN(4) == 0 {
				b[i] = byte(random.IntN(256))
			}
		}
		carry := random.Uint64() & 1
		var want marks
		var wantEscaped uint64
		after := carry == 1
		for i, c := range b {
			bit := uint64(1) << i
			switch {
			case c == '"':
				want.quotes |= bit
			case c == '\\':
				want.backslashes |= bit
			case c < ' ' || c >= 0x80:
				want.others |= bit
			}
			if after {
				wantEscaped |= bit
				if simpleEscape[c] {
					want.short |= bit
				}
			}
			after = c == '\\' && !after
		}
		for name, mark := range waysToMark() {
			got := marks{1, 1, 1, 1}
			mark(&b, &got)
			escaped, next := got.escaped(carry)
			got.short &= escaped
			if got != want || escaped != wantEscaped || next == 1 != after {
				t.Fatalf("%s(%q), carry %d:\n got %016x, escaped %016x, next %d\nwant %016x, escaped %016x, next %v", name, b[:], carry, got, escaped, next, want, wantEscaped, after)
			}
		}
	}
}
