package rawjson

import (
	"strconv"
	"unicode/utf8"
)

// A step is one container on the way to a place in the text.
type step struct {
	object bool
	inside bool   // the place is in one of the container's values, not between them
	key    []byte // of that value in an object, still escaped
	index  int    // of that value in an array
}

// pathAt returns the path of the value at offset, such as contents[0].parts. It walks there from
// the start of the text, so it is for errors only; the text does not have to be valid, and after
// the offset it usually is not.
func pathAt(data []byte, offset int) string {
	steps := stepsTo(data, offset)
	var path []byte
	for _, s := range steps {
		if !s.inside {
			continue
		}
		if s.object {
			path = appendKeyStep(path, s.key)
		} else {
			path = append(path, '[')
			path = strconv.AppendInt(path, int64(s.index), 10)
			path = append(path, ']')
		}
	}
	return shortenPath(path)
}

func stepsTo(data []byte, offset int) []step {
	var root step // takes the steps that do not fit, so that top always exists
	var steps []step
	top := &root
	for i := skipSpace(data, 0); i < offset && i < len(data); i = skipSpace(data, i) {
		switch data[i] {
		case '{', '[':
			steps = append(steps, step{object: data[i] == '{', inside: data[i] == '['})
			top = &steps[len(steps)-1]
			i++
		case '}', ']':
			if len(steps) > 0 {
				steps = steps[:len(steps)-1]
			}
			top = &root
			if len(steps) > 0 {
				top = &steps[len(steps)-1]
			}
			i++
		case ',':
			top.inside = !top.object
			top.index++
			i++
		case ':':
			top.inside = true
			i++
		case '"':
			end := skipString(data, i)
			if end > offset {
				return steps
			}
			if top.object && !top.inside {
				top.key = data[i+1 : max(i+1, end-1)]
			}
			i = end
		default:
			i++
		}
	}
	return steps
}

func appendKeyStep(path, escapedKey []byte) []byte {
	name := appendUnescaped(nil, shorten(escapedKey, 2*maxQuote))
	if isPlainName(name) && len(name) <= maxQuote {
		if len(path) > 0 {
			path = append(path, '.')
		}
		return append(path, name...)
	}
	return append(append(append(path, '['), quoteShort(name)...), ']')
}

func isPlainName(name []byte) bool {
	for _, c := range name {
		if !(c == '_' || c == '-' || c == '$' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z') {
			return false
		}
	}
	return len(name) > 0
}

// shortenPath keeps both ends of a long path.
func shortenPath(path []byte) string {
	const head, tail = 120, 80
	if len(path) <= head+tail {
		return string(path)
	}
	end := len(path) - tail
	for end < len(path) && !utf8.RuneStart(path[end]) {
		end++
	}
	return string(shorten(path, head)) + "…" + string(path[end:])
}
