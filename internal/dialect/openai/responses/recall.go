package responses

import (
	"encoding/json"
	"fmt"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// reference adds the item that a reference refers to. One that is not stored here may be stored at a
// provider.
func (d *decoder) reference(i int, reference *inputItem) {
	id := string(reference.id)
	raw, err := d.findItem(id)
	if err == nil {
		err = d.recall(id, len(raw))
	}
	if err != nil {
		refuse := d.forbid
		if perigee.AsError(err).Class == perigee.ClassNotFound {
			refuse = d.refuse
		}
		refuse(err)
		return
	}
	d.out.references = append(d.out.references, raw)
	var meant inputItem
	d.nested(i, "id", raw, func(c *rawjson.Cursor) { meant = readItem(c) })
	if meant.kind == itemReference { // stored items are not, so this one is damaged
		return
	}
	d.item(i, &meant)
}

// maxRecalled is the maximum number of stored bytes that one request may refer to. A reference is
// short and its item may be long, so the limit on bodies does not cover it.
const maxRecalled = 64 << 20

// recall counts the stored bytes that a request refers to, each item once.
func (d *decoder) recall(id string, size int) error {
	if d.recalled[id] {
		return &perigee.Error{Class: perigee.ClassInvalid,
			Message: fmt.Sprintf("Item with id '%s' is referenced twice.", openai.Brief(id)),
			Hint:    "reference each item once", Cause: &perigee.Fault{Param: "input"}}
	}
	if d.recalled == nil {
		d.recalled = map[string]bool{}
	}
	d.recalled[id] = true
	if d.recalledSize += size; d.recalledSize > maxRecalled {
		return &perigee.Error{Class: perigee.ClassInvalid, Status: 413,
			Message: fmt.Sprintf("The stored conversation is larger than %d MiB.", maxRecalled>>20),
			Hint:    "start a new one with a summary of it", Cause: &perigee.Fault{Param: "input"}}
	}
	return nil
}

// findItem returns a stored item: from the response that the request continues, or from the
// response with the id that is part of the item's.
func (d *decoder) findItem(id string) (json.RawMessage, error) {
	if d.known == nil {
		d.known = itemIndex{}
		d.known.add(d.out.earlier[0])
		d.known.add(d.out.earlier[1])
	}
	if raw, ok := d.known[id]; ok {
		return raw, nil
	}
	missing := &perigee.Error{Class: perigee.ClassNotFound, Message: fmt.Sprintf("Item with id '%s' not found.", openai.Brief(id)),
		Hint: "send the item itself, or remove store: false of the request that made it", Cause: &perigee.Fault{Param: "input"}}
	response := responseOf(id)
	if response == "" || d.find == nil {
		return nil, missing
	}
	stored, err := d.find(response)
	if e := perigee.AsError(err); e != nil {
		if e.Class == perigee.ClassNotFound {
			return nil, missing
		}
		return nil, e
	}
	d.known.add(stored.Output)
	d.known.add(stored.Input)
	if raw, ok := d.known[id]; ok {
		return raw, nil
	}
	return nil, missing
}

// An itemIndex finds items by their ids, so that many references into one response cost one look at
// it.
type itemIndex map[string]json.RawMessage

func (x itemIndex) add(items json.RawMessage) {
	for _, item := range split(items) {
		if id := itemID(item); id != "" {
			x[id] = item
		}
	}
}
