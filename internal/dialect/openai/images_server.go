package openai

import (
	"cmp"
	"errors"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// An ImagesDecoder turns the answer of POST /v1/images/generations, which comes in one piece, into
// events.
type ImagesDecoder struct{ finished bool }

// Finished reports whether the answer has come.
func (d *ImagesDecoder) Finished() bool { return d.finished }

// Decode appends the events of an answer. They refer to its bytes.
func (d *ImagesDecoder) Decode(events []perigee.Event, body []byte) ([]perigee.Event, error) {
	if err := CheckAnswer(body); err != nil {
		return events, err
	}
	var usage perigee.Usage
	var format string
	events = append(events, perigee.Event{Kind: perigee.EventStart})
	c := rawjson.NewCursor(body)
	c.Read(nil, "output_format", &format, "usage", func() { usage = imageUsage(c) }, "data", func() {
		for range c.Array() {
			for key := range c.Object() {
				switch {
				case c.Kind() != rawjson.String:
				case string(key) == "b64_json":
					events = append(events, perigee.Event{Kind: perigee.EventBlob, Blob: &perigee.Blob{Data: c.Alias()}})
				case string(key) == "url":
					events = append(events, perigee.Event{Kind: perigee.EventText, Text: c.String()})
				}
			}
		}
	})
	for i := range events {
		if events[i].Kind == perigee.EventBlob {
			events[i].Blob.MIME = "image/" + cmp.Or(strings.ToLower(format), "png")
		}
	}
	if usage != (perigee.Usage{}) {
		events = append(events, perigee.Event{Kind: perigee.EventUsage, Usage: &usage})
	}
	d.finished = true
	return append(events, perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "stop", Dialect: perigee.DialectOpenAIImages}}), c.Err()
}

// imageUsage reads the usage of an answer. Older models have none.
func imageUsage(c *rawjson.Cursor) (usage perigee.Usage) {
	if c.Kind() != rawjson.Object {
		return usage
	}
	for key := range c.Object() {
		switch string(key) {
		case "input_tokens":
			usage.Input = count(c)
		case "output_tokens":
			usage.Output = count(c)
		case "input_tokens_details":
			usage.Cached = countIn(c, "cached_tokens")
		}
	}
	return usage
}

// CheckAnswer returns an error if an answer in one piece is not an object, or is an error.
func CheckAnswer(body []byte) error {
	if err := rawjson.Check(body); err != nil {
		return err
	}
	c := rawjson.NewCursor(body)
	if c.Kind() != rawjson.Object {
		return errors.New("it is not an object")
	}
	for key := range c.Object() {
		if string(key) == "error" && c.Kind() != rawjson.Null {
			return DecodeError(0, body)
		}
	}
	return nil
}
