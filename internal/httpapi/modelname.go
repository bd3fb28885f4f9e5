package httpapi

import (
	"strings"

	"perigee"
)

// maxModel is how many bytes the name of a model may have. Names are remembered in several places, by client and for hours.
const maxModel = 500

// checkModel refuses names that no model has. A name becomes a part of a URL: a proxy in front of the provider that resolves .. would
// ask for another model than the one that the key was checked for.
func checkModel(model string) error {
	if len(model) > maxModel {
		return perigee.Errorf(perigee.ClassInvalid, "the name of the model has %d bytes", len(model)).
			WithNext("send at most %d; GET /v1/models lists the names", maxModel)
	}
	if !strings.Contains(model, "/") {
		return nil
	}
	for part := range strings.SplitSeq(model, "/") {
		if part == "." || part == ".." {
			return perigee.Errorf(perigee.ClassInvalid, "%q stands between slashes in the name of the model", part).
				WithNext("GET /v1/models lists the names")
		}
	}
	return nil
}
