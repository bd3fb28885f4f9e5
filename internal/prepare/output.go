package prepare

import (
	"fmt"

	"perigee"
)

const jsonMIME = "application/json"

// limitOutput keeps the length of the answer within what the model can say; most is 0 where nobody knows that.
func limitOutput(gen *perigee.Generation, most int64, notes *notes) {
	if gen.MaxOutputTokens == nil || most <= 0 || *gen.MaxOutputTokens <= most {
		return
	}
	notes.add(perigee.NoteMapped, fmt.Sprintf("max output tokens %d to %d", *gen.MaxOutputTokens, most))
	gen.MaxOutputTokens = new(most)
}

// sayJSON says that the answer is JSON where it has a schema, which means nothing without.
func sayJSON(gen *perigee.Generation) {
	if (gen.ResponseSchema != nil || gen.ResponseJSON != nil) && gen.ResponseMIME == "" {
		gen.ResponseMIME = jsonMIME
	}
}

// withoutJSON gives up the form of the answer where the model cannot have it.
func withoutJSON(gen *perigee.Generation, where string, notes *notes) {
	if gen.ResponseMIME != jsonMIME && gen.ResponseSchema == nil && gen.ResponseJSON == nil {
		return
	}
	notes.add(perigee.NoteDropped, "response format "+where)
	gen.ResponseMIME, gen.ResponseSchema, gen.ResponseJSON = "", nil, nil
}
