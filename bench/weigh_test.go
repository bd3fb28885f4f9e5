package main

import (
	"testing"

	"perigee/internal/lib/rawjson"
	"perigee/internal/testing/perigeetest"
)

// Every shape is JSON of about the size that is asked for, and those at the limit are decoded.
func TestShapesAreBodies(t *testing.T) {
	perigeetest.Slow(t)
	const size = 1 << 20
	seen := map[string]bool{}
	for _, s := range bodyShapes() {
		if name := s.path + " " + s.name; seen[name] {
			t.Errorf("two shapes are called %s", name)
		} else {
			seen[name] = true
		}
		body := s.body(size)
		if err := rawjson.Check(body); err != nil {
			t.Errorf("%s %s: %v", s.path, s.name, err)
		}
		if len(body) > size+1000 || len(body) < size-130_000 {
			t.Errorf("%s %s: %d bytes", s.path, s.name, len(body))
		}
	}
	if len(seen) < 200 {
		t.Errorf("%d shapes", len(seen))
	}
	blocks := messagesBodies()[7]
	limited, ok := blocks.atLimit(4 << 20)
	if !ok {
		t.Fatalf("%s has no limit", blocks.name)
	}
	body := limited.body(4 << 20)
	if count, err := rawjson.CheckCount(body); err != nil || count.Err(len(body)) != nil || count.Elements < 20_000 {
		t.Errorf("%+v, %v", count, err)
	}
}
