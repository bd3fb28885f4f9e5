package find

import (
	"math"
	"strconv"
	"strings"
	"time"

	cortexpb "perigee/gen/exa/cortex_pb"
	"perigee/internal/lib/rawjson"
)

// A jsonReader reads summaries from JSON. Values of another type than the known one are reported, and used if they can mean only
// one thing.
type jsonReader struct {
	*rawjson.Cursor
	report
}

// differs reports that a member has another type.
func (r *jsonReader) differs(name, want string) {
	r.add("%s is %v instead of %s", name, r.Kind(), want)
}

// list reads conversations from a list, or from a map by ID. want is the form that is known.
func (r *jsonReader) list(name string, want rawjson.Kind, missing ...string) (l Listing) {
	switch kind := r.Kind(); {
	case kind == rawjson.Null:
	case kind == rawjson.Array:
		if kind != want {
			r.differs(name, want.String())
		}
		for range r.Array() {
			l.keep(r.summary("", missing), &r.report)
		}
	case kind == rawjson.Object:
		if kind != want {
			r.differs(name, want.String())
		}
		for key := range r.Object() {
			l.keep(r.summary(string(key), missing), &r.report)
		}
	default:
		r.differs(name, want.String())
	}
	return l
}

// summary reads one conversation. Names differ between sources; each has one meaning. Each of missing has to be there.
func (r *jsonReader) summary(id string, missing []string) Summary {
	s := unknown(id)
	if r.Kind() != rawjson.Object {
		r.differs("a conversation", "an object")
		return unknown("")
	}
	has := make(map[string]bool, 8)
	title := ""
	for key := range r.Object() {
		name := string(key)
		if r.Kind() == rawjson.Null {
			continue
		}
		has[name] = true
		switch name {
		case "googleAgentId", "id", "cascadeId":
			if text := r.text(name); id == "" {
				s.ID = text
			}
		case "summary":
			s.Title = r.text(name)
		case "title":
			title = r.text(name)
		case "annotations":
			title = r.title()
		case "trajectoryId":
			s.TrajectoryID = r.text(name)
		case "stepCount", "steps":
			s.Steps = r.integer(name, 0)
		case "lastStepIndex":
			s.Steps = r.integer(name, -1) + 1
		case "lastUserInputStepIndex":
			s.InputStep = r.integer(name, 0)
		case "lastModifiedTime", "modified":
			s.Modified = r.time(name)
		case "createdTime", "created":
			s.Created = r.time(name)
		case "lastUserInputTime":
			s.LastInput = r.time(name)
		case "status":
			r.status(&s)
		case "waitingSteps":
			s.Waiting = r.any(name) || s.Waiting
		case "workspaces":
			s.Workspaces = r.workspaces()
		case "workspace":
			if text := r.text(name); text != "" {
				s.Workspaces = []string{directoryOf(text)}
			}
		}
	}
	if title != "" {
		s.Title = title
	}
	for _, name := range missing {
		if !has[name] {
			r.add("%s is missing", name)
		}
	}
	return s
}

func (r *jsonReader) text(name string) string {
	switch r.Kind() {
	case rawjson.String:
		return strings.ToValidUTF8(r.String(), "\uFFFD")
	case rawjson.Number:
		r.differs(name, "a string")
		return string(r.Raw())
	}
	r.differs(name, "a string")
	return ""
}

