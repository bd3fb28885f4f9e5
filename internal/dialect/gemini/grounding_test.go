package gemini

import (
	"reflect"
	"testing"

	"perigee"
)

// decodeOne returns the event of a kind in a chunk.
func decodeOne(t *testing.T, kind perigee.EventKind, chunk string) perigee.Event {
	t.Helper()
	var d Decoder
	events, err := d.Decode(nil, []byte(chunk))
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		if ev.Kind == kind {
			return ev
		}
	}
	t.Fatalf("%s: no such event", chunk)
	return perigee.Event{}
}

func TestGroundingIsReadAsFarAsItCanBe(t *testing.T) {
	for name, c := range map[string]struct {
		metadata string
		want     perigee.Grounding
	}{
		"all": {`{"webSearchQueries":["a","b"],"groundingChunks":[{"web":{"uri":"u0","title":"t0"}},{"retrievedContext":{"uri":"u1"}}],
			"groundingSupports":[{"segment":{"startIndex":1,"endIndex":4,"text":"one"},"groundingChunkIndices":[0,1]}],"retrievalMetadata":{}}`,
			perigee.Grounding{Queries: []string{"a", "b"}, Sources: []perigee.Source{{URL: "u0", Title: "t0"}, {URL: "u1"}},
				Supports: []perigee.Support{{Start: 1, End: 4, Text: "one", Sources: []int64{0, 1}}}}},
		"the other spelling": {`{"web_search_queries":["a"],"grounding_chunks":[{"web":{"uri":"u0"}}],"grounding_supports":[{"segment":{"end_index":4},"grounding_chunk_indices":[0]}]}`,
			perigee.Grounding{Queries: []string{"a"}, Sources: []perigee.Source{{URL: "u0"}}, Supports: []perigee.Support{{End: 4, Sources: []int64{0}}}}},
		"a source of a kind that has no place": {`{"groundingChunks":[{"score":1,"web":{"uri":"u0"}},{}]}`, perigee.Grounding{Sources: []perigee.Source{{URL: "u0"}, {}}}},
		"nothing":                              {`{}`, perigee.Grounding{}},
		"no object":                            {`[1]`, perigee.Grounding{}},
	} {
		t.Run(name, func(t *testing.T) {
			ev := decodeOne(t, perigee.EventGrounding, `{"candidates":[{"groundingMetadata":`+c.metadata+`}]}`)
			if !reflect.DeepEqual(*ev.Grounding, c.want) {
				t.Errorf("got  %+v\nwant %+v", *ev.Grounding, c.want)
			}
			if string(ev.Raw) != c.metadata {
				t.Errorf("the provider's own words have become %s", ev.Raw)
			}
		})
	}
}

func TestLogprobsAreReadAsFarAsTheyCanBe(t *testing.T) {
	ev := decodeOne(t, perigee.EventLogprobs, `{"candidates":[{"logprobsResult":{
		"topCandidates":[{"candidates":[{"token":"a","tokenId":7,"logProbability":-0.5},{"token":"b","logProbability":-2}]},{}],
		"chosenCandidates":[{"token":"a","logProbability":-0.5},{"token":"é"}]}}]}`)
	want := perigee.Logprobs{
		Chosen: []perigee.Token{{Text: "a", Logprob: -0.5}, {Text: "é"}},
		Top:    [][]perigee.Token{{{Text: "a", Logprob: -0.5}, {Text: "b", Logprob: -2}}, nil},
	}
	if !reflect.DeepEqual(*ev.Logprobs, want) {
		t.Errorf("got  %+v\nwant %+v", *ev.Logprobs, want)
	}
}

// Every word that the provider has for an end has one meaning for all dialects.
func TestFinishKinds(t *testing.T) {
	for reason, want := range map[string]perigee.FinishKind{
		"STOP": perigee.FinishDone, "": perigee.FinishDone, "SOMETHING_NEW": perigee.FinishDone, "FINISH_REASON_UNSPECIFIED": perigee.FinishDone,
		"MAX_TOKENS": perigee.FinishLength, "OTHER": perigee.FinishUnexplained,
		"SAFETY": perigee.FinishFiltered, "RECITATION": perigee.FinishFiltered, "IMAGE_RECITATION": perigee.FinishFiltered, "JAILBREAK": perigee.FinishFiltered,
		"MALFORMED_FUNCTION_CALL": perigee.FinishMalformed, "MISSING_THOUGHT_SIGNATURE": perigee.FinishMalformed,
	} {
		got := FinishOf(reason)
		if got.Kind != want || got.Reason != reason || (got.Error != "") != (want == perigee.FinishMalformed) {
			t.Errorf("%s is %+v", reason, got)
		}
	}
	ev := decodeOne(t, perigee.EventFinish, `{"promptFeedback":{"blockReason":"SAFETY"}}`)
	if ev.Finish.Kind != perigee.FinishFiltered || ev.Finish.Message != "the prompt was blocked" {
		t.Errorf("a blocked prompt is %+v", *ev.Finish)
	}
}
