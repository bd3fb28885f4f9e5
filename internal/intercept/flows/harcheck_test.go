package flows

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// checkHAR reads an archive as strictly as HAR 1.2 defines it: every member that is required is
// there, none is unknown unless it begins with _, types and ranges are right, and the times of an
// entry add up.
func checkHAR(t *testing.T, path string) []harEntry {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v", path, info.Mode())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := parseHAR(raw)
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	return entries
}

// required and optional members of each object, by the name of the member that it is the value of.
var harMembers = map[string][2]string{
	"":         {"log", ""},
	"log":      {"version creator entries", "browser pages comment"},
	"creator":  {"name version", "comment"},
	"entries":  {"startedDateTime time request response cache timings", "pageref serverIPAddress connection comment"},
	"request":  {"method url httpVersion cookies headers queryString headersSize bodySize", "postData comment"},
	"response": {"status statusText httpVersion cookies headers content redirectURL headersSize bodySize", "comment"},
	"cookies":  {"name value", "path domain expires httpOnly secure comment"},
	"headers":  {"name value", "comment"}, "queryString": {"name value", "comment"}, "_trailers": {"name value", ""},
	"postData": {"mimeType", "params text comment"}, "params": {"name", "value fileName contentType comment"},
	"content": {"size mimeType", "compression text encoding comment"}, "cache": {"", "beforeRequest afterRequest comment"},
	"timings": {"send wait receive", "blocked dns connect ssl comment"},
}

func checkMembers(name string, value any) error {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			if err := checkMembers(name, v); err != nil {
				return err
			}
		}
	case map[string]any:
		known, ok := harMembers[name]
		if !ok {
			return fmt.Errorf("%s is an object", name)
		}
		for _, required := range strings.Fields(known[0]) {
			if value[required] == nil {
				return fmt.Errorf("%s has no %s", name, required)
			}
		}
		for member, v := range value {
			if !strings.HasPrefix(member, "_") && !strings.Contains(" "+known[0]+" "+known[1]+" ", " "+member+" ") {
				return fmt.Errorf("%s has %s", name, member)
			}
			if err := checkMembers(member, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func parseHAR(raw []byte) ([]harEntry, error) {
	var any any
	if err := json.Unmarshal(raw, &any); err != nil {
		return nil, err
	}
	if err := checkMembers("", any); err != nil {
		return nil, err
	}
	var archive struct {
		Log struct {
			Version string     `json:"version"`
			Creator harCreator `json:"creator"`
			Entries []harEntry `json:"entries"`
		} `json:"log"`
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&archive); err != nil {
		return nil, err
	}
	if _, err := strict.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more after the archive: %v", err)
	}
	if archive.Log.Version != "1.2" || archive.Log.Creator.Name != "perigee" || archive.Log.Creator.Version == "" {
		return nil, fmt.Errorf("version %s of %+v", archive.Log.Version, archive.Log.Creator)
	}
	for _, e := range archive.Log.Entries {
		if err := checkEntry(e); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Request.URL, err)
		}
	}
	return archive.Log.Entries, nil
}

func checkEntry(e harEntry) error {
	if _, err := time.Parse(time.RFC3339, e.Started); err != nil {
		return err
	}
	if u, err := url.Parse(e.Request.URL); err != nil || !u.IsAbs() {
		return fmt.Errorf("not absolute: %v", err)
	}
	sum := 0.0
	for _, step := range []float64{e.Timings.Blocked, e.Timings.DNS, e.Timings.Connect, e.Timings.Send, e.Timings.Wait, e.Timings.Receive} {
		if step < 0 && step != -1 {
			return fmt.Errorf("a step took %v ms", step)
		}
		sum += max(step, 0)
	}
	if math.Abs(sum-e.Time) > 0.1 || e.Timings.Send < 0 || e.Timings.Wait < 0 || e.Timings.Receive < 0 {
		return fmt.Errorf("times %+v, together %v", e.Timings, e.Time)
	}
	if c := e.Response.Content; c.Encoding != "" {
		if _, err := base64.StdEncoding.DecodeString(c.Text); c.Encoding != "base64" || err != nil {
			return fmt.Errorf("encoding %s: %v", c.Encoding, err)
		}
	}
	if e.Response.BodySize < 0 || e.Response.Content.Size < 0 || e.Response.HeadersSize != -1 {
		return fmt.Errorf("sizes %d, %d, %d", e.Response.BodySize, e.Response.Content.Size, e.Response.HeadersSize)
	}
	return nil
}
