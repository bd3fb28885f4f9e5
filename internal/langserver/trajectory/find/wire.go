package find

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	cortexpb "perigee/gen/exa/cortex_pb"
)

// Messages are read field by field and not with the generated types: those take a field of another type for an unknown one, which
// would not be noticed, and refuse a message that is cut off as a whole.

// errTruncated says that a message ends within a field, or is none.
var errTruncated = errors.New("it is cut off, or no message")

// A wireField is one field of a message.
type wireField struct {
	number int
	kind   protowire.Type
	value  uint64 // of kinds that are numbers
	bytes  []byte // of BytesType
}

// eachField visits the fields of a message up to the first that cannot be read.
func eachField(message []byte, visit func(f wireField)) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errTruncated
		}
		message = message[n:]
		f := wireField{number: int(number), kind: kind}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return errTruncated
		}
		message = message[n:]
		visit(f)
	}
	return nil
}

// A wireReader reads summaries from messages.
type wireReader struct{ report }

// fits reports whether a field has the known type, and reports one that has not.
func (r *wireReader) fits(f wireField, name string, want protowire.Type) bool {
	if f.kind != want {
		r.add("%s has another type: %d instead of %d", name, f.kind, want)
	}
	return f.kind == want
}

// walk visits the fields of a message that is a part of another one.
func (r *wireReader) walk(name string, message []byte, visit func(f wireField)) {
	if err := eachField(message, visit); err != nil {
		r.add("%s cannot be read completely: %v", name, err)
	}
}

// topic reads the rows of a topic: a map of IDs to rows, each of which has the base64 of a summary.
func (r *wireReader) topic(message []byte) (l Listing) {
	r.entries("the topic", message, func(id string, row []byte) {
		value, found := []byte(nil), false
		r.walk("a row", row, func(f wireField) {
			if f.number == 1 && r.fits(f, "the value of a row", protowire.BytesType) {
				value, found = f.bytes, true
			}
		})
		if !found {
			r.add("a row has no value")
			return
		}
		summary, err := decodeBase64(value)
		if err != nil {
			r.add("the value of a row is not base64")
			return
		}
		l.keep(r.summary(id, summary), &r.report)
	})
	return l
}

// legacy reads the state of versions before 1.16.5, whose first field is a map of IDs to summaries. Everything else in it, which
// includes access tokens, is skipped.
func (r *wireReader) legacy(message []byte) (l Listing) {
	found := false
	r.walk("the state of an older version", message, func(f wireField) {
		if f.number == 1 && r.fits(f, "the list of an older version", protowire.BytesType) {
			found = true
			r.entries("the list of an older version", f.bytes, func(id string, summary []byte) {
				l.keep(r.summary(id, summary), &r.report)
			})
		}
	})
	if !found {
		r.add("the state of an older version has no conversations")
	}
	return l
}

// entries visits the entries of a map in field 1 of a message.
func (r *wireReader) entries(name string, message []byte, visit func(key string, value []byte)) {
	r.walk(name, message, func(f wireField) {
		if f.number != 1 || !r.fits(f, "an entry of "+name, protowire.BytesType) {
			return
		}
		var key string
		var value []byte
		r.walk("an entry of "+name, f.bytes, func(f wireField) {
			switch {
			case f.number == 1 && r.fits(f, "a key of "+name, protowire.BytesType):
				key = r.text("a key of "+name, f.bytes)
			case f.number == 2 && r.fits(f, "a value of "+name, protowire.BytesType):
				value = f.bytes
			}
		})
		visit(key, value)
	})
}

func (r *wireReader) text(name string, data []byte) string {
	text := string(data)
	if valid := strings.ToValidUTF8(text, "\uFFFD"); valid != text {
		r.add("%s is not UTF-8", name)
		return valid
	}
	return text
}

// summary reads a CascadeTrajectorySummary.
func (r *wireReader) summary(id string, message []byte) Summary {
	s := unknown(id)
	s.Steps = 0 // a zero is left out
	title := ""
	r.walk("a summary", message, func(f wireField) {
		switch f.number {
		case 1:
			if r.fits(f, "summary", protowire.BytesType) {
				s.Title = r.text("summary", f.bytes)
			}
		case 2:
			s.Steps = r.count("step_count", f)
		case 3:
			s.Modified = r.time("last_modified_time", f)
		case 4:
			if r.fits(f, "trajectory_id", protowire.BytesType) {
				s.TrajectoryID = r.text("trajectory_id", f.bytes)
			}
		case 5:
			if n := r.count("status", f); n >= 0 {
				s.Status = cortexpb.CascadeRunStatus(n)
			}
		case 7:
			s.Created = r.time("created_time", f)
		case 8:
			s.Waiting = r.fits(f, "waiting_steps", protowire.BytesType) || s.Waiting
		case 9:
			if r.fits(f, "workspaces", protowire.BytesType) {
				r.workspace(&s, f.bytes)
			}
		case 10:
			s.LastInput = r.time("last_user_input_time", f)
		case 15:
			if r.fits(f, "annotations", protowire.BytesType) {
				title = r.title(f.bytes)
			}
		case 16:
			s.InputStep = r.count("last_user_input_step_index", f)
		}
	})
	if title != "" {
		s.Title = title
	}
	if s.Modified.IsZero() {
		r.add("last_modified_time is missing")
	}
	return s
}

func (r *wireReader) count(name string, f wireField) int {
	if !r.fits(f, name, protowire.VarintType) {
		return -1
	}
	if f.value > math.MaxInt32 {
		r.add("%s is not a count", name)
		return -1
	}
	return int(f.value)
}

// time reads a Timestamp.
func (r *wireReader) time(name string, f wireField) time.Time {
	if !r.fits(f, name, protowire.BytesType) {
		return time.Time{}
	}
	var seconds, nanos uint64
	r.walk(name, f.bytes, func(f wireField) {
		switch {
		case f.number == 1 && r.fits(f, name, protowire.VarintType):
			seconds = f.value
		case f.number == 2 && r.fits(f, name, protowire.VarintType):
			nanos = f.value
		}
	})
	t := time.Unix(int64(seconds), int64(min(nanos, 1e9-1)))
	if !plausibleTime(t) {
		r.add("%s is not a time", name)
		return time.Time{}
	}
	return t
}

func (r *wireReader) workspace(s *Summary, message []byte) {
	r.walk("a workspace", message, func(f wireField) {
		if f.number == 1 && r.fits(f, "workspace_folder_absolute_uri", protowire.BytesType) && len(f.bytes) > 0 {
			s.Workspaces = append(s.Workspaces, directoryOf(r.text("workspace_folder_absolute_uri", f.bytes)))
		}
	})
}

func (r *wireReader) title(message []byte) (title string) {
	r.walk("annotations", message, func(f wireField) {
		if f.number == 1 && r.fits(f, "annotations.title", protowire.BytesType) {
			title = r.text("annotations.title", f.bytes)
		}
	})
	return title
}

var errBase64 = fmt.Errorf("it is not base64")

// decodeBase64 reads base64 with or without padding, in either alphabet. Its error has no part of the text.
func decodeBase64(value []byte) ([]byte, error) {
	text := strings.TrimRight(string(bytes.TrimSpace(value)), "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	data, err := encoding.DecodeString(text)
	if err != nil {
		return nil, errBase64
	}
	return data, nil
}
