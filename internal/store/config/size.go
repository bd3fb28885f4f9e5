package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// A Size is a number of bytes, written "64MiB", "10MB" or plain.
type Size int64

// An AutoSize is a Size, or 0, which is written auto: perigee chooses.
type AutoSize int64

// String writes s as in the file.
func (s AutoSize) String() string {
	if s == 0 {
		return "auto"
	}
	return Size(s).String()
}

// The units in the order in which String tries them: larger ones first, binary before decimal.
var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9},
	{"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"B", 1},
}

var errSize = errors.New("expected a size such as 64MiB, 10MB or a number of bytes")

// ParseSize reads a size. The unit may be in any case and after spaces; fractions need a unit.
func ParseSize(text string) (Size, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return Size(n), nil
	}
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	for _, u := range units {
		if !strings.EqualFold(text[len(digits):], u.name) {
			continue
		}
		number := strings.TrimSpace(digits)
		if strings.Trim(number, "0123456789.") != "" {
			return 0, errSize
		}
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			if n > math.MaxInt64/u.bytes {
				return 0, errSize
			}
			return Size(n * u.bytes), nil
		}
		f, err := strconv.ParseFloat(number, 64)
		if err != nil || f*float64(u.bytes) >= math.MaxInt64 {
			return 0, errSize
		}
		return Size(f * float64(u.bytes)), nil
	}
	return 0, errSize
}

// String writes s with the largest unit that divides it.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && int64(s)%u.bytes == 0 && u.bytes > 1 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
