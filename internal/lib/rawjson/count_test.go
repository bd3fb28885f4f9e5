package rawjson_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"perigee/internal/lib/rawjson"
)

func TestCount(t *testing.T) {
	for text, want := range map[string]rawjson.Count{
		`1`:                                 {},
		`[]`:                                {},
		`{}`:                                {},
		`[ ]`:                               {},
		`[1]`:                               {Elements: 1},
		`[1, "a" ,null,{},[]]`:              {Elements: 5},
		`{"a":1,"b":{"c":[]}}`:              {Members: 3},
		`{"a":[{"b":[1,2]},{"b":3}]}`:       {Elements: 4, Members: 3},
		`[[[[[[1,2]]]]]]`:                   {Elements: 7},
		`[[[[[[[1,2,3,4]]]]]]]`:             {Elements: 6}, // the innermost list is too deep to count
		`{"a":{"b":{"c":{"d":{"e":[1]}}}}}`: {Elements: 1, Members: 5},
	} {
		got, err := rawjson.CheckCount([]byte(text))
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
		if members, err := rawjson.CheckMembers([]byte(text), func(rawjson.Member) {}); err != nil || members != want {
			t.Errorf("%s: %+v, %v; want %+v", text, members, err, want)
		}
	}
}

// The more bytes a value has, the more of them there may be.
func TestCountErr(t *testing.T) {
	for _, tt := range []struct {
		count rawjson.Count
		bytes int
		ok    bool
	}{
		{rawjson.Count{Elements: 10_000, Members: 40_000}, 100 << 10, true},
		{rawjson.Count{Elements: 20_000, Members: 60_000}, 20 << 20, true},
		{rawjson.Count{Members: 300_000}, 10 << 20, true},
		{rawjson.Count{Elements: 200_000}, 8 << 20, false},
		{rawjson.Count{Elements: 22_000_000}, 64 << 20, false},
		{rawjson.Count{Members: 8_000_000}, 64 << 20, false},
	} {
		err := tt.count.Err(tt.bytes)
		if (err == nil) != tt.ok {
			t.Errorf("%+v in %d bytes: %v", tt.count, tt.bytes, err)
		}
		if !tt.ok && err != nil && !strings.Contains(err.Error(), fmt.Sprintf("in %d bytes", tt.bytes)) {
			t.Errorf("%+v: %v", tt.count, err)
		}
	}
}

// Keys of open objects are kept to find duplicates, so their number is bounded by the size of the
// text.
func TestManyKeysAreRefused(t *testing.T) {
	text := []byte(`{"a":{` + strings.Repeat(`"abcdefghij":1,`, 1<<19) + `"b":2}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := rawjson.Check(text)
	runtime.ReadMemStats(&after)
	if e, ok := errors.AsType[*rawjson.Error](err); !ok || e.Path != "a" {
		t.Errorf("%v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("%d bytes allocated for a text of %d", used, len(text))
	}
	// As many in one object after the other are nothing.
	if err := rawjson.Check([]byte("[" + strings.Repeat(`{"a":1,"b":2},`, 1<<19) + "0]")); err != nil {
		t.Error(err)
	}
}

// Requests of agents are far from the limit.
func TestRequestsOfAgentsCountLittle(t *testing.T) {
	for _, size := range []int{100 << 10, 1 << 20, 10 << 20} {
		body := agentBody(size)
		count, err := rawjson.CheckCount(body)
		if err != nil {
			t.Fatal(err)
		}
		if err := (rawjson.Count{Elements: count.Elements * 11 / 10, Members: count.Members * 11 / 10}).Err(len(body)); err != nil {
			t.Errorf("a tenth more values than in a body of %d: %v", size, err)
		}
	}
}