// integer reads a count that is at least least; what is none is one less. Numbers in strings are usual for 64 bits only.
func (r *jsonReader) integer(name string, least int) int {
	var text string
	switch r.Kind() {
	case rawjson.Number:
		text = string(r.Raw())
	case rawjson.String:
		r.differs(name, "a number")
		text = r.String()
	default:
		r.differs(name, "a number")
		return least - 1
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || f < float64(least) || f > math.MaxInt32 {
		r.add("%s is not a count", name)
		return least - 1
	}
	return int(f)
}

// time reads RFC 3339. Seconds and milliseconds since 1970 cannot be confused within this century.
func (r *jsonReader) time(name string) time.Time {
	var t time.Time
	switch r.Kind() {
	case rawjson.String:
		text := r.String()
		if text == "" {
			r.add("%s is empty", name)
			return time.Time{}
		}
		parsed, err := time.Parse(time.RFC3339Nano, text)
		if err == nil {
			t = parsed
		} else if n, err := strconv.ParseFloat(text, 64); err == nil {
			r.add("%s is a number in a string instead of a time", name)
			t = sinceEpoch(n)
		}
	case rawjson.Number:
		r.differs(name, "a time")
		if n, err := strconv.ParseFloat(string(r.Raw()), 64); err == nil {
			t = sinceEpoch(n)
		}
	case rawjson.Object:
		r.differs(name, "a time")
		t = r.timestamp(name)
	default:
		r.differs(name, "a time")
		return time.Time{}
	}
	if !plausibleTime(t) {
		r.add("%s is not a time", name)
		return time.Time{}
	}
	return t
}

// timestamp reads the members of a Timestamp.
func (r *jsonReader) timestamp(name string) time.Time {
	var seconds, nanos float64
	for key := range r.Object() {
		text := ""
		switch r.Kind() {
		case rawjson.Number:
			text = string(r.Raw())
		case rawjson.String:
			text = r.String()
		}
		n, err := strconv.ParseFloat(text, 64)
		switch string(key) {
		case "seconds":
			seconds = n
		case "nanos":
			nanos = n
		default:
			continue
		}
		if err != nil {
			r.add("%s.%s is not a number", name, key)
			return time.Time{}
		}
	}
	if math.Abs(seconds) > math.MaxInt32*2 || nanos < 0 || nanos >= 1e9 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), int64(nanos))
}

func sinceEpoch(n float64) time.Time {
	switch {
	case n >= 1e8 && n < 1e11:
		return time.UnixMicro(int64(n * 1e6))
	case n >= 1e11 && n < 1e14:
		return time.UnixMicro(int64(n * 1e3))
	}
	return time.Time{}
}

// plausibleTime reports whether a conversation can be of that time.
func plausibleTime(t time.Time) bool { return t.Year() > 1975 && t.Year() < 2200 }

// statuses are the words of the bridge.
var statuses = map[string]cortexpb.CascadeRunStatus{
	"idle": cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE, "done": cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE,
	"running": cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_RUNNING, "waiting": cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_RUNNING,
	"unknown": 0, "": 0,
}

func (r *jsonReader) status(s *Summary) {
	switch r.Kind() {
	case rawjson.String:
		text := r.String()
		if n, ok := cortexpb.CascadeRunStatus_value[text]; ok {
			s.Status = cortexpb.CascadeRunStatus(n)
		} else if status, ok := statuses[text]; ok {
			s.Status, s.Waiting = status, s.Waiting || text == "waiting"
		} else {
			r.add("status has an unknown name")
		}
	case rawjson.Number:
		if n := r.integer("status", 0); n >= 0 {
			s.Status = cortexpb.CascadeRunStatus(n)
		}
	default:
		r.differs("status", "a string")
	}
}

// any reports whether a list has an element.
func (r *jsonReader) any(name string) bool {
	if r.Kind() != rawjson.Array {
		r.differs(name, "an array")
		return false
	}
	n := 0
	for range r.Array() {
		n++
	}
	return n > 0
}

func (r *jsonReader) title() (title string) {
	if r.Kind() != rawjson.Object {
		r.differs("annotations", "an object")
		return ""
	}
	for key := range r.Object() {
		if string(key) == "title" && r.Kind() != rawjson.Null {
			title = r.text("annotations.title")
		}
	}
	return title
}

func (r *jsonReader) workspaces() (list []string) {
	add := func(text string) {
		if text != "" {
			list = append(list, directoryOf(text))
		}
	}
	if r.Kind() != rawjson.Array {
		r.differs("workspaces", "an array")
		return nil
	}
	for range r.Array() {
		switch r.Kind() {
		case rawjson.String:
			r.differs("a workspace", "an object")
			add(r.text("a workspace"))
		case rawjson.Object:
			for key := range r.Object() {
				if string(key) == "workspaceFolderAbsoluteUri" && r.Kind() != rawjson.Null {
					add(r.text("workspaceFolderAbsoluteUri"))
				}
			}
		default:
			r.differs("a workspace", "an object")
		}
	}
	return list
}
