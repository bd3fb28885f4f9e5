package perigeetest

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// PackTrace replaces the files in the directory of a traced call by trace.txt, in the form in which
// a busy perigee writes a call. Files with the same content are in it once.
func PackTrace(dir string) error {
	const packed = "trace.txt"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type place struct {
		Name string `json:"name"`
		At   int    `json:"at"`
		Size int    `json:"size"`
	}
	var places []place
	var text []byte
	known := map[string]int{} // the place of each content
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		at, same := known[string(data)]
		if !same {
			text = append(text, "==> "+e.Name()+" <==\n"...)
			at = len(text)
			text = append(append(text, data...), '\n')
			known[string(data)] = at
		}
		places = append(places, place{e.Name(), at, len(data)})
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	head, err := json.Marshal(map[string]any{"files": places})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, packed), append(append(head, '\n'), text...), 0o600)
}
