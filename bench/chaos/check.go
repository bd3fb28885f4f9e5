package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// An outcome is the result of one call. The first group is what may happen while things break; the
// second never may.
type outcome string

const (
	whole   outcome = "whole"    // a complete answer, all of it right
	refused outcome = "refused"  // an error in the form of its dialect, in place of an answer
	broken  outcome = "broken"   // an answer that began, and an error in the form of its dialect
	left    outcome = "left"     // the client went away in the middle, as planned
	down    outcome = "not up"   // the connection failed while perigee was being stopped, killed or started
	empty   outcome = "empty"    // the provider's own answer was empty
	twice   outcome = "repeated" // the provider itself said everything twice in one answer

	lost      outcome = "lost"             // neither an answer nor an error, or not in time
	mixed     outcome = "mixed"            // chunks of another call, or in another order
	doubled   outcome = "doubled"          // a chunk twice, chunks of two attempts, or a request sent again after its answer began
	cutShort  outcome = "cut, as whole"    // a truncated answer with the normal end of its dialect
	malformed outcome = "not a true error" // an error that is not in the form of its dialect
	letIn     outcome = "let in"           // a call without a valid key was answered
	simulated outcome = "simulated"        // the built-in simulator answered
)

var (
	harmless  = []outcome{whole, refused, broken, left, down, empty, twice}
	forbidden = []outcome{lost, mixed, doubled, cutShort, malformed, letIn, simulated}
)

// mark is the text with which a chunk of an answer begins: which call, which attempt at the
// provider, which chunk of how many.
func mark(tag string, attempt, i, of int) string {
	return fmt.Sprintf("[%s.%d.%d/%d]", tag, attempt, i, of)
}

var marks = regexp.MustCompile(`\[(c\d+)\.(\d+)\.(\d+)/(\d+)\]`)

// filler is what follows a mark. Anything else in an answer is foreign.
func filler(tag string, words int) string { return strings.Repeat(tag+" ", words) }

// foreign is what remains of a text without its marks, its filler and the arguments around a mark.
func foreign(tag, text string) string {
	return strings.TrimSpace(strings.NewReplacer(tag+" ", "", `{"at":""}`, "").Replace(marks.ReplaceAllString(text, "")))
}

// An answer is what the client saw of a call.
type answer struct {
	status   int
	class    string // x-perigee-class
	upstream string // x-perigee-upstream
	id       string // x-perigee-call
	response string // id of a response, with store: true in the response that ended
	stored   bool
	text     string // text and arguments of function calls, in the order in which they came
	ended    bool   // as a complete answer ends in its dialect
	failure  string // an error in the form of its dialect
	said     string // the body of an error, for evidence
	err      error  // of the connection
}

// sent is what the provider knows about an attempt.
type sent struct {
	attempts int  // made for this tag
	later    int  // requests for this tag that came when its answer had begun
	repeated bool // it said everything twice
	empty    bool // it ended without text
}

// check compares an answer with what was asked and with what the provider sent.
func check(tag string, a *answer, provider func(attempt int) sent) (outcome, string) {
	next, attempt, of := 0, 0, 0
	for _, m := range marks.FindAllStringSubmatch(a.text, -1) {
		by, _ := strconv.Atoi(m[2])
		i, _ := strconv.Atoi(m[3])
		of, _ = strconv.Atoi(m[4])
		if m[1] != tag {
			return mixed, "chunk " + m[0] + " of another call"
		}
		if attempt == 0 {
			attempt = by
		}
		if by != attempt {
			return doubled, fmt.Sprintf("chunks of the attempts %d and %d", attempt, by)
		}
		if provider(attempt).repeated {
			next = i // the text of both answers may stand before the calls of both
		}
		if i < next {
			return doubled, fmt.Sprintf("chunk %s came again", m[0])
		}
		if i > next {
			return mixed, fmt.Sprintf("chunk %s came in place of chunk %d", m[0], next)
		}
		next++
	}
	if attempt > 0 && provider(attempt).later > 0 {
		return doubled, fmt.Sprintf("the answer is attempt %d, and %d requests came when it had begun", attempt, provider(attempt).later)
	}
	if !a.ended || a.failure != "" {
		return unfinished(a, attempt)
	}
	if text := foreign(tag, a.text); text != "" {
		return mixed, fmt.Sprintf("foreign text %.80q", text)
	}
	switch {
	case attempt == 0 && provider(0).empty:
		return empty, ""
	case attempt == 0:
		return cutShort, "a normal end without any chunk"
	case next != of:
		return cutShort, fmt.Sprintf("a normal end after %d of %d chunks", next, of)
	case provider(attempt).repeated:
		return twice, ""
	}
	return whole, ""
}

// unfinished judges a call without a normal end.
func unfinished(a *answer, attempt int) (outcome, string) {
	switch {
	case a.status >= 400 && a.failure == "":
		return malformed, "an error that is not in the form of its dialect: " + a.said
	case a.status >= 400:
		return refused, ""
	case a.failure != "" && attempt == 0:
		return refused, ""
	case a.failure != "":
		return broken, ""
	case a.err != nil:
		return lost, a.err.Error()
	}
	return lost, "the connection ended without an answer or an error"
}
