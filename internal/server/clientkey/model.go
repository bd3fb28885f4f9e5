package clientkey

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"perigee"
)

// maxModel is how many bytes the name of a model may have. Names are remembered in several places,
// by client and for hours.
const maxModel = 500

// CheckModel refuses names that no model has. A name becomes a part of a URL: a proxy in front of
// the provider that decodes it and resolves .. would ask for another model than the one that the
// key was checked for.
func CheckModel(model string) error {
	if len(model) > maxModel {
		return perigee.Errorf(perigee.ClassInvalid, "the name of the model has %d bytes", len(model)).
			WithHint("send at most %d; GET /v1/models lists the names", maxModel)
	}
	if problem := notInNames(model); problem != "" {
		return perigee.Errorf(perigee.ClassInvalid, "model names cannot contain %q", problem).WithHint("GET /v1/models lists the names")
	}
	return nil
}

// notInNames returns the first part of a name that is not allowed, because it is special in a URL
// or not printable. It returns "" if there is none.
func notInNames(model string) string {
	for i, r := range model {
		if rest := model[i:]; r == '?' || r == '#' || r == '\\' || r == utf8.RuneError || unicode.IsControl(r) {
			return string(r)
		} else if r == '%' && len(rest) > 2 && isHex(rest[1]) && isHex(rest[2]) {
			return rest[:3]
		} else if r != '.' || i > 0 && model[i-1] != '/' {
			continue
		} else if strings.HasPrefix(rest, "..") {
			return ".."
		} else if rest == "." || rest[1] == '/' {
			return "/."
		}
	}
	return ""
}

func isHex(b byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", b) >= 0 }
