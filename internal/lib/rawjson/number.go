package rawjson

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Int64 reads a whole number: 1, 1.0 and 1e3, and the same in a string, which is how JSON made from
// protocol buffers writes 64-bit integers. A fraction or a number beyond 64 bits is an error.
func (c *Cursor) Int64() int64 {
	const want = "a 64-bit integer"
	if c.err == nil && c.Kind() == Number {
		if n, end := shortInt(c.data, c.pos); end > 0 {
			c.pos = end
			return n
		}
	}
	text, start, ok := c.numeral(want)
	if !ok {
		return 0
	}
	n, ok := parseInt(text)
	if !ok {
		c.pos = start
		c.fail(want, quoteNumber(text))
	}
	return n
}

// Float64 reads a number, also from a string. A number beyond float64 is an error.
func (c *Cursor) Float64() float64 {
	const want = "a number that fits into 64 bits"
	text, start, ok := c.numeral(want)
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		c.pos = start
		c.fail(want, quoteNumber(text))
		return 0
	}
	return f
}

// beyondFloat64 reports whether a number is larger than any float64.
func beyondFloat64(text []byte) bool {
	const digits = 308 // of the largest, without its exponent
	if len(text) <= digits && !bytes.ContainsAny(text, "eE") {
		return false
	}
	_, err := strconv.ParseFloat(string(text), 64)
	return err != nil
}

func quoteNumber(text []byte) string {
	if len(text) > maxQuote {
		return string(text[:maxQuote]) + "…"
	}
	return string(text)
}

// numeral reads a number or a string that has one inside.
func (c *Cursor) numeral(want string) (text []byte, start int, ok bool) {
	if c.err != nil {
		return nil, 0, false
	}
	kind := c.Kind()
	start = c.pos
	switch kind {
	case Null:
		c.Skip()
		return nil, 0, false
	case Number:
		text = c.Raw()
	case String:
		text = c.text()
	default:
		c.fail(want, kind.String())
		return nil, 0, false
	}
	if end, ok := scanNumber(text, 0); !ok || end != len(text) {
		c.pos = start
		c.fail(want, kind.String()+" "+quoteShort(text))
		return nil, 0, false
	}
	return text, start, true
}

// shortInt reads the number at i and returns where it ends, if it is nothing but a few digits.
// Otherwise end is 0.
func shortInt(data []byte, i int) (n int64, end int) {
	for end = i; end < len(data) && end < i+18 && data[end]-'0' <= 9; end++ {
		n = 10*n + int64(data[end]-'0')
	}
	if end == i || end < len(data) && skipScalar(data[:end+1], end) > end { // more of the number follows
		return 0, 0
	}
	return n, end
}

// parseInt parses a numeral that has the form of a JSON number; ok is false if n would not be
// exact.
func parseInt(text []byte) (n int64, ok bool) {
	if len(text) <= 20 { // longer than any plain int64
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return n, true
		}
	}
	// The value is the digits without their point, times ten to the exponent.
	mantissa, power, _ := bytes.Cut(bytes.ToLower(text), []byte("e"))
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	whole, negative := bytes.CutPrefix(whole, []byte("-"))
	digits := slices.Concat(whole, fraction)
	exponent := parseExponent(power) - len(fraction)

	significant := bytes.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)
	significant = bytes.TrimLeft(significant, "0")
	switch {
	case len(significant) == 0:
		return 0, true
	case exponent < 0 || exponent > 18 || len(significant)+exponent > 19:
		return 0, false
	}
	plain := string(significant) + strings.Repeat("0", exponent)
	if negative {
		plain = "-" + plain
	}
	n, err := strconv.ParseInt(plain, 10, 64)
	return n, err == nil
}

// parseExponent parses the text after the e of a number. Beyond a limit that no count of digits
// reaches it stops counting, as the result does not change any more.
func parseExponent(text []byte) int {
	// Ten times the limit and one more digit fit into an int, also into one of 32 bits.
	const limit = math.MaxInt / 16
	n := 0
	for _, c := range bytes.TrimLeft(text, "+-") {
		n = min(n*10+int(c-'0'), limit)
	}
	if bytes.HasPrefix(text, []byte("-")) {
		return -n
	}
	return n
}
