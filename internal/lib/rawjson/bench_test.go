package rawjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"perigee/internal/lib/rawjson"
)

// BenchmarkCheck shows the speed on agent requests and that it does not depend on their size.
func BenchmarkCheck(b *testing.B) {
	for _, size := range []int{10 << 10, 100 << 10, 1 << 20, 10 << 20, 50 << 20} {
		data := agentBody(size)
		b.Run(fmt.Sprintf("%dKB", len(data)>>10), func(b *testing.B) { benchmarkCheck(b, data) })
	}
}

func BenchmarkCheckUnusual(b *testing.B) {
	var keys, escaped strings.Builder
	for i := range 250_000 {
		fmt.Fprintf(&keys, `"key%d":1,`, i)
		fmt.Fprintf(&escaped, `"\u006bey%d":1,`, i)
	}
	for name, text := range map[string]string{
		"many keys":         "{" + strings.TrimSuffix(keys.String(), ",") + "}",
		"many escaped keys": "{" + strings.TrimSuffix(escaped.String(), ",") + "}",
		"chinese":           `"` + strings.Repeat("中文字符测试文本", 1<<16) + `"`,
		"base64":            `"` + strings.Repeat("iVBORw0KGgoAAAANSUhEUgAA", 1<<16) + `"`,
		"numbers":           "[" + strings.Repeat("-0.0123456,", 1<<16) + "0]",
		"brackets":          "[" + strings.Repeat(strings.Repeat("[", 999)+strings.Repeat("]", 999)+",", 1000) + "0]",
		"escapes":           `"` + strings.Repeat(`\n`, 1<<20) + `"`,
		"small":             `{"candidates":[{"content":{"parts":[{"text":"Hello"}],"role":"model"}}],"usageMetadata":{"totalTokenCount":12}}`,
	} {
		b.Run(name, func(b *testing.B) { benchmarkCheck(b, []byte(text)) })
	}
}

func benchmarkCheck(b *testing.B, data []byte) {
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := rawjson.Check(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodingJSONValid(b *testing.B) {
	data := agentBody(100 << 10)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if !json.Valid(data) {
			b.Fatal("invalid")
		}
	}
}

func BenchmarkCursorSkip(b *testing.B) {
	data := agentBody(100 << 10)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		rawjson.NewCursor(data).Skip()
	}
}

// BenchmarkCursorRead reads every string and number.
func BenchmarkCursorRead(b *testing.B) {
	data := agentBody(100 << 10)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		c := rawjson.NewCursor(data)
		readAll(c)
		if c.Err() != nil {
			b.Fatal(c.Err())
		}
	}
}

func readAll(c *rawjson.Cursor) {
	switch c.Kind() {
	case rawjson.Object:
		for range c.Object() {
			readAll(c)
		}
	case rawjson.Array:
		for range c.Array() {
			readAll(c)
		}
	case rawjson.String:
		_ = c.Bytes()
	case rawjson.Number:
		_ = c.Float64()
	default:
		c.Skip()
	}
}

func BenchmarkAppendString(b *testing.B) {
	text := strings.Repeat("func main() {\n\tfmt.Println(\"hello, wörld\")\n}\n", 1000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		dst = rawjson.AppendString(dst[:0], text)
	}
}
