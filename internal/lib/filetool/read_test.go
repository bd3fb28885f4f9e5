package filetool_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/lib/filetool"
	"perigee/internal/testing/perigeetest/await"
)

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func TestLinesAreNumberedFromOne(t *testing.T) {
	r := newRig(t, map[string]string{"f": "one\r\ntwo\n\nfour", "empty": ""})
	for _, test := range []struct {
		in        filetool.ReadInput
		content   string
		lines     int
		truncated bool
	}{
		{filetool.ReadInput{}, "one\r\ntwo\n\nfour", 4, false},
		{filetool.ReadInput{Offset: 1, Limit: 1}, "one\r\n", 1, true},
		{filetool.ReadInput{Offset: 2, Limit: 2}, "two\n\n", 2, true},
		{filetool.ReadInput{Offset: 3, Limit: 2}, "\nfour", 2, false},
		{filetool.ReadInput{Offset: 4}, "four", 1, false},
		{filetool.ReadInput{Offset: 5}, "", 0, false},
		{filetool.ReadInput{Offset: math.MaxInt32}, "", 0, false},
	} {
		test.in.Path = "f"
		got := r.read(test.in)
		if got.Content != test.content || got.Lines != test.lines || got.Truncated != test.truncated || *got.TotalLines != 4 ||
			got.SHA256 != hashOf("one\r\ntwo\n\nfour") || got.Encoding != "" {
			t.Errorf("%+v: got %+v", test.in, got)
		}
	}
	if got := r.read(filetool.ReadInput{Path: "empty"}); got.Lines != 0 || *got.TotalLines != 0 || got.Truncated || got.SHA256 != hashOf("") {
		t.Errorf("got %+v", got)
	}
	for _, in := range []filetool.ReadInput{{Path: "f", Offset: -1}, {Path: "f", Limit: -1}, {}} {
		_, err := r.tools.Read(t.Context(), in)
		refused(t, err, perigee.ClassInvalid)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	many := strings.Repeat("x\n", 5000)
	wide := strings.Repeat(strings.Repeat("é", 500)+"\n", 1000) // 1,001 bytes each
	long := strings.Repeat("é", 200_000) + "\nnext\n"
	r := newRig(t, map[string]string{"many": many, "wide": wide, "long": long, "second": "first\n" + long})
	if got := r.read(filetool.ReadInput{Path: "many", Limit: 10_000}); got.Lines != 2000 || got.Content != many[:4000] || !got.Truncated ||
		*got.TotalLines != 5000 {
		t.Errorf("got %d lines, %v, %v", got.Lines, got.Truncated, *got.TotalLines)
	}
	got := r.read(filetool.ReadInput{Path: "wide"})
	if got.Lines != 256<<10/1001 || len(got.Content) != got.Lines*1001 || !got.Truncated {
		t.Errorf("got %d lines, %d bytes", got.Lines, len(got.Content))
	}
	got = r.read(filetool.ReadInput{Path: "long"})
	if got.Lines != 1 || !got.Truncated || len(got.Content) > 256<<10 || len(got.Content) < 256<<10-4 || !utf8.ValidString(got.Content) {
		t.Errorf("got %d lines, %d bytes", got.Lines, len(got.Content))
	}
	if got := r.read(filetool.ReadInput{Path: "long", Offset: 2}); got.Content != "next\n" || got.Truncated {
		t.Errorf("got %+v", got)
	}
	if got := r.read(filetool.ReadInput{Path: "second"}); got.Content != "first\n" || !got.Truncated || got.Lines != 1 {
		t.Errorf("got %d lines, %d bytes", got.Lines, len(got.Content))
	}
}

func TestFilesThatAreNotTextAreBase64(t *testing.T) {
	large := string(bytes.Repeat([]byte{0, 1, 2, 0xff}, 200_000))
	files := map[string]string{
		"nul": "a\x00b", "latin1": "caf\xe9\n", "cut": "abc\xe2\x82", "utf32": "\xff\xfe\x00\x00a\x00\x00\x00", "odd16": "\xff\xfea\x00b",
		"lone16": "\xff\xfe\x00\xd8a\x00", "low16": "\xff\xfe\x00\xdc", "high16": "\xfe\xff\xd8\x00", "nul16": "\xff\xfe\x00\x00\xff",
		"late": strings.Repeat("text\n", 100_000) + "\xff", "surrogate": "\xed\xa0\x80",
	}
	r := newRig(t, files)
	r.put("large", large)
	for name, content := range files {
		got := r.read(filetool.ReadInput{Path: name, Limit: 1})
		raw, err := base64.StdEncoding.DecodeString(got.Content)
		if err != nil || got.Encoding != "base64" || !strings.HasPrefix(content, string(raw)) || got.Truncated != (len(raw) < len(content)) ||
			got.SHA256 != hashOf(content) {
			t.Errorf("%s: got %.100q, %s, %v", name, raw, got.Encoding, err)
		}
	}
	if got := r.read(filetool.ReadInput{Path: "large"}); !got.Truncated || len(got.Content) != 256<<10 {
		t.Errorf("got %d bytes", len(got.Content))
	}
	_, err := r.tools.Read(t.Context(), filetool.ReadInput{Path: "large", Offset: 2})
	refused(t, err, perigee.ClassInvalid, "not text")
}

func TestByteOrderMarksAreDecoded(t *testing.T) {
	r := newRig(t, map[string]string{
		"bom": "\xef\xbb\xbfhé\n", "le": "\xff\xfeh\x00\xe9\x00\n\x00\x3d\xd8\x00\xde", "be": "\xfe\xff\x00h\x00\xe9\x00\n\xd8\x3d\xde\x00",
		"onlybom": "\xef\xbb\xbf", "only16": "\xff\xfe",
	})
	for name, want := range map[string][2]string{
		"bom": {"hé\n", "utf-8-bom"}, "le": {"hé\n😀", "utf-16le"}, "be": {"hé\n😀", "utf-16be"}, "onlybom": {"", "utf-8-bom"},
		"only16": {"", "utf-16le"},
	} {
		if got := r.read(filetool.ReadInput{Path: name}); got.Content != want[0] || got.Charset != want[1] || got.SHA256 != hashOf(r.get(name)) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestPagesOfLinesMakeTheFile reads random texts in pages and puts them together again.
func TestPagesOfLinesMakeTheFile(t *testing.T) {
	r := newRig(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(0, 8).Draw(t, "runs") {
			line := strings.Repeat(rapid.SampledFrom([]string{"", "a", "é", "😀", "\r"}).Draw(t, "character"), rapid.SampledFrom([]int{0, 1, 3, 40, 32_768, 60_000}).Draw(t, "length"))
			text.WriteString(strings.Repeat(line+"\n", rapid.SampledFrom([]int{0, 1, 2, 90}).Draw(t, "times")/(1+len(line)/1000)))
		}
		text.WriteString(rapid.SampledFrom([]string{"", "end", "é"}).Draw(t, "end"))
		content := text.String()
		if err := os.WriteFile(r.path("f"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		all := strings.SplitAfter(content, "\n")
		if all[len(all)-1] == "" {
			all = all[:len(all)-1]
		}
		limit := rapid.SampledFrom([]int{9, 50, 2000}).Draw(t, "limit")
		joined, offset := "", 1
		for {
			got, err := r.tools.Read(context.Background(), filetool.ReadInput{Path: "f", Offset: offset, Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			if *got.TotalLines != len(all) || got.SHA256 != hashOf(content) || got.Lines > limit || len(got.Content) > 256<<10 {
				t.Fatalf("offset %d: total %d of %d, %d lines, %d bytes", offset, *got.TotalLines, len(all), got.Lines, len(got.Content))
			}
			if want := strings.Join(all[offset-1:offset-1+got.Lines], ""); got.Content != want {
				t.Fatalf("offset %d: %d lines differ: %.50q, %.50q", offset, got.Lines, got.Content, want)
			}
			joined += got.Content
			offset += got.Lines
			if !got.Truncated {
				break
			}
		}
		if joined != content {
			t.Fatalf("%d bytes, want %d", len(joined), len(content))
		}
	})
}

func TestReadEndsWithItsContext(t *testing.T) {
	r := newRig(t, map[string]string{"f": "text"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.tools.Read(ctx, filetool.ReadInput{Path: "f"})
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassCanceled {
		t.Errorf("got %v", err)
	}
}

// TestFileThatChangesHasNoHash changes a file all the time while it is read.
func TestFileThatChangesHasNoHash(t *testing.T) {
	r := newRig(t, map[string]string{"f": strings.Repeat("\n", 4<<20)})
	done, stop := make(chan error, 1), make(chan struct{})
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			var f *os.File
			if f, err = os.OpenFile(r.path("f"), os.O_WRONLY, 0); err == nil { // in place, without a new file
				_, err = fmt.Fprintf(f, "%08d", i)
				_ = f.Close()
			}
		}
		done <- err
	}()
	for deadline := time.Now().Add(time.Minute); ; {
		got := r.read(filetool.ReadInput{Path: "f", Limit: 1})
		if got.Changing != (got.SHA256 == "") {
			t.Errorf("changing %v with the hash %q", got.Changing, got.SHA256)
		}
		if got.Changing {
			break
		}
		if time.Now().After(deadline) {
			t.Error("no change was seen")
			break
		}
	}
	close(stop)
	if err := await.Receive(t, done, "the end of the writer"); err != nil {
		t.Fatal(err)
	}
	if got := r.read(filetool.ReadInput{Path: "f"}); got.SHA256 != hashOf(r.get("f")) || got.Changing {
		t.Errorf("got %s", got.SHA256)
	}
}
